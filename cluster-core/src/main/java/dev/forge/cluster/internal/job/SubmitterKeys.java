package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobRejectedException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;

/**
 * Unique keys of jobs that clients submit over HTTP. Each submitter has keys of its own: the stored key begins with a hash
 * of the submitter, whom the job's metadata name. Keys of the application never begin like that, so neither a client nor
 * a text that the application takes from a client can reach the job of another submitter.
 */
public final class SubmitterKeys {

    /** The entry of a job's metadata that names its submitter. */
    public static final String SUBMITTER = "forge.http.principal";

    static final String PREFIX = "@http/";

    /** Of a hash; 128 bits are enough against whoever looks for a name with the hash of another. */
    private static final int BYTES = 16;

    private SubmitterKeys() {}

    /** The key as it is stored. */
    public static String of(String submitter, String key) {
        return space(submitter) + key;
    }

    private static String space(String submitter) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(submitter.getBytes(StandardCharsets.UTF_8));
            return PREFIX + Base64.getUrlEncoder().withoutPadding().encodeToString(Arrays.copyOf(hash, BYTES)) + "/";
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    /** @throws JobRejectedException if the key is another submitter's, or that of a submitter where there is none */
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
