// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

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

    @ParameterizedTest
    @ValueSource(doubles = {0.5, 0.95, 1})
    void percentile_is_off_by_less_than_a_fifth(double share) {
        var random = new Random(42);
        long[] nanos = random.longs(2_000, 1_000_000, 5_000_000_000L).toArray();
        long[] counts = new long[TimeHistogram.BUCKETS];
        Arrays.stream(nanos).forEach(time -> counts[TimeHistogram.bucket(time)]++);
        Arrays.sort(nanos);
        double exact = nanos[(int) Math.ceil(share * nanos.length) - 1];
        Duration percentile = TimeHistogram.percentile(counts, share);
        assertThat(percentile).isNotNull();
        assertThat(percentile.toNanos()).isBetween((long) (exact / 1.2), (long) (exact * 1.2));
    }

    @Test
    void empty_histogram_has_no_percentile() {
        assertThat(TimeHistogram.percentile(new long[TimeHistogram.BUCKETS], 0.5))
                .isNull();
    }

    @Test
    void percentile_of_the_longest_times_is_the_beginning_of_their_bucket() {
        long[] counts = new long[TimeHistogram.BUCKETS];
        counts[TimeHistogram.BUCKETS - 1] = 3;
        assertThat(TimeHistogram.percentile(counts, 0.95)).isEqualTo(Duration.ofMillis(1L << 31));
    }
}
