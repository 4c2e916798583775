// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/** Responses that callers share. */
class SharedReadsTests {

    private static final SharedReads.Key NODES = new SharedReads.Key(List.of("nodes"), Map.of(), true);

    private final AtomicLong nanos = new AtomicLong();
    private final AtomicInteger count = new AtomicInteger();
    private final SharedReads reads = new SharedReads(nanos::get);

    private static DashboardResponse response(int size) {
        return new DashboardResponse(200, Map.of(), new byte[size]);
    }

    private Supplier<DashboardResponse> counted(int size) {
        return () -> {
            count.incrementAndGet();
            return response(size);
        };
    }

    private void pass(long millis) {
        nanos.addAndGet(TimeUnit.MILLISECONDS.toNanos(millis));
    }

    @Test
    void response_is_shared_for_one_second() {
        DashboardResponse first = reads.get(NODES, counted(1));
        pass(999);
        assertThat(reads.get(NODES, counted(1))).isSameAs(first);
        assertThat(count).hasValue(1);
        pass(1);
        assertThat(reads.get(NODES, counted(1))).isNotSameAs(first);
        assertThat(count).hasValue(2);
    }

    @Test
    void callers_with_other_permissions_or_parameters_share_nothing() {
        reads.get(NODES, counted(1));
        reads.get(new SharedReads.Key(List.of("nodes"), Map.of(), false), counted(1));
        reads.get(new SharedReads.Key(List.of("jobs"), Map.of(), true), counted(1));
        reads.get(new SharedReads.Key(List.of("jobs"), Map.of("name", "a"), true), counted(1));
        assertThat(count).hasValue(4);
    }

    @Test
    void fifty_concurrent_callers_cause_one_read() throws Exception {
        var started = new CountDownLatch(1);
        var release = new CountDownLatch(1);
        var threads = Executors.newFixedThreadPool(50);
        try {
            Supplier<DashboardResponse> slow = () -> {
                count.incrementAndGet();
                started.countDown();
                try {
                    assertThat(release.await(60, TimeUnit.SECONDS)).isTrue();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                return response(1);
            };
            var results = new ArrayList<Future<DashboardResponse>>();
            results.add(threads.submit(() -> reads.get(NODES, slow)));
            assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
            // Older than a second, but still being read.
            pass(14_999);
            for (int i = 1; i < 50; i++) {
                results.add(threads.submit(() -> reads.get(NODES, slow)));
            }
            release.countDown();
            for (Future<DashboardResponse> result : results) {
                assertThat(result.get(60, TimeUnit.SECONDS).status()).isEqualTo(200);
            }
            assertThat(count.get()).isLessThanOrEqualTo(2);
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void failure_reaches_those_who_wait_and_is_not_kept() throws Exception {
        var started = new CountDownLatch(1);
        var release = new CountDownLatch(1);
        CompletableFuture<DashboardResponse> first = CompletableFuture.supplyAsync(() -> reads.get(NODES, () -> {
            started.countDown();
            try {
                assertThat(release.await(60, TimeUnit.SECONDS)).isTrue();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            throw new IllegalStateException("no database");
        }));
        assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
        var waiting = new Thread(() -> {
            try {
                reads.get(NODES, counted(1));
            } catch (IllegalStateException e) {
                assertThat(e).hasMessage("no database");
                count.addAndGet(500);
            }
        });
        waiting.start();
        await().until(() -> waiting.getState() == Thread.State.TIMED_WAITING);
        release.countDown();
        waiting.join();
        assertThat(count).hasValue(500);
        assertThatThrownBy(first::join).hasRootCauseMessage("no database");
        assertThat(reads.get(NODES, counted(1)).status()).isEqualTo(200);
    }

    @Test
    void caller_is_refused_if_too_many_wait() throws Exception {
        var started = new CountDownLatch(1);
        var release = new CountDownLatch(1);
        var threads = Executors.newCachedThreadPool();
        try {
            Supplier<DashboardResponse> slow = () -> {
                started.countDown();
                try {
                    assertThat(release.await(60, TimeUnit.SECONDS)).isTrue();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                return response(1);
            };
            var results = new ArrayList<Future<DashboardResponse>>();
            results.add(threads.submit(() -> reads.get(NODES, slow)));
            assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
            for (int i = 0; i < SharedReads.MOST_WAITING; i++) {
                results.add(threads.submit(() -> reads.get(NODES, slow)));
            }
            await().until(() -> reads.waiting() == SharedReads.MOST_WAITING);
            assertThatThrownBy(() -> reads.get(NODES, slow)).hasMessageContaining("Too many callers wait");
            release.countDown();
            for (Future<DashboardResponse> result : results) {
                assertThat(result.get(60, TimeUnit.SECONDS).status()).isEqualTo(200);
            }
            assertThat(reads.waiting()).isZero();
            assertThat(reads.get(NODES, slow).status()).isEqualTo(200);
        } finally {
            release.countDown();
            threads.shutdownNow();
        }
    }

    @Test
    void read_that_is_stuck_does_not_keep_others_from_reading() throws Exception {
        var started = new CountDownLatch(1);
        var release = new CountDownLatch(1);
        CompletableFuture<DashboardResponse> stuck = CompletableFuture.supplyAsync(() -> reads.get(NODES, () -> {
            started.countDown();
            try {
                assertThat(release.await(60, TimeUnit.SECONDS)).isTrue();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return response(1);
        }));
        assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
        pass(15_000);
        assertThat(reads.get(NODES, counted(1)).status()).isEqualTo(200);
        assertThat(count).hasValue(1);
        release.countDown();
        assertThat(stuck.get(60, TimeUnit.SECONDS).status()).isEqualTo(200);
    }

    @Test
    void change_ends_the_sharing() {
        reads.get(NODES, counted(1));
        reads.clear();
        reads.get(NODES, counted(1));
        assertThat(count).hasValue(2);
    }

    @Test
    void memory_is_bounded() {
        for (int i = 0; i < 1_000; i++) {
            reads.get(new SharedReads.Key(List.of("jobs"), Map.of("name", "n" + i), true), counted(1));
        }
        assertThat(reads.size()).isLessThanOrEqualTo(SharedReads.MOST_ENTRIES);
        pass(1_000);
        for (int i = 0; i < 20; i++) {
            reads.get(new SharedReads.Key(List.of("jobs"), Map.of("name", "m" + i), true), counted(1024 * 1024));
        }
        assertThat(reads.size()).isLessThanOrEqualTo(8);
        reads.clear();
        reads.get(NODES, counted(1024 * 1024 + 1));
        assertThat(reads.size()).isZero();
    }
}
