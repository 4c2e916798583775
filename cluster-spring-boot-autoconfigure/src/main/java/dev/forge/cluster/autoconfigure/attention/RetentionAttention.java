// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import dev.forge.cluster.autoconfigure.attention.Attention.Kind;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.purge.UndeletableStore.Undeletable;
import dev.forge.cluster.internal.runtime.PlainText;

/** Finds tables with rows that cannot be deleted after their retention. */
final class RetentionAttention implements AttentionReports.Source {

    private final UndeletableStore rows;

    RetentionAttention(UndeletableStore rows) {
        this.rows = rows;
    }

    @Override
    public void find(AttentionItems items, AttentionThresholds thresholds) {
        rows.counts().forEach((table, count) -> {
            if (count > 0) {
                rows.oldest(table, 1).forEach(first -> warn(items, table, count, first));
            }
        });
    }

    private static void warn(AttentionItems items, String table, long count, Undeletable first) {
        items.warning(
                Kind.UNDELETABLE_ROWS,
                table,
                "Table %s: %s after the retention, the first, %s, for %s. Reason: %s."
                        .formatted(
                                table,
                                PlainText.count(count, "row cannot be deleted", "rows cannot be deleted"),
                                first.id(),
                                PlainText.duration(first.age()),
                                first.reason()),
                "Remove the cause, for example with ON DELETE SET NULL at the foreign key. Clean-ups try again; the table"
                        + " forge_undeletable_rows has all rows.");
    }
}
