// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.time.Instant;
import java.time.OffsetDateTime;
import org.jspecify.annotations.Nullable;

/** Maps the infinite times of PostgreSQL, which its driver returns as the first and the last time with an offset. */
public final class Timestamps {

    private Timestamps() {}

    /** Returns {@link Instant#MAX} for {@code infinity}, and {@link Instant#MIN} for {@code -infinity}. */
    public static Instant instant(OffsetDateTime column) {
        return column.equals(OffsetDateTime.MAX)
                ? Instant.MAX
                : column.equals(OffsetDateTime.MIN) ? Instant.MIN : column.toInstant();
    }

    /** Returns a time that JSON can carry; null for an infinite one, whose text browsers cannot parse. */
    public static @Nullable Instant finite(@Nullable Instant time) {
        return Instant.MAX.equals(time) || Instant.MIN.equals(time) ? null : time;
    }
}
