// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.value;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class NamePatternTests {

    @ParameterizedTest
    @CsvSource({
        "ml::*,       ml::train,        true",
        "ml::*,       ml::a::b,         false",
        "ml::*,       ml,               false",
        "**::heavy_*, heavy_x,          true",
        "**::heavy_*, a::b::heavy_y,    true",
        "**::heavy_*, a::heavy,         false",
        "ml::**,      ml,               true",
        "ml::**,      ml::a::b,         true",
        "ml::**,      mlx,              false",
        "*,           a,                true",
        "*,           a::b,             false",
        "**,          a::b::c,          true",
        "ab*ba,       aba,              false",
        "ab*ba,       abba,             true",
        "ab*ba,       abxba,            true",
        "a::**::z,    a::z,             true",
        "a::**::z,    a::b::c::z,       true",
        "a::**::z,    a::b::c,          false",
        "process.order, process-order,  false",
        "*-order,     process-order,    true",
    })
    void pattern_matches_within_and_across_segments(String pattern, String name, boolean expected) {
        assertThat(new NamePattern(pattern).matches(name)).isEqualTo(expected);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "::", "a::", "::a", "a::::b", "a**", "***", "**b::c", "a:b", "a b"})
    void malformed_pattern_is_rejected(String pattern) {
        assertThatIllegalArgumentException().isThrownBy(() -> new NamePattern(pattern));
    }
}
