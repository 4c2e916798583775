// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import java.math.BigDecimal;
import java.math.MathContext;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class LocalBucketsTests {

    private static final RateLimit HUNDRED_A_MINUTE = RateLimit.of(100, Duration.ofMinutes(1));

    private final AtomicLong nanos = new AtomicLong(Long.MAX_VALUE - 1_000_000_000L);
    private final LocalBuckets buckets = new LocalBuckets(1_000, nanos::get);

    private void pass(Duration time) {
        nanos.addAndGet(time.toNanos());
    }

    private RateLimitDecision call() {
        return buckets.tryAcquire("bucket", HUNDRED_A_MINUTE, 1);
    }

    private void drain() {
        for (int i = 0; i < 100; i++) {
            assertThat(call().allowed()).isTrue();
        }
        assertThat(call().allowed()).isFalse();
    }

    @Test
    void full_bucket_admits_its_burst_and_then_refilled_tokens() {
        drain();
        assertThat(call().retryAfter()).isEqualTo(Duration.ofMillis(600));
        pass(Duration.ofMillis(599));
        assertThat(call().allowed()).isFalse();
        pass(Duration.ofMillis(1));
        assertThat(call().allowed()).isTrue();
        assertThat(call().allowed()).isFalse();
    }

    @Test
    void denied_call_consumes_no_token() {
        drain();
        for (int i = 0; i < 1_000; i++) {
            assertThat(call().allowed()).isFalse();
        }
        pass(Duration.ofMillis(600));
        assertThat(call().allowed()).isTrue();
    }

    @Test
    void call_after_the_retry_time_is_admitted() {
        RateLimit odd = new RateLimit(7, Duration.ofMillis(1_234), 3);
        for (int i = 0; i < 10_000; i++) {
            RateLimitDecision decision = buckets.tryAcquire("odd", odd, 1);
            if (!decision.allowed()) {
                pass(decision.retryAfter());
                assertThat(buckets.tryAcquire("odd", odd, 1).allowed()).isTrue();
            }
        }
    }

    @Test
    void changed_limit_takes_effect_at_once() {
        drain();
        RateLimit more = HUNDRED_A_MINUTE.withBurst(150);
        assertThat(buckets.tryAcquire("bucket", more, 50).allowed()).isTrue();
        assertThat(buckets.tryAcquire("bucket", more, 1).allowed()).isFalse();
        RateLimit less = RateLimit.of(10, Duration.ofMinutes(1));
        assertThat(buckets.tryAcquire("bucket", less, 1).retryAfter()).isEqualTo(Duration.ofSeconds(6));
    }

    @Test
    void permits_of_one_call_are_all_granted_or_none() {
        assertThat(buckets.tryAcquire("bucket", HUNDRED_A_MINUTE, 60).allowed()).isTrue();
        RateLimitDecision denied = buckets.tryAcquire("bucket", HUNDRED_A_MINUTE, 60);
        assertThat(denied.allowed()).isFalse();
        assertThat(denied.remaining()).isEqualTo(40);
        assertThat(denied.retryAfter()).isEqualTo(Duration.ofSeconds(12));
        assertThat(buckets.tryAcquire("bucket", HUNDRED_A_MINUTE, 40).allowed()).isTrue();
    }

    @Test
    void bucket_that_is_full_again_is_dropped_and_one_that_is_not_is_kept() {
        buckets.tryAcquire("soon", HUNDRED_A_MINUTE, 1);
        RateLimit daily = RateLimit.of(1, Duration.ofDays(1));
        buckets.tryAcquire("late", daily, 1);
        assertThat(buckets.size()).isEqualTo(2);
        pass(Duration.ofHours(23));
        assertThat(buckets.size()).isEqualTo(1);
        assertThat(buckets.tryAcquire("late", daily, 1).allowed()).isFalse();
    }

    @Test
    void number_of_buckets_is_bounded() {
        for (int i = 0; i < 50_000; i++) {
            buckets.tryAcquire("address " + i, HUNDRED_A_MINUTE, 1);
        }
        assertThat(buckets.size()).isLessThanOrEqualTo(1_000);
    }

    @Test
    void many_threads_are_admitted_as_often_as_one() throws Exception {
        var admitted = new AtomicInteger();
        var threads = Executors.newFixedThreadPool(8);
        for (int i = 0; i < 8; i++) {
            threads.execute(() -> {
                for (int n = 0; n < 1_000; n++) {
                    if (call().allowed()) {
                        admitted.incrementAndGet();
                    }
                }
            });
        }
        threads.shutdown();
        assertThat(threads.awaitTermination(60, TimeUnit.SECONDS)).isTrue();
        assertThat(admitted).hasValue(100);
    }

    @Property(seed = "1", tries = 500)
    void decisions_are_those_of_exact_arithmetic(
            @ForAll @IntRange(min = 1, max = 1_000) int requests,
            @ForAll @LongRange(min = 1, max = 100_000) long perMillis,
            @ForAll @IntRange(min = 1, max = 50) int burst,
            @ForAll @Size(min = 1, max = 200) List<@LongRange(min = 0, max = 500_000_000) Long> pauses) {
        RateLimit limit = new RateLimit(requests, Duration.ofMillis(perMillis), burst);
        var clock = new AtomicLong();
        var own = new LocalBuckets(10, clock::get);
        BigDecimal perNano = BigDecimal.valueOf(requests)
                .divide(BigDecimal.valueOf(Duration.ofMillis(perMillis).toNanos()), MathContext.DECIMAL128);
        BigDecimal tokens = BigDecimal.valueOf(burst);
        for (long pause : pauses) {
            clock.addAndGet(pause);
            tokens = tokens.add(perNano.multiply(BigDecimal.valueOf(pause))).min(BigDecimal.valueOf(burst));
            boolean allowed = own.tryAcquire("bucket", limit, 1).allowed();
            if (tokens.subtract(BigDecimal.ONE).abs().compareTo(new BigDecimal("0.00001")) > 0) {
                assertThat(allowed).isEqualTo(tokens.compareTo(BigDecimal.ONE) >= 0);
            }
            if (allowed) {
                tokens = tokens.subtract(BigDecimal.ONE);
            }
        }
    }
}
