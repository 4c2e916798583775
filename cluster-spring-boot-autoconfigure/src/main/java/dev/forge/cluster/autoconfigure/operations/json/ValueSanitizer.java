// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.json;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.internal.runtime.Names;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.BindingReflectionHintsRegistrar;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.boot.actuate.endpoint.SanitizableData;
import org.springframework.boot.actuate.endpoint.Sanitizer;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;

/**
 * Writes records of the API as JSON, and sanitizes the values of the application in them: payloads, results, errors, keys, notes, lock
 * names.
 *
 * <p>The conventions are those of Spring Boot's {@code env} and {@code configprops} endpoints. Every value passes the
 * application's {@link SanitizingFunction sanitizing functions} under a key like
 * {@code payload.order.card} or {@code payload.items[0]}. An object or array passes the functions as a whole, too, before its members
 * do: a function that replaces it there hides an object whose names are data, such as a map by customer. Unless values are shown to
 * the caller, each is masked as a whole: the names of its members may be data as well.
 */
public final class ValueSanitizer {

    private final Sanitizer sanitizer;
    private final boolean hasFunctions;
    private final PayloadCodec codec;

    /** Members of values whose keys are longer are hidden. */
    private static final int LONGEST_KEY = 1_000;

    /** How many members all values of one response may have. A larger object or array is replaced by a text. */
    static final int MOST_MEMBERS = 100_000;

    static final String TOO_LARGE = "(not shown: more than %d values in one response)".formatted(MOST_MEMBERS);

    /** Creates a sanitizer with the functions of the application, and the codec that has written the values. */
    public ValueSanitizer(List<SanitizingFunction> functions, PayloadCodec codec) {
        this.sanitizer = new Sanitizer(functions);
        this.hasFunctions = !functions.isEmpty();
        this.codec = codec;
    }

    /** Lets native images read what is written as JSON. */
    public static final class Hints implements RuntimeHintsRegistrar {

        @Override
        public void registerHints(RuntimeHints hints, @Nullable ClassLoader loader) {
            var binding = new BindingReflectionHintsRegistrar();
            ApiRecords.types().forEach(type -> binding.registerReflectionHints(hints.reflection(), type));
            binding.registerReflectionHints(hints.reflection(), StoredJson.class);
        }
    }

    /** Returns the values as that caller may see them, for one response. */
    public Sanitized shownTo(Caller caller) {
        return new Sanitized(caller.seesValues());
    }

    /** Writes values for one caller. */
    public final class Sanitized {

        private final boolean shown;
        private int remainingMembers = MOST_MEMBERS;

        /** Why the functions have not seen all of the values; null: they have. */
        private @Nullable String omission;

        private Sanitized(boolean shown) {
            this.shown = shown;
        }

        /** Returns whether the caller may see values at all. */
        public boolean isShown() {
            return shown;
        }

        /** Returns a record of the API as JSON: names and policy for values are those of {@link ApiRecords}. */
        public JsonObject object(Record api) {
            return ApiRecords.shape(api.getClass()).object(api, false, this);
        }

        /** Like {@link #object}, without large values. */
        public JsonObject summary(Record api) {
            return ApiRecords.shape(api.getClass()).object(api, true, this);
        }

        /** Returns records of the API as JSON. */
        public List<JsonObject> objects(List<?> api) {
            return api.stream().map(each -> object((Record) each)).toList();
        }

        /** Returns records of the API as JSON, without large values. */
        public List<JsonObject> summaries(List<?> api) {
            return api.stream().map(each -> summary((Record) each)).toList();
        }

        /** Sanitizes a value and its members; null if it is null, or a sanitizing function removed it. */
        public @Nullable Object value(String key, @Nullable Object value) {
            if (!shown) {
                return value == null ? null : SanitizableData.SANITIZED_VALUE;
            }
            if (value instanceof Map<?, ?> || value instanceof List<?>) {
                if (key.length() > LONGEST_KEY) {
                    // The key of each member contains this one: a few long names would make gigabytes of keys.
                    omission = "the key of a member is longer than %d characters".formatted(LONGEST_KEY);
                    return SanitizableData.SANITIZED_VALUE;
                }
                Object replaced = sanitizer.sanitize(new SanitizableData(null, key, value), true);
                return replaced == value ? members(key, value) : replaced;
            }
            return value == null ? null : sanitizer.sanitize(new SanitizableData(null, key, value), true);
        }

        /** Like {@link #value} for JSON text, which is sanitized as one text if the codec cannot read it. */
        public @Nullable Object json(String key, @Nullable String json) {
            return json == null || json.equals("null") ? null : value(key, shown ? parsed(json) : json);
        }

        /**
         * Returns a value for an export, in which nothing may be replaced but by the sanitizing functions: the JSON as it is unless a
         * function changes it. Without functions nothing is parsed, because a history can have megabytes.
         *
         * @throws InvalidOperationException if the functions cannot see all of the value, with the reason
         */
        public @Nullable Object exactJson(String key, @Nullable String json) {
            if (json == null || json.equals("null")) {
                return null;
            }
            if (!shown) {
                return SanitizableData.SANITIZED_VALUE;
            }
            if (!hasFunctions) {
                return new StoredJson(json);
            }
            Object sanitized = value(key, readable(key, json));
            if (omission != null) {
                throw unchecked(key, omission);
            }
            return isWhole(json, sanitized) ? new StoredJson(json) : sanitized;
        }

        private @Nullable Object readable(String key, String json) {
            try {
                return codec.read(json, Object.class);
            } catch (RuntimeException e) {
                // Without the reason of the codec, which may quote the value.
                throw unchecked(key, "it cannot be read");
            }
        }

        private static InvalidOperationException unchecked(String key, String reason) {
            return new InvalidOperationException("the sanitizing functions of the application cannot check '%s': %s"
                    .formatted(Names.printable(key), reason));
        }

        /** Returns whether the caller sees all of a value that {@link #json} has sanitized. */
        public boolean isWhole(@Nullable String json, @Nullable Object sanitized) {
            return json != null && shown && Objects.equals(parsed(json), sanitized);
        }

        private @Nullable Object parsed(String json) {
            try {
                return codec.read(json, Object.class);
            } catch (RuntimeException e) {
                return json;
            }
        }

        private Object members(String key, Object container) {
            int size = container instanceof Map<?, ?> map ? map.size() : ((List<?>) container).size();
            if (size > remainingMembers) {
                omission = "it has too many members, or the values before it have: at most %d are possible"
                        .formatted(MOST_MEMBERS);
                return TOO_LARGE;
            }
            remainingMembers -= size;
            if (container instanceof Map<?, ?> map) {
                var members = new LinkedHashMap<String, @Nullable Object>();
                map.forEach((name, member) -> members.put(String.valueOf(name), value(key + "." + name, member)));
                return members;
            }
            List<?> list = (List<?>) container;
            var members = new ArrayList<@Nullable Object>();
            for (int i = 0; i < list.size(); i++) {
                members.add(value("%s[%d]".formatted(key, i), list.get(i)));
            }
            return members;
        }
    }
}
