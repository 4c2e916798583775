// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Texts of unknown origin in log lines and in the audit trail. */
class NamesTests {

    @ParameterizedTest
    @ValueSource(strings = {"plain", "Größe 7 <b>", "日本語", "שלום", "مرحبا", "family 👨‍👩‍👧"})
    void readable_text_stays(String text) {
        assertThat(Names.printable(text)).isEqualTo(text);
    }

    @ParameterizedTest
    @ValueSource(
            ints = {
                0, '\n', 0x1b, 0x85, 0x2028, 0x2029, 0xd800, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067,
                0x2068, 0x2069
            })
    void character_that_could_mislead_the_reader_becomes_a_question_mark(int code) {
        assertThat(Names.printable("a" + (char) code + "b")).isEqualTo("a?b");
    }

    @Test
    void long_text_ends_with_dots() {
        assertThat(Names.printable("abcdef", 3)).isEqualTo("abc...");
    }
}
