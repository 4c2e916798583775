// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** The values that an explanation names, as a caller sees them. */
class MaskedExplanationTests {

    private static final String MASK = "******";

    @Test
    void shown_value_is_not_replaced_again() {
        assertThat(JobsResource.masked("Group 'a' waits for 'b'.", Map.of("a", "b", "b", MASK)))
                .isEqualTo("Group 'b' waits for '******'.");
    }

    @Test
    void value_that_begins_with_another_one_is_replaced_as_a_whole() {
        assertThat(JobsResource.masked(
                        "Group 'acme' secret' and 'acme'.", Map.of("acme", "shown", "acme' secret", MASK)))
                .isEqualTo("Group '******' and 'shown'.");
    }

    @Test
    void characters_with_a_meaning_in_patterns_are_those_of_the_value() {
        assertThat(JobsResource.masked("Group 'a.*$1\\E' and 'axx$1'.", Map.of("a.*$1\\E", "$0\\")))
                .isEqualTo("Group '$0\\' and 'axx$1'.");
    }
}
