// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;

/** Checks and converts the parameters of endpoint requests; a rejected request gets status 400 and a reason. */
final class EndpointRequests {

    private static final int MAX_LIMIT = 1_000;

    private EndpointRequests() {}

    static int limit(@Nullable Integer requested, int defaultLimit) {
        int limit = requested == null ? defaultLimit : requested;
        if (limit < 1 || limit > MAX_LIMIT) {
            throw invalid("limit (%d) must be between 1 and %d".formatted(limit, MAX_LIMIT));
        }
        return limit;
    }

    /** Parses the text of an enum constant; null if the parameter is absent. */
    static <E extends Enum<E>> @Nullable E status(Class<E> type, @Nullable String text) {
        if (text == null) {
            return null;
        }
        List<E> constants = List.of(type.getEnumConstants());
        return constants.stream()
                .filter(constant -> EnumText.underscored(constant).equals(text.toLowerCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() -> invalid("Unknown status '%s'. Use one of %s."
                        .formatted(
                                text,
                                Arrays.stream(type.getEnumConstants())
                                        .map(EnumText::underscored)
                                        .toList())));
    }

    /** @param kind the kind of thing that has the id, for the message */
    static UUID id(String kind, String text) {
        try {
            return UUID.fromString(text);
        } catch (IllegalArgumentException e) {
            throw invalid("'%s' is not a %s id".formatted(text, kind));
        }
    }

    /** Rejects control characters: the database would reject a NUL with an error that looks like a failure of the server. */
    static void requirePrintable(String parameter, @Nullable String text) {
        if (text != null) {
            try {
                Names.requirePrintable(parameter, text);
            } catch (IllegalArgumentException e) {
                throw new InvalidEndpointRequestException(String.valueOf(e.getMessage()), "Not printable", e);
            }
        }
    }

    static InvalidEndpointRequestException invalid(String message) {
        return new InvalidEndpointRequestException(message, message);
    }

    /** Rejects a request that the API has refused, with the reason that the API gave. */
    static InvalidEndpointRequestException refused(RuntimeException reason) {
        return new InvalidEndpointRequestException(String.valueOf(reason.getMessage()), "Refused", reason);
    }
}
