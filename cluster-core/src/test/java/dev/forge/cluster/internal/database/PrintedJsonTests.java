// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Sizes of JSON as PostgreSQL prints it. */
class PrintedJsonTests {

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '~', textBlock = """
            {}                     | 2
            {"a":1}                | 7
            1e3                    | 4
            1E+3                   | 4
            -1e3                   | 4
            1e-3                   | 4
            1.7976931348623157E308 | 309
            4.9E-324               | 326
            [1e10,"1e10"]          | 20
            "1e131000"             | 10
            "a\\"1e131000"         | 13
            "\u00fc\u20ac"         | 7
            true                   | 4
            """)
    void numbers_count_as_they_are_printed(String json, long bytes) {
        assertThat(PrintedJson.bytes(json)).isEqualTo(bytes);
        assertThat(PrintedJson.requireBytes(json)).isEqualTo(bytes);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "1e1000",
                "-1e131000",
                "[{\"a\":1E+131000}]",
                "1e-1000",
                "0.1e99999999999999999999",
                "1e-99999999999"
            })
    void number_with_more_than_a_thousand_digits_is_rejected(String json) {
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> PrintedJson.requireBytes(json))
                .withMessageContainingAll("digits", "at most 1000");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "-", "1e", "1e+", "\"", "\"\\", "[1,", "1.", "nonsense"})
    void text_that_is_no_json_is_not_rejected(String text) {
        assertThat(PrintedJson.requireBytes(text)).isNotNegative();
    }

    @Test
    void null_has_no_bytes() {
        assertThat(PrintedJson.bytes(null)).isZero();
    }
}
