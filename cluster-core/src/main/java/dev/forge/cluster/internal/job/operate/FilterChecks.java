// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.operations.JobFilter;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/** Checks the filters of API calls. */
public final class FilterChecks {

    /** The longest text to search for, and the most entries of metadata. */
    private static final int LONGEST = 1_000;

    private static final int MOST_ENTRIES = 20;
    private static final int MOST_IDS = 1_000;

    private FilterChecks() {}

    /** Returns whether a filter has no conditions but name, statuses and creation. */
    public static boolean isSimple(JobFilter filter) {
        return filter.tags().isEmpty()
                && filter.group() == null
                && filter.batch() == null
                && filter.ids().isEmpty()
                && filter.uniqueKey() == null
                && filter.metadata().isEmpty()
                && filter.error() == null
                && filter.finishedFrom() == null
                && filter.finishedBefore() == null;
    }

    /** Returns whether a filter has no condition at all. */
    static boolean selectsAll(JobFilter filter) {
        return isSimple(filter)
                && filter.name() == null
                && filter.statuses().isEmpty()
                && filter.createdFrom() == null
                && filter.createdBefore() == null;
    }

    /**
     * Rejects texts that no job can have, and that PostgreSQL would reject.
     *
     * @throws IllegalArgumentException if there is one, with its place
     */
    public static void require(JobFilter filter) {
        requirePrintable("job name", filter.name());
        requirePrintable("group", filter.group());
        requirePrintable("unique key", filter.uniqueKey());
        filter.tags().forEach(tag -> requirePrintable("tag", tag));
        if (filter.ids().size() > MOST_IDS) {
            throw new IllegalArgumentException("JobFilter: %d ids; at most %d are possible"
                    .formatted(filter.ids().size(), MOST_IDS));
        }
        requireFew("tags", filter.tags().size());
        requireFew("metadata entries", filter.metadata().size());
        filter.metadata().forEach((key, value) -> {
            requireStorable("metadata key", key);
            requireStorable("metadata value", value);
        });
        requireStorable("error text", filter.error());
    }

    private static void requireFew(String what, int number) {
        if (number > MOST_ENTRIES) {
            throw new IllegalArgumentException(
                    "JobFilter: %d %s; at most %d are possible".formatted(number, what, MOST_ENTRIES));
        }
    }

    private static void requirePrintable(String what, @Nullable String text) {
        if (text != null) {
            requireStorable(what, text);
            Names.requirePrintable(what, text);
        }
    }

    /** Metadata and errors may contain line breaks. */
    private static void requireStorable(String what, @Nullable String text) {
        if (text == null) {
            return;
        }
        if (text.isEmpty() || text.length() > LONGEST) {
            throw new IllegalArgumentException(
                    "JobFilter: %s of %d characters; it must have 1 to %d".formatted(what, text.length(), LONGEST));
        }
        if (text.indexOf('\0') >= 0 || !StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
            throw new IllegalArgumentException("JobFilter: %s '%s' has characters that PostgreSQL cannot store"
                    .formatted(what, Names.printable(text)));
        }
    }
}
