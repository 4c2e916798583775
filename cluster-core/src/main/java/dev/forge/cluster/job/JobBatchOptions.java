// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Options of a batch of jobs: its name and its callbacks. Immutable; each {@code with} method returns a changed copy,
 * and throws {@link IllegalArgumentException} for null.
 *
 * <p>A callback is a job. Each of them runs at most once per batch, and the payload selects its handler as in {@link
 * Jobs#enqueue(Object)}. {@link JobContext#batch()} tells the handler which batch it is about.
 */
public final class JobBatchOptions {

    private final String name;
    private final @Nullable UUID parent;
    private final @Nullable Callback onFailure;
    private final @Nullable Callback onEnd;
    private final @Nullable Callback onSuccess;

    /** A callback job. */
    public record Callback(Object payload, JobOptions options) {

        /**
         * Creates a callback.
         *
         * @throws IllegalArgumentException if a value is null
         */
        public Callback {
            required("JobBatchOptions.Callback", "payload", payload);
            required("JobBatchOptions.Callback", "options", options);
        }
    }

    private JobBatchOptions(
            String name,
            @Nullable UUID parent,
            @Nullable Callback onFailure,
            @Nullable Callback onEnd,
            @Nullable Callback onSuccess) {
        this.name = name;
        this.parent = parent;
        this.onFailure = onFailure;
        this.onEnd = onEnd;
        this.onSuccess = onSuccess;
    }

    /**
     * Returns options without callbacks.
     *
     * @param name a name for operators, which need not be unique: at most 500 characters without control characters
     */
    public static JobBatchOptions named(String name) {
        required("JobBatchOptions.named", "name", name);
        return new JobBatchOptions(name, null, null, null, null);
    }

    /** Makes the batch part of another one, which must be open and then ends only after this one. */
    public JobBatchOptions withParent(UUID parent) {
        required("JobBatchOptions.withParent", "parent", parent);
        return new JobBatchOptions(name, parent, onFailure, onEnd, onSuccess);
    }

    /** Runs a job when the first job of the batch has failed for good, even while the batch is open. */
    public JobBatchOptions withOnFailure(Object payload) {
        return withOnFailure(payload, JobOptions.defaults());
    }

    /** Runs a job when the first job of the batch has failed for good; see {@link #withOnFailure(Object)}. */
    public JobBatchOptions withOnFailure(Object payload, JobOptions options) {
        return new JobBatchOptions(name, parent, callback("withOnFailure", payload, options), onEnd, onSuccess);
    }

    /** Runs a job when the batch is closed and all its jobs have ended, whether they completed, failed or were cancelled. */
    public JobBatchOptions withOnEnd(Object payload) {
        return withOnEnd(payload, JobOptions.defaults());
    }

    /** Runs a job when the batch is closed and all its jobs have ended; see {@link #withOnEnd(Object)}. */
    public JobBatchOptions withOnEnd(Object payload, JobOptions options) {
        return new JobBatchOptions(name, parent, onFailure, callback("withOnEnd", payload, options), onSuccess);
    }

    /** Runs a job when the batch is closed and all its jobs have completed, perhaps after failed ones were retried. */
    public JobBatchOptions withOnSuccess(Object payload) {
        return withOnSuccess(payload, JobOptions.defaults());
    }

    /** Runs a job when the batch is closed and all its jobs have completed; see {@link #withOnSuccess(Object)}. */
    public JobBatchOptions withOnSuccess(Object payload, JobOptions options) {
        return new JobBatchOptions(name, parent, onFailure, onEnd, callback("withOnSuccess", payload, options));
    }

    private static Callback callback(String method, Object payload, JobOptions options) {
        required("JobBatchOptions." + method, "payload", payload);
        required("JobBatchOptions." + method, "options", options);
        return new Callback(payload, options);
    }

    private static void required(String call, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("%s: %s must not be null".formatted(call, parameter));
        }
    }

    /** Returns the name for operators. */
    public String name() {
        return name;
    }

    /** Returns the batch that this one is part of; null: none. */
    public @Nullable UUID parent() {
        return parent;
    }

    /** Returns the job that runs when the first job has failed for good; null: none. */
    public @Nullable Callback onFailure() {
        return onFailure;
    }

    /** Returns the job that runs when all jobs have ended; null: none. */
    public @Nullable Callback onEnd() {
        return onEnd;
    }

    /** Returns the job that runs when all jobs have completed; null: none. */
    public @Nullable Callback onSuccess() {
        return onSuccess;
    }
}
