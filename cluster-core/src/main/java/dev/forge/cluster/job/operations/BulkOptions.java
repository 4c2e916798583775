// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Options of bulk operations. Immutable; each {@code with} method returns a changed copy. */
public final class BulkOptions {

    /** The largest number of jobs that one call may change. */
    public static final int LARGEST_MAXIMUM = 1_000_000;

    private static final BulkOptions DEFAULTS = new BulkOptions(10_000, false, false, null, result -> {});

    private final int maximum;
    private final boolean preview;
    private final boolean everything;
    private final @Nullable String cursor;
    private final Consumer<BulkResult> progress;

    private BulkOptions(
            int maximum, boolean preview, boolean everything, @Nullable String cursor, Consumer<BulkResult> progress) {
        this.maximum = maximum;
        this.preview = preview;
        this.everything = everything;
        this.cursor = cursor;
        this.progress = progress;
    }

    /** Returns options for at most 10,000 jobs. */
    public static BulkOptions defaults() {
        return DEFAULTS;
    }

    /** Sets how many jobs the call changes at most, between 1 and {@value #LARGEST_MAXIMUM}. */
    public BulkOptions withMaximum(int maximum) {
        if (maximum < 1 || maximum > LARGEST_MAXIMUM) {
            throw new IllegalArgumentException("BulkOptions.withMaximum: maximum (%d) must be between 1 and %d"
                    .formatted(maximum, LARGEST_MAXIMUM));
        }
        return new BulkOptions(maximum, preview, everything, cursor, progress);
    }

    /** Counts the jobs that the call would change, up to the maximum, and changes none. */
    public BulkOptions withPreview() {
        return new BulkOptions(maximum, true, everything, cursor, progress);
    }

    /**
     * Allows a filter without conditions, {@link JobFilter#all()}, and so a change of every job. Without this option such a call is
     * rejected: the conditions may have been forgotten.
     */
    public BulkOptions withEverything() {
        return new BulkOptions(maximum, preview, true, cursor, progress);
    }

    /** Continues after an earlier call with the same filter: {@link BulkResult#next()}; null: begins. */
    public BulkOptions withCursor(@Nullable String cursor) {
        return new BulkOptions(maximum, preview, everything, cursor, progress);
    }

    /**
     * Sets what is told after each batch, with the result so far. Called by the thread of the call; an exception ends the operation, and
     * earlier batches stay as they are.
     */
    public BulkOptions withProgress(Consumer<BulkResult> progress) {
        if (progress == null) {
            throw new IllegalArgumentException("BulkOptions.withProgress: progress must not be null");
        }
        return new BulkOptions(maximum, preview, everything, cursor, progress);
    }

    /** See {@link #withMaximum}. */
    public int maximum() {
        return maximum;
    }

    /** See {@link #withPreview}. */
    public boolean preview() {
        return preview;
    }

    /** See {@link #withEverything}. */
    public boolean everything() {
        return everything;
    }

    /** See {@link #withCursor}. */
    public @Nullable String cursor() {
        return cursor;
    }

    /** See {@link #withProgress}. */
    public Consumer<BulkResult> progress() {
        return progress;
    }
}
