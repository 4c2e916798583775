// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.convert.DurationStyle;

/**
 * A request to a resource, with conversions of its parameters, which throw {@link InvalidOperationException}.
 *
 * @param path the name of the resource, followed by the segments of the name or id of an entry
 */
public record OperationRequest(Caller caller, List<String> path, Map<String, String> parameters) {

    private static final int MAX_LIMIT = 1_000;

    /** Parameters with JSON, which people lay out in lines. */
    private static final Set<String> JSON = Set.of("payload", "value");

    /** Creates a request. Rejects control characters: the database would reject a NUL with an error that looks like a failure of the server. */
    public OperationRequest {
        requirePrintable("path", String.join("/", path));
        parameters.forEach((name, text) ->
                requirePrintable(name, JSON.contains(name) ? text.replaceAll("[\\n\\r\\t]", " ") : text));
    }

    static void requirePrintable(String parameter, String text) {
        try {
            Names.requirePrintable(parameter, text);
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
    }

    /** Returns whether the request is about one entry rather than the resource. */
    public boolean hasEntry() {
        return path.size() > 1;
    }

    /** Returns the path behind the resource: names may contain slashes. */
    public String entry() {
        return String.join("/", path.subList(1, path.size()));
    }

    /**
     * Rejects other parameters.
     *
     * @param known the names of the parameters that the request may have
     */
    public void requireOnly(Iterable<String> known) {
        var unknown = new TreeSet<>(parameters.keySet());
        var sorted = new TreeSet<String>();
        known.forEach(sorted::add);
        unknown.removeAll(sorted);
        if (!unknown.isEmpty()) {
            throw new InvalidOperationException("Unknown parameters %s. Known: %s".formatted(unknown, sorted));
        }
    }

    /** Returns a parameter; null if it is absent. */
    public @Nullable String text(String parameter) {
        return parameters.get(parameter);
    }

    /** Returns how many entries to return: the parameter {@code limit}. */
    public int limit(int defaultLimit) {
        Integer requested = integer("limit");
        int limit = requested == null ? defaultLimit : requested;
        if (limit < 1 || limit > MAX_LIMIT) {
            throw new InvalidOperationException("limit (%d) must be between 1 and %d".formatted(limit, MAX_LIMIT));
        }
        return limit;
    }

    /** Returns a parameter that is a number; null if it is absent. */
    public @Nullable Integer integer(String parameter) {
        return converted(parameter, "a whole number of at most 32 bits", Integer::valueOf);
    }

    /** Returns a parameter that is a number; null if it is absent. */
    public @Nullable Long longInteger(String parameter) {
        return converted(parameter, "a whole number of at most 64 bits", Long::valueOf);
    }

    /** Returns whether a parameter is {@code true}; false if it is absent. */
    public boolean flag(String parameter) {
        return Boolean.TRUE.equals(converted(parameter, "true or false", text -> switch (text) {
            case "true" -> true;
            case "false" -> false;
            default -> throw new IllegalArgumentException();
        }));
    }

    /** Returns a parameter that is a time; null if it is absent. */
    public @Nullable Instant time(String parameter) {
        return converted(parameter, "a time such as 2030-01-31T08:00:00Z", Instant::parse);
    }

    /** Returns a length of time, for example {@code PT6H} or {@code 6h}. */
    public Duration duration(String parameter, Duration ifAbsent) {
        Duration given = converted(parameter, "a length of time such as 6h or PT6H", DurationStyle::detectAndParse);
        return given == null ? ifAbsent : given;
    }

    private <T> @Nullable T converted(String parameter, String expected, Function<String, T> conversion) {
        String text = text(parameter);
        if (text == null) {
            return null;
        }
        try {
            return conversion.apply(text);
        } catch (IllegalArgumentException | ArithmeticException | DateTimeException e) {
            throw new InvalidOperationException("%s '%s' must be %s".formatted(parameter, text, expected));
        }
    }

    /** Parses a status; null if it is absent. */
    public static <E extends Enum<E>> @Nullable E status(Class<E> type, @Nullable String text) {
        return text == null ? null : constant(type, "status", text);
    }

    /** Parses the text of an enum constant. */
    public static <E extends Enum<E>> E constant(Class<E> type, String parameter, String text) {
        List<E> constants = List.of(type.getEnumConstants());
        return constants.stream()
                .filter(constant -> EnumText.underscored(constant).equals(text.toLowerCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() -> new InvalidOperationException("Unknown %s '%s'. Use one of %s."
                        .formatted(
                                parameter,
                                Names.printable(text),
                                constants.stream().map(EnumText::underscored).toList())));
    }

    /**
     * Parses an id.
     *
     * @param kind the kind of thing that has the id, for the message
     */
    public static UUID id(String kind, String text) {
        try {
            return UUID.fromString(text);
        } catch (IllegalArgumentException e) {
            throw new InvalidOperationException("'%s' is not a %s id".formatted(Names.printable(text), kind));
        }
    }

    /** Returns the result with a body; null: there is no such entry. */
    public OperationResult result(@Nullable Map<String, @Nullable Object> body) {
        return body == null ? notFound() : new OperationResult.Found(body);
    }

    /** Returns that there is no such entry. */
    public OperationResult notFound() {
        return new OperationResult.NotFound("Not found: '%s'".formatted(String.join("/", path)));
    }
}
