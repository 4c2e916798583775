// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

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

    private static SiteResponse response(int size) {
        return new SiteResponse(200, Map.of(), new byte[size]);
    }

    private Supplier<SiteResponse> counted(int size) {
        return () -> {
            count.incrementAndGet();
            return response(size);
        };
    }

    /** A read that waits until the test lets it end. */
    private static final class SlowRead {

        private final CountDownLatch started = new CountDownLatch(1);
        private final CountDownLatch released = new CountDownLatch(1);

        SiteResponse response() {
            started.countDown();
            await(released);
            return SharedReadsTests.response(1);
        }

        void awaitStart() {
            await(started);
        }

        void release() {
            released.countDown();
        }

        private static void await(CountDownLatch latch) {
            try {
                assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private void pass(long millis) {
        nanos.addAndGet(TimeUnit.MILLISECONDS.toNanos(millis));
    }

    @Test
    void response_is_shared_for_one_second() {
        SiteResponse first = reads.get(NODES, counted(1));
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
        var read = new SlowRead();
        var threads = Executors.newFixedThreadPool(50);
        try {
            Supplier<SiteResponse> slow = () -> {
                count.incrementAndGet();
                return read.response();
            };
            var results = new ArrayList<Future<SiteResponse>>();
            results.add(threads.submit(() -> reads.get(NODES, slow)));
            read.awaitStart();
            // Older than a second, but still being read.
            pass(14_999);
            for (int i = 1; i < 50; i++) {
                results.add(threads.submit(() -> reads.get(NODES, slow)));
            }
            read.release();
            for (Future<SiteResponse> result : results) {
                assertThat(result.get(60, TimeUnit.SECONDS).status()).isEqualTo(200);
            }
            assertThat(count.get()).isLessThanOrEqualTo(2);
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void failure_reaches_those_who_wait_and_is_not_kept() throws Exception {
        var read = new SlowRead();
        CompletableFuture<SiteResponse> first = CompletableFuture.supplyAsync(() -> reads.get(NODES, () -> {
            read.response();
            throw new IllegalStateException("no database");
        }));
        read.awaitStart();
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
        read.release();
        waiting.join();
        assertThat(count).hasValue(500);
        assertThatThrownBy(first::join).hasRootCauseMessage("no database");
        assertThat(reads.get(NODES, counted(1)).status()).isEqualTo(200);
    }

    @Test
    void caller_is_refused_if_too_many_wait() throws Exception {
        var read = new SlowRead();
        var threads = Executors.newCachedThreadPool();
        try {
            Supplier<SiteResponse> slow = read::response;
            var results = new ArrayList<Future<SiteResponse>>();
            results.add(threads.submit(() -> reads.get(NODES, slow)));
            read.awaitStart();
            for (int i = 0; i < SharedReads.MOST_WAITING; i++) {
                results.add(threads.submit(() -> reads.get(NODES, slow)));
            }
            await().until(() -> reads.waiting() == SharedReads.MOST_WAITING);
            assertThatThrownBy(() -> reads.get(NODES, slow)).hasMessageContaining("Too many callers wait");
            read.release();
            for (Future<SiteResponse> result : results) {
                assertThat(result.get(60, TimeUnit.SECONDS).status()).isEqualTo(200);
            }
            assertThat(reads.waiting()).isZero();
            assertThat(reads.get(NODES, slow).status()).isEqualTo(200);
        } finally {
            read.release();
            threads.shutdownNow();
        }
    }

    @Test
    void read_that_is_stuck_does_not_keep_others_from_reading() throws Exception {
        var read = new SlowRead();
        CompletableFuture<SiteResponse> stuck = CompletableFuture.supplyAsync(() -> reads.get(NODES, read::response));
        read.awaitStart();
        pass(15_000);
        assertThat(reads.get(NODES, counted(1)).status()).isEqualTo(200);
        assertThat(count).hasValue(1);
        read.release();
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
