// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.json;

import java.util.LinkedHashMap;
import org.jspecify.annotations.Nullable;

/** A JSON object: its members in the order in which they are written. Members without a value are absent. */
public final class JsonObject extends LinkedHashMap<String, @Nullable Object> {

    private static final long serialVersionUID = 1L;

    /** Adds or replaces a member; null: the object does not change. */
    public JsonObject with(String name, @Nullable Object value) {
        if (value != null) {
            put(name, value);
        }
        return this;
    }

    /** Adds all members of another object. */
    public JsonObject withAll(JsonObject members) {
        putAll(members);
        return this;
    }
}
