// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.json;

import com.fasterxml.jackson.annotation.JsonRawValue;
import com.fasterxml.jackson.annotation.JsonValue;

/**
 * A stored value in a descriptor, which becomes part of the response as it is: numbers keep all digits, and nothing is parsed.
 *
 * @param text JSON that PostgreSQL has validated
 */
public record StoredJson(String text) {

    @Override
    @JsonValue
    @JsonRawValue
    public String text() {
        return text;
    }
}
