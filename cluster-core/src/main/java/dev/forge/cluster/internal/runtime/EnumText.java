// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.Locale;

/** Maps enum constants to the words that tables, JSON, configuration, metrics and messages use. */
public final class EnumText {

    private EnumText() {}

    /** Returns {@code any-worker} for {@code ANY_WORKER}. */
    public static String hyphenated(Enum<?> constant) {
        return underscored(constant).replace('_', '-');
    }

    /** Returns {@code timed_out} for {@code TIMED_OUT}. */
    public static String underscored(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }

    /**
     * Returns the constant of a word with hyphens or underscores.
     *
     * @throws IllegalArgumentException if the type has no such constant
     */
    public static <E extends Enum<E>> E parse(Class<E> type, String word) {
        return Enum.valueOf(type, word.toUpperCase(Locale.ROOT).replace('-', '_'));
    }
}
