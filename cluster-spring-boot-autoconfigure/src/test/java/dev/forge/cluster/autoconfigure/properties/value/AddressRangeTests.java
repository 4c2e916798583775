// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.value;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AddressRangeTests {

    @ParameterizedTest
    @ValueSource(strings = {"127.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "2001:DB8::5"})
    void numeric_address_is_parsed(String text) {
        assertThat(AddressRange.bytes(text)).isNotNull();
    }

    /** The JDK would look up some of these texts in the name server. */
    @ParameterizedTest
    @ValueSource(strings = {".::1", "..:", "localhost", "cafe", "1.2.3", "1.2.3.256", "::g", "", ":::"})
    void any_other_text_is_no_address(String text) {
        assertThat(AddressRange.bytes(text)).isNull();
    }
}
