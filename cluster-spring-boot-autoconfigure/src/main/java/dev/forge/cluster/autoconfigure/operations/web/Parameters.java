// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.json.JsonMapper;

/** Parses the parameters of requests. Everything that is unknown, repeated or too long is refused by name. */
final class Parameters {

    private static final int LONGEST_QUERY = 8_000;
    static final int LONGEST_VALUE = 1_000;

    /** Members of a body that may be longer; the body is not larger than {@link SiteRequest#LARGEST_BODY}. */
    private static final Set<String> LONG = Set.of("payload", "value", "ids");

    private static final JsonMapper JSON = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(4)
                            .maxStringLength(SiteRequest.LARGEST_BODY)
                            .maxNameLength(100)
                            .maxNumberLength(20)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .build())
            .build();

    private Parameters() {}

    /** Parses a query string. Parameters without a value are empty; {@link #requireKnown} removes them. */
    static Map<String, String> ofQuery(@Nullable String query) {
        var parameters = new TreeMap<String, String>();
        if (query == null || query.isEmpty()) {
            return parameters;
        }
        if (query.length() > LONGEST_QUERY) {
            throw RefusedRequestException.invalid("The query is longer than %d characters".formatted(LONGEST_QUERY));
        }
        for (String part : query.split("&", -1)) {
            int equals = part.indexOf('=');
            String name = decoded(equals < 0 ? part : part.substring(0, equals));
            String value = equals < 0 ? "" : decoded(part.substring(equals + 1));
            requireShort(name, value);
            if (name.isEmpty()) {
                throw RefusedRequestException.invalid("The query has a parameter without a name");
            }
            if (parameters.put(name, value) != null) {
                throw RefusedRequestException.invalid("Parameter '%s' is given twice".formatted(printable(name)));
            }
        }
        return parameters;
    }

    /** Parses a JSON object whose members are texts, numbers and booleans, as texts; members that are null are left out. */
    static Map<String, String> ofBody(byte[] body) {
        Map<?, ?> members;
        try {
            members = JSON.readValue(body, Map.class);
        } catch (JacksonException e) {
            throw RefusedRequestException.invalid(
                    "The body is not a JSON object: " + printable(e.getOriginalMessage()));
        }
        if (members == null) {
            throw RefusedRequestException.invalid("The body is not a JSON object");
        }
        var parameters = new TreeMap<String, String>();
        members.forEach((key, value) -> {
            String name = String.valueOf(key);
            if (value instanceof String text) {
                if (!LONG.contains(name)) {
                    requireShort(name, text);
                }
            } else if (value != null && !(value instanceof Number) && !(value instanceof Boolean)) {
                throw RefusedRequestException.invalid(
                        "Parameter '%s' must be a text, a number or a boolean".formatted(printable(name)));
            }
            if (value != null) {
                parameters.put(name, value.toString());
            }
        });
        return parameters;
    }

    /** Refuses parameters that are not known: a misspelt condition would otherwise select everything. Removes empty ones. */
    static void requireKnown(Map<String, String> parameters, Set<String> known) {
        var unknown = new TreeSet<>(parameters.keySet());
        unknown.removeAll(known);
        if (!unknown.isEmpty()) {
            throw RefusedRequestException.invalid(
                    "Unknown parameter '%s'. Known: %s".formatted(printable(unknown.first()), new TreeSet<>(known)));
        }
        parameters.values().removeIf(String::isEmpty);
    }

    /** Refuses empty parameters of a change: without the condition that somebody forgot to fill in, it would select everything. */
    static void requireNoneEmpty(Map<String, String> parameters) {
        parameters.forEach((name, value) -> {
            if (value.isEmpty()) {
                throw RefusedRequestException.invalid("Parameter '%s' is empty".formatted(printable(name)));
            }
        });
    }

    private static void requireShort(String name, String value) {
        if (value.length() > LONGEST_VALUE) {
            throw RefusedRequestException.invalid(
                    "Parameter '%s' is longer than %d characters".formatted(printable(name), LONGEST_VALUE));
        }
    }

    private static String decoded(String text) {
        try {
            return URLDecoder.decode(text, StandardCharsets.UTF_8);
        } catch (IllegalArgumentException e) {
            throw RefusedRequestException.invalid("The query has an invalid percent-encoding");
        }
    }

    /** Returns a text of the client that is safe in messages and logs. */
    static String printable(@Nullable String text) {
        String shown = String.valueOf(text).replaceAll("[\\p{Cntrl}\\p{Zl}\\p{Zp}]", "?");
        return shown.length() > 100 ? shown.substring(0, 100) + "..." : shown;
    }
}
