// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.internal.runtime.Names;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * The members of a JSON object that a client has sent. Unknown members are rejected, because a misspelt one would be ignored silently.
 * A member that is null counts as absent.
 */
final class JsonFields {

    private static final int SHOWN = 50;

    private final Map<String, @Nullable Object> values;

    private JsonFields(Map<String, @Nullable Object> values) {
        this.values = values;
    }

    /**
     * Returns the members of an object.
     *
     * @param what the name of the object in messages
     * @throws Refusal if the value is not an object, or has unknown members
     */
    static JsonFields of(@Nullable Object json, String what, Set<String> known) {
        if (!(json instanceof Map<?, ?> map)) {
            throw Refusal.malformed("%s must be a JSON object".formatted(what));
        }
        var values = new LinkedHashMap<String, @Nullable Object>();
        map.forEach((key, value) -> values.put(String.valueOf(key), value));
        for (String key : values.keySet()) {
            if (!known.contains(key)) {
                throw Refusal.malformed("%s has an unknown member '%s'; known members are %s"
                        .formatted(
                                what,
                                key.length() > SHOWN ? key.substring(0, SHOWN) + "..." : key,
                                new TreeSet<>(known)));
            }
        }
        return new JsonFields(values);
    }

    @Nullable
    Object value(String key) {
        return values.get(key);
    }

    /** Returns a printable text; null if the member is absent. */
    @Nullable
    String text(String key, int longest) {
        Object value = values.get(key);
        return value == null ? null : text(key, value, longest);
    }

    /** Returns printable texts; empty if the member is absent. */
    List<String> texts(String key, int most, int longest) {
        Object value = values.get(key);
        if (value == null) {
            return List.of();
        }
        if (!(value instanceof List<?> list) || list.size() > most) {
            throw Refusal.malformed("%s must be an array of at most %d texts".formatted(key, most));
        }
        return list.stream().map(element -> text(key, element, longest)).toList();
    }

    private static String text(String key, @Nullable Object value, int longest) {
        if (!(value instanceof String text)) {
            throw Refusal.malformed("%s must be a text".formatted(key));
        }
        if (text.isBlank() || text.length() > longest) {
            throw Refusal.malformed("%s must have 1 to %d characters".formatted(key, longest));
        }
        try {
            Names.requirePrintable(key, text);
        } catch (IllegalArgumentException e) {
            throw Refusal.malformed(String.valueOf(e.getMessage()));
        }
        return text;
    }

    String requiredText(String key, int longest) {
        String text = text(key, longest);
        if (text == null) {
            throw Refusal.malformed("%s is missing".formatted(key));
        }
        return text;
    }
}
