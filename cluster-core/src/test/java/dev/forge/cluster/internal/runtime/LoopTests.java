// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

class LoopTests {

    private static final Duration NEVER = Duration.ofDays(1);
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    private final ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
    private final AtomicInteger passes = new AtomicInteger();
    private final AtomicLong nanos = new AtomicLong();

    @BeforeEach
    void start() {
        scheduler.setPoolSize(2);
        scheduler.setRemoveOnCancelPolicy(true);
        scheduler.initialize();
    }

    @AfterEach
    void stop() {
        scheduler.shutdown();
    }

    private Loop loop(Duration pause, Runnable pass) {
        return new Loop("test", () -> pause, pass, environment());
    }

    private Loop.Environment environment() {
        return new Loop.Environment(scheduler, nanos::get, since -> true);
    }

    @Test
    void pass_that_throws_does_not_end_the_loop() throws Exception {
        Loop loop = loop(Duration.ofMillis(1), () -> {
            passes.incrementAndGet();
            throw new IllegalStateException("on purpose");
        });
        loop.start();
        await().atMost(PATIENCE).until(() -> passes.get() >= 5);
        assertThat(loop.stop(PATIENCE)).isTrue();
    }

    @Test
    void pause_that_throws_does_not_end_the_loop() throws Exception {
        var loop = new Loop(
                "test",
                () -> {
                    if (passes.get() == 1) {
                        throw new IllegalStateException("on purpose");
                    }
                    return Duration.ofMillis(1);
                },
                passes::incrementAndGet,
                environment());
        loop.start();
        await().atMost(PATIENCE).until(() -> passes.get() >= 3);
        assertThat(loop.stop(PATIENCE)).isTrue();
    }

    /** An exception whose getMessage throws. */
    private static final class Unprintable extends IllegalStateException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }

        @Override
        public synchronized Throwable getCause() {
            throw new IllegalStateException("no cause");
        }
    }

    @Test
    void logger_that_throws_does_not_end_the_loop() throws Exception {
        Loop loop = loop(Duration.ofMillis(1), () -> {
            passes.incrementAndGet();
            throw new Unprintable();
        });
        loop.start();
        await().atMost(PATIENCE).until(() -> passes.get() >= 5);
        assertThat(loop.stop(PATIENCE)).isTrue();
    }

    @Test
    void wake_during_a_pass_causes_exactly_one_more_pass() throws Exception {
        var entered = new Semaphore(0);
        var proceed = new Semaphore(0);
        Loop loop = loop(NEVER, () -> {
            passes.incrementAndGet();
            entered.release();
            proceed.acquireUninterruptibly();
        });
        loop.start();
        loop.wake();
        entered.acquire();
        loop.wake();
        loop.wake();
        proceed.release(2);
        entered.acquire();
        await().atMost(PATIENCE).until(() -> loop.stop(Duration.ofMillis(100)));
        assertThat(passes).hasValue(2);
    }

    @Test
    void stop_waits_for_the_running_pass_and_no_other_begins() throws Exception {
        var entered = new CountDownLatch(1);
        var proceed = new CountDownLatch(1);
        Loop loop = loop(NEVER, () -> {
            passes.incrementAndGet();
            entered.countDown();
            try {
                proceed.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        loop.start();
        loop.wake();
        assertThat(entered.await(60, TimeUnit.SECONDS)).isTrue();
        assertThat(loop.stop(Duration.ofMillis(10))).isFalse();
        proceed.countDown();
        assertThat(loop.stop(PATIENCE)).isTrue();
        loop.wake();
        assertThat(scheduler.getScheduledThreadPoolExecutor().getQueue()).isEmpty();
        assertThat(passes).hasValue(1);
    }

    @Test
    void loop_whose_pass_hangs_is_stuck_until_it_ends() throws Exception {
        var entered = new CountDownLatch(1);
        var proceed = new Semaphore(0);
        Loop loop = loop(Duration.ofSeconds(1), () -> {
            entered.countDown();
            proceed.acquireUninterruptibly();
        });
        loop.start();
        loop.wake();
        assertThat(entered.await(60, TimeUnit.SECONDS)).isTrue();
        assertThat(loop.isStuck()).isFalse();
        nanos.addAndGet(Duration.ofSeconds(17).toNanos());
        assertThat(loop.isStuck()).isTrue();
        proceed.release(100);
        await().atMost(PATIENCE).until(() -> !loop.isStuck());
        assertThat(loop.stop(PATIENCE)).isTrue();
        nanos.addAndGet(Duration.ofDays(1).toNanos());
        assertThat(loop.isStuck()).isFalse();
    }

    @Test
    void loop_that_is_started_woken_and_stopped_at_once_runs_no_two_passes_together_and_none_after_stop()
            throws Exception {
        var together = new AtomicInteger();
        var overlaps = new AtomicInteger();
        Loop loop = loop(Duration.ZERO, () -> {
            if (together.incrementAndGet() > 1) {
                overlaps.incrementAndGet();
            }
            passes.incrementAndGet();
            together.decrementAndGet();
        });
        for (int round = 0; round < 300; round++) {
            loop.start();
            loop.wake();
            assertThat(loop.stop(PATIENCE)).isTrue();
            int after = passes.get();
            loop.wake();
            assertThat(passes).hasValue(after);
        }
        assertThat(overlaps).hasValue(0);
    }

    @Test
    void failed_duty_keeps_no_other_from_being_done() {
        var done = new ArrayList<String>();
        var first = new IllegalStateException("first");
        var second = new IllegalStateException("second");
        assertThatThrownBy(() -> Loop.each(
                        () -> done.add("a"),
                        () -> {
                            throw first;
                        },
                        () -> done.add("b"),
                        () -> {
                            throw second;
                        },
                        () -> done.add("c")))
                .isSameAs(first)
                .hasSuppressedException(second);
        assertThat(done).containsExactly("a", "b", "c");
    }
}
