// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.time.Instant;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PlainTextTests {

    @ParameterizedTest
    @CsvSource({
        "PT0S, 0 ms",
        "PT0.85S, 850 ms",
        "PT1.5S, 1.5 s",
        "PT2S, 2 s",
        "PT9.96S, 9.9 s",
        "PT12.4S, 12 s",
        "PT59.7S, 1 min",
        "PT5M3S, 5 min 3 s",
        "PT1H57M6.018S, 1 h 57 min",
        "PT23H59M59.9S, 1 d",
        "P3DT4H, 3 d 4 h",
        "PT-2S, 2 s"
    })
    void duration_has_its_two_largest_units(Duration duration, String text) {
        assertThat(PlainText.duration(duration)).isEqualTo(text);
    }

    @Test
    void time_has_no_fraction_of_a_second() {
        assertThat(PlainText.time(Instant.parse("2026-11-18T12:23:03.908844Z"))).isEqualTo("2026-11-18T12:23:03Z");
    }

    @Test
    void one_thing_is_counted_in_the_singular() {
        assertThat(PlainText.count(1, "job", "jobs")).isEqualTo("1 job");
        assertThat(PlainText.count(0, "job", "jobs")).isEqualTo("0 jobs");
    }
}
