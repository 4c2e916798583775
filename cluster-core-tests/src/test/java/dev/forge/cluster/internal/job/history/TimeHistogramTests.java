// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** The histogram of times. */
class TimeHistogramTests {

    @ParameterizedTest
    @CsvSource({
        "-5, 0",
        "0, 0",
        "999999, 0",
        "1000000, 1",
        "1414213, 1",
        "1414214, 2",
        "1999999, 2",
        "2000000, 3",
        "3600000000000, 44",
        "2147483647000000, 62",
        "2147483648000000, 63",
        "9223372036854775807, 63"
    })
    void time_has_its_bucket(long nanos, int bucket) {
        assertThat(TimeHistogram.bucket(nanos)).isEqualTo(bucket);
    }

    /** Distributions of times between a millisecond and 24 days. */
    private enum Times {
        ALIKE {
            @Override
            LongSupplier from(Random random) {
                long time = anyTime(random);
                return () -> time;
            }
        },
        NEARLY_ALIKE {
            @Override
            LongSupplier from(Random random) {
                long time = Math.max(MILLI + 1_000, anyTime(random));
                return () -> time + random.nextInt(2_000) - 1_000;
            }
        },
        EVEN {
            @Override
            LongSupplier from(Random random) {
                long longest = Math.max(2 * MILLI, anyTime(random));
                return () -> random.nextLong(MILLI, longest);
            }
        },
        EVEN_ON_A_LOGARITHMIC_SCALE {
            @Override
            LongSupplier from(Random random) {
                return () -> anyTime(random);
            }
        },
        TWO_PEAKS {
            @Override
            LongSupplier from(Random random) {
                long one = anyTime(random);
                long other = anyTime(random);
                double share = random.nextDouble();
                return () -> random.nextDouble() < share ? one : other;
            }
        },
        AT_ENDS_OF_BUCKETS {
            @Override
            LongSupplier from(Random random) {
                int bucket = 1 + random.nextInt(TimeHistogram.BUCKETS - 3);
                return () -> {
                    long end = (long) Math.ceil(MILLI * Math.pow(2, (bucket + random.nextInt(2)) / 2.0));
                    return end - random.nextInt(2);
                };
            }
        };

        private static final long MILLI = 1_000_000;

        abstract LongSupplier from(Random random);

        private static long anyTime(Random random) {
            return (long) (MILLI * Math.pow(2, 30.9 * random.nextDouble()));
        }
    }

    @ParameterizedTest
    @EnumSource
    void percentile_is_off_by_less_than_a_fifth(Times distribution) {
        var random = new Random(42);
        for (int round = 0; round < 500; round++) {
            LongSupplier times = distribution.from(random);
            long[] nanos = new long[1 + random.nextInt(300)];
            Arrays.setAll(nanos, i -> times.getAsLong());
            long[] counts = new long[TimeHistogram.BUCKETS];
            Arrays.stream(nanos).forEach(time -> counts[TimeHistogram.bucket(time)]++);
            Arrays.sort(nanos);
            for (int percent : new int[] {1, 50, 95, 100}) {
                double exact = nanos[(percent * nanos.length + 99) / 100 - 1];
                Duration percentile = TimeHistogram.percentile(counts, percent);
                assertThat(percentile).isNotNull();
                assertThat(percentile.toNanos() / exact)
                        .as(
                                "round %d: p%d of %d times is %s, exactly %s",
                                round, percent, nanos.length, percentile, exact)
                        .isBetween(0.8, 1.2);
                assertThat(TimeHistogram.bucket(percentile.toNanos())).isEqualTo(TimeHistogram.bucket((long) exact));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"20, 19483", "536, 623487"})
    void times_that_are_all_alike_have_one_percentile(long seconds, long millis) {
        long[] counts = new long[TimeHistogram.BUCKETS];
        counts[TimeHistogram.bucket(Duration.ofSeconds(seconds).toNanos())] = 1_000;
        Duration p95 = TimeHistogram.percentile(counts, 95);
        assertThat(p95).isNotNull().isEqualTo(TimeHistogram.percentile(counts, 1));
        assertThat(p95.toMillis()).isEqualTo(millis);
    }

    @Test
    void percentile_of_times_below_a_millisecond_is_half_of_one() {
        long[] counts = new long[TimeHistogram.BUCKETS];
        counts[0] = 7;
        assertThat(TimeHistogram.percentile(counts, 50)).isEqualTo(Duration.ofNanos(500_000));
    }

    @Test
    void empty_histogram_has_no_percentile() {
        assertThat(TimeHistogram.percentile(new long[TimeHistogram.BUCKETS], 50))
                .isNull();
    }

    @Test
    void percentile_of_the_longest_times_is_the_beginning_of_their_bucket() {
        long[] counts = new long[TimeHistogram.BUCKETS];
        counts[TimeHistogram.BUCKETS - 1] = 3;
        assertThat(TimeHistogram.percentile(counts, 95)).isEqualTo(Duration.ofMillis(1L << 31));
    }
}
