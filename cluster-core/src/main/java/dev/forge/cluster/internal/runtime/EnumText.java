// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.Locale;

/**
 * Maps enum constants to the words that tables, JSON, configuration and messages use: {@code NOT_READY} is {@code not-ready}
 * there.
 */
public final class EnumText {

    private EnumText() {}

    /** Returns the word of a constant: lower case, with hyphens. */
    public static String of(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /**
     * Returns the constant of a word.
     *
     * @throws IllegalArgumentException if the type has no such constant
     */
    public static <E extends Enum<E>> E parse(Class<E> type, String word) {
        return Enum.valueOf(type, word.toUpperCase(Locale.ROOT).replace('-', '_'));
    }
}
