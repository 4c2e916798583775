// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.json;

import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.internal.database.Timestamps;
import dev.forge.cluster.internal.runtime.EnumText;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * How the records of a type become JSON objects: each component becomes a member. Numbers, booleans, ids, times, enums and other
 * records are written according to their types. A component of another type, such as a text, may carry values of the application, so
 * it needs a rule: {@link #complete} refuses types with a component that nobody has decided about.
 */
final class RecordShape<R extends Record> {

    private static final Set<Class<?>> PLAIN = Set.of(
            boolean.class,
            int.class,
            long.class,
            double.class,
            Integer.class,
            Long.class,
            Double.class,
            UUID.class,
            OffsetDateTime.class);

    private final Class<R> type;
    private final Map<String, Member<R>> members = new LinkedHashMap<>();
    private final Map<String, Function<R, @Nullable Object>> computed = new LinkedHashMap<>();

    /** Decides what is written for a component that is not null. */
    @FunctionalInterface
    private interface Rule<R> {
        @Nullable
        Object json(R owner, Object value, Sanitized shown);
    }

    /**
     * A component.
     *
     * @param rule null: none has been given
     * @param detail whether summaries are without it
     */
    private record Member<R>(
            Method accessor, String name, @Nullable Rule<R> rule, boolean detail) {}

    private RecordShape(Class<R> type) {
        this.type = type;
        for (RecordComponent component : type.getRecordComponents()) {
            members.put(
                    component.getName(),
                    new Member<>(component.getAccessor(), component.getName(), ofType(component.getType()), false));
        }
    }

    static <R extends Record> RecordShape<R> of(Class<R> type) {
        return new RecordShape<>(type);
    }

    private static <R> @Nullable Rule<R> ofType(Class<?> type) {
        if (PLAIN.contains(type)) {
            return (owner, value, shown) -> value;
        }
        if (type == Instant.class) {
            return (owner, value, shown) -> Timestamps.finite((Instant) value);
        }
        if (type.isEnum()) {
            return (owner, value, shown) -> EnumText.hyphenated((Enum<?>) value);
        }
        return type.isRecord() ? (owner, value, shown) -> shown.object((Record) value) : null;
    }

    Class<R> type() {
        return type;
    }

    /** Shows components to everybody, as they are. */
    RecordShape<R> open(String... components) {
        return rule((owner, value, shown) -> value, components);
    }

    /** Shows lists to everybody, as they are; absent if they are empty. */
    RecordShape<R> openUnlessEmpty(String component) {
        return rule((owner, value, shown) -> ((List<?>) value).isEmpty() ? null : value, component);
    }

    /** Writes lists of records. */
    RecordShape<R> objects(String... components) {
        return rule((owner, value, shown) -> shown.objects((List<?>) value), components);
    }

    /** Like {@link #objects}; absent if the list is empty. */
    RecordShape<R> objectsUnlessEmpty(String component) {
        return rule(
                (owner, value, shown) -> ((List<?>) value).isEmpty() ? null : shown.objects((List<?>) value),
                component);
    }

    /** Sanitizes a component under that key. */
    RecordShape<R> value(String component, String key) {
        return rule((owner, value, shown) -> shown.value(key, value), component);
    }

    /** Sanitizes components that are JSON, under their names. */
    RecordShape<R> json(String... components) {
        for (String component : components) {
            rule((owner, value, shown) -> shown.json(component, (String) value), component);
        }
        return this;
    }

    /** Writes enums with other words than those with hyphens. */
    RecordShape<R> words(String component, Function<Enum<?>, String> words) {
        return rule((owner, value, shown) -> words.apply((Enum<?>) value), component);
    }

    /** Writes a length of time as a number of milliseconds. */
    RecordShape<R> millis(String component, String name) {
        return rule((owner, value, shown) -> ((Duration) value).toMillis(), component)
                .rename(component, name);
    }

    /** Writes what a function makes of a record. */
    RecordShape<R> by(String component, BiFunction<R, Sanitized, @Nullable Object> json) {
        return rule((owner, value, shown) -> json.apply(owner, shown), component);
    }

    private RecordShape<R> rule(Rule<R> rule, String... components) {
        return change(member -> new Member<>(member.accessor, member.name, rule, member.detail), components);
    }

    /** Writes a component under another name. */
    RecordShape<R> rename(String component, String name) {
        return change(member -> new Member<>(member.accessor, name, member.rule, member.detail), component);
    }

    /** Leaves components out of summaries: they may be large, or are not read for lists. */
    RecordShape<R> details(String... components) {
        return change(member -> new Member<>(member.accessor, member.name, member.rule, true), components);
    }

    private RecordShape<R> change(UnaryOperator<Member<R>> change, String... components) {
        for (String component : components) {
            if (members.computeIfPresent(component, (name, member) -> change.apply(member)) == null) {
                throw new IllegalStateException("%s has no component '%s'".formatted(type, component));
            }
        }
        return this;
    }

    /** Leaves components out: resources write them themselves, or nobody needs them. */
    RecordShape<R> without(String... components) {
        members.keySet().removeAll(Set.of(components));
        return this;
    }

    /** Adds a member that is no component. */
    RecordShape<R> and(String name, Function<R, @Nullable Object> value) {
        computed.put(name, value);
        return this;
    }

    /** Verifies that nothing is shown by accident. */
    RecordShape<R> complete() {
        members.forEach((component, member) -> {
            if (member.rule == null) {
                throw new IllegalStateException(
                        "%s.%s: is it shown, sanitized or left out?".formatted(type.getSimpleName(), component));
            }
        });
        return this;
    }

    JsonObject object(Record api, boolean summary, Sanitized shown) {
        R owner = type.cast(api);
        var object = new JsonObject();
        for (Member<R> member : members.values()) {
            Object value = summary && member.detail ? null : read(member.accessor, owner);
            if (value != null && member.rule != null) {
                object.with(member.name, member.rule.json(owner, value, shown));
            }
        }
        computed.forEach((name, function) -> object.with(name, function.apply(owner)));
        return object;
    }

    private static @Nullable Object read(Method accessor, Record owner) {
        try {
            return accessor.invoke(owner);
        } catch (IllegalAccessException | InvocationTargetException e) {
            throw new IllegalStateException("Could not read " + accessor, e);
        }
    }
}
