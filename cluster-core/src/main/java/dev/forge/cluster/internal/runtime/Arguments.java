// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.Collection;
import org.jspecify.annotations.Nullable;

/** Checks the arguments of API calls. */
public final class Arguments {

    private Arguments() {}

    /**
     * Checks that an argument is not null.
     *
     * @param call the method of the API, such as {@code Jobs.enqueue}, for the message
     * @throws IllegalArgumentException if it is null
     */
    public static void required(String call, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("%s: %s must not be null".formatted(call, parameter));
        }
    }

    /**
     * Checks the length that a list may have.
     *
     * @throws IllegalArgumentException if it is not between 1 and {@code most}
     */
    public static void limit(String call, int limit, int most) {
        between(call, "limit", limit, most);
    }

    /**
     * Checks a number.
     *
     * @throws IllegalArgumentException if it is not between 1 and {@code most}
     */
    public static void between(String call, String parameter, int value, int most) {
        if (value < 1 || value > most) {
            throw new IllegalArgumentException(
                    "%s: %s (%d) must be between 1 and %d".formatted(call, parameter, value, most));
        }
    }

    /**
     * Checks names that are given together: none is null, and they are not too many.
     *
     * @throws IllegalArgumentException if there are more than {@code most}
     */
    public static void names(String call, Collection<String> names, int most) {
        required(call, "names", names);
        if (names.size() > most) {
            throw new IllegalArgumentException(
                    "%s: names (%d) must not be more than %d".formatted(call, names.size(), most));
        }
        names.forEach(name -> required(call, "name", name));
    }
}
