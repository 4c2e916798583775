// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

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
        if (limit < 1 || limit > most) {
            throw new IllegalArgumentException("%s: limit (%d) must be between 1 and %d".formatted(call, limit, most));
        }
    }
}
