// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A part of a list that is read page by page.
 *
 * <p>A page may have fewer items than the limit, even none, and still have a {@code next}: a search ends at its bounds, and the next
 * call continues it. Only a page without {@code next} is the last one.
 *
 * @param items the items, in the order of the list
 * @param next the cursor with which the next call of the same method, with the same filter, continues; null: there are no further
 *     items. Its text has no meaning of its own.
 */
public record Page<T>(List<T> items, @Nullable String next) {

    /** Copies the list. */
    public Page {
        items = List.copyOf(items);
    }
}
