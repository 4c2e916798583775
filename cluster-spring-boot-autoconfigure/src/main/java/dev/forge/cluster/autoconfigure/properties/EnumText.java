// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties;

import java.util.Locale;

/** The lower-case texts of enum constants in logs, JSON, properties and metric tags. */
public final class EnumText {

    private EnumText() {}

    /** Returns {@code any-worker} for {@code ANY_WORKER}. */
    public static String hyphenated(Enum<?> constant) {
        return underscored(constant).replace('_', '-');
    }

    /** Returns {@code timed_out} for {@code TIMED_OUT}, as the tables have it. */
    public static String underscored(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }
}
