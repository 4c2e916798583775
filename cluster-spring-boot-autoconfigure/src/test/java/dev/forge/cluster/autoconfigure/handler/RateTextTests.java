// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.ratelimit.RateLimit;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RateTextTests {

    @ParameterizedTest
    @CsvSource({
        "10/s, 10, PT1S",
        "1/15m, 1, PT15M",
        "7/1500ms, 7, PT1.5S",
        "3/ms, 3, PT0.001S",
        "2/h, 2, PT1H",
        "5/2d, 5, PT48H"
    })
    void rate_is_parsed_and_printed_with_the_longest_unit(String text, long requests, Duration per) {
        RateLimit rate = new RateLimit(requests, per, 4);
        assertThat(RateText.parse(text, 4)).isEqualTo(rate);
        assertThat(RateText.of(rate)).isEqualTo(text);
    }

    @Test
    void spaces_and_capitals_are_accepted() {
        assertThat(RateText.parse(" 10 / 2 S ", 1)).isEqualTo(new RateLimit(10, Duration.ofSeconds(2), 1));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "often",
                "10",
                "10/",
                "/s",
                "-1/s",
                "1.5/s",
                "10/w",
                "99999999999/s",
                "0/s",
                "1/0s",
                "1/999999999999d"
            })
    void text_that_is_no_rate_is_rejected(String text) {
        assertThatIllegalArgumentException().isThrownBy(() -> RateText.parse(text, 1));
    }
}
