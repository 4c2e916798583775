// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Binds SQL arrays to statements that write many rows at once. */
public final class SqlArrays {

    private SqlArrays() {}

    /** Binds one column of these rows as an array of that type; returns the number of the next parameter. */
    public static <T> int bind(
            PreparedStatement statement, int number, String type, List<T> rows, Function<T, @Nullable Object> column)
            throws SQLException {
        @Nullable Object[] values = newArray(type, rows.size());
        for (int i = 0; i < values.length; i++) {
            values[i] = column.apply(rows.get(i));
        }
        statement.setArray(number, statement.getConnection().createArrayOf(type, values));
        return number + 1;
    }

    /** The driver sends an array in binary format if its element type allows it, which is less work for both sides. */
    private static @Nullable Object[] newArray(String type, int length) {
        return switch (type) {
            case "int4" -> new @Nullable Integer[length];
            case "int8" -> new @Nullable Long[length];
            case "text" -> new @Nullable String[length];
            default -> new @Nullable Object[length];
        };
    }
}
