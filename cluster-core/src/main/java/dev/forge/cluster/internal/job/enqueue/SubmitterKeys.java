// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Unique keys of jobs that clients submit over HTTP. Each submitter has a separate key space: the stored key begins with a hash of
 * the submitter, which the metadata of the job name. Keys of the application never begin like that, so that neither a client nor a
 * text that the application takes from a client can affect the job of another submitter.
 */
public final class SubmitterKeys {

    /** The metadata key for the submitter of a job. */
    public static final String SUBMITTER = "forge.http.principal";

    public static final String PREFIX = "@http/";

    /** The submitter for whom the current thread enqueues a job. */
    private static final ThreadLocal<@Nullable String> SUBMITTER_OF_THREAD = new ThreadLocal<>();

    /** The length of the hash; 128 bits make it infeasible to find a name with the hash of another. */
    private static final int BYTES = 16;

    private SubmitterKeys() {}

    /** Returns the key to store. */
    public static String of(String submitter, String key) {
        return space(submitter) + key;
    }

    /**
     * Enqueues a job for a submitter. Only within this call the metadata of a job may name that submitter: applications cannot set
     * the key, because it is reserved.
     *
     * @param enqueue enqueues a job with these options
     */
    public static EnqueuedJob submit(String submitter, JobOptions options, Function<JobOptions, EnqueuedJob> enqueue) {
        SUBMITTER_OF_THREAD.set(submitter);
        try {
            return enqueue.apply(options.withMetadata(SUBMITTER, submitter));
        } finally {
            SUBMITTER_OF_THREAD.remove();
        }
    }

    /** Returns whether a metadata entry names the submitter for whom the current thread enqueues a job. */
    static boolean isCurrentSubmitter(String key, String value) {
        return key.equals(SUBMITTER) && value.equals(SUBMITTER_OF_THREAD.get());
    }

    private static String space(String submitter) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(submitter.getBytes(StandardCharsets.UTF_8));
            return PREFIX + Base64.getUrlEncoder().withoutPadding().encodeToString(Arrays.copyOf(hash, BYTES)) + "/";
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    /** @throws JobRejectedException if the key belongs to a submitter other than the one in the metadata */
    static void require(String key, Map<String, String> metadata) {
        if (key.startsWith(PREFIX)) {
            String submitter = metadata.get(SUBMITTER);
            if (submitter == null || !key.startsWith(space(submitter))) {
                throw new JobRejectedException(
                        "unique key '%s': keys that begin with %s are those of jobs submitted over HTTP; use another key"
                                .formatted(Names.printable(key), PREFIX));
            }
        }
    }
}
