// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.Page;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.Function;
import java.util.zip.CRC32;
import org.jspecify.annotations.Nullable;

/**
 * The cursors of a list: positions as text that only the same list reads. A checksum of the list, its filter and the position
 * tells apart cursors of other lists and damaged ones; it does not keep anybody from making one up.
 *
 * @param call the method of the API, for messages
 * @param list names the list and its filter
 */
public record Cursors(String call, String list) {

    private static final String SEPARATOR = "\n";
    private static final int LONGEST_QUOTED = 200;

    /** Returns the cursor of a position, such as the sort key of the last item of a page. */
    public String encode(List<String> position) {
        var parts = new ArrayList<String>();
        parts.add(checksum(position));
        parts.addAll(position);
        return Base64.getUrlEncoder()
                .withoutPadding()
                .encodeToString(String.join(SEPARATOR, parts).getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Reads a cursor.
     *
     * @param reader returns the position; its exceptions reject the cursor
     * @throws IllegalArgumentException if the cursor is damaged, or belongs to another list
     */
    public <T> T decode(String cursor, Function<List<String>, T> reader) {
        try {
            String text = new String(Base64.getUrlDecoder().decode(cursor), StandardCharsets.UTF_8);
            List<String> parts = List.of(text.split(SEPARATOR, -1));
            List<String> position = parts.subList(1, parts.size());
            if (parts.get(0).equals(checksum(position))) {
                return reader.apply(position);
            }
        } catch (RuntimeException e) {
            throw new IllegalArgumentException(invalid(cursor), e);
        }
        throw new IllegalArgumentException(invalid(cursor));
    }

    /** Reads a cursor whose position is one text; null: the first page. */
    public <T> @Nullable T decodeOne(@Nullable String cursor, Function<String, T> reader) {
        return cursor == null ? null : decode(cursor, position -> reader.apply(position.get(0)));
    }

    /**
     * Returns a page of a list without bounds of its own: another one follows if this one is full.
     *
     * @param position returns the position of an item
     */
    public <T> Page<T> page(List<T> items, int limit, Function<T, String> position) {
        return new Page<>(
                items, items.size() < limit ? null : encode(List.of(position.apply(items.get(items.size() - 1)))));
    }

    private String invalid(String cursor) {
        return "%s: cursor '%s' is damaged or belongs to another list. Use next() of the previous page, with the same filter"
                .formatted(call, Names.printable(cursor, LONGEST_QUOTED));
    }

    private String checksum(List<String> position) {
        var checksum = new CRC32();
        checksum.update(list.getBytes(StandardCharsets.UTF_8));
        position.forEach(part -> checksum.update((SEPARATOR + part).getBytes(StandardCharsets.UTF_8)));
        return Long.toHexString(checksum.getValue());
    }
}
