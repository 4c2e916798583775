// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.job.operations.JobLimits;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ResolvableType;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;

/**
 * A handler of jobs, as the application declares it.
 *
 * @param aliases former names of the job
 * @param capability the capability that a node must offer; null: none
 */
public record JobHandler(
        String name,
        List<String> aliases,
        @Nullable String capability,
        int priority,
        Limits limits,
        Grouping grouping,
        Target target) {

    /** Creates a handler without groups. */
    public JobHandler(
            String name,
            List<String> aliases,
            @Nullable String capability,
            int priority,
            Limits limits,
            Target target) {
        this(name, aliases, capability, priority, limits, Grouping.NONE, target);
    }

    /**
     * The groups of jobs.
     *
     * @param group determines the group of a job from its payload; null: only options do
     * @param ordered whether the jobs of a group run one after the other, in the order in which they were enqueued
     */
    public record Grouping(@Nullable GroupOfPayload group, JobLimits limits, boolean ordered) {

        public static final Grouping NONE = new Grouping(null, JobLimits.none(), false);

        /** Returns whether there is anything that claims must observe. */
        public boolean isLimited() {
            return ordered || !limits.equals(JobLimits.none());
        }
    }

    /** Determines the group of a job. */
    @FunctionalInterface
    public interface GroupOfPayload {

        /**
         * Returns the group; null: none.
         *
         * @throws IllegalArgumentException if it cannot be determined
         */
        @Nullable
        String of(@Nullable Object payload);
    }

    /**
     * The limits of an attempt and of the job.
     *
     * @param jitter the random share of the backoff
     * @param noRetryFor exceptions that fail the job without a further attempt
     * @param retention how long the finished job is kept; null: as the cluster is configured
     */
    public record Limits(
            int maxAttempts,
            BackoffStrategy backoff,
            double jitter,
            Set<Class<? extends Throwable>> noRetryFor,
            @Nullable Duration timeout,
            @Nullable Duration retention) {

        /** The metadata key of a job that has a timeout of its own, in milliseconds. */
        public static final String TIMEOUT_KEY = "forge.timeoutMillis";

        /** The metadata key of a job that has a retention of its own, in milliseconds. */
        public static final String RETENTION_KEY = "forge.retentionMillis";

        /** Returns these limits with those that the metadata of a job overrides. */
        public Limits overriddenBy(Map<String, String> metadata) {
            Duration ownTimeout = millis(metadata.get(TIMEOUT_KEY));
            Duration ownRetention = millis(metadata.get(RETENTION_KEY));
            return new Limits(
                    maxAttempts,
                    backoff,
                    jitter,
                    noRetryFor,
                    ownTimeout != null ? ownTimeout : timeout,
                    ownRetention != null ? ownRetention : retention);
        }

        /** A text that was edited by hand and is not a number counts as absent. */
        private static @Nullable Duration millis(@Nullable String text) {
            return text != null && MILLIS.matcher(text).matches() ? Duration.ofMillis(Long.parseLong(text)) : null;
        }

        private static final Pattern MILLIS = Pattern.compile("[0-9]{1,15}");

        public boolean isPermanent(Throwable failure) {
            return noRetryFor.stream().anyMatch(type -> type.isInstance(failure));
        }
    }

    /**
     * The method of the handler.
     *
     * @param payloadType null: it takes no payload
     * @param transaction the transaction of the handler, whose last statement completes the job; null: none
     * @param code calls the method for one job
     * @param bulk calls the method for many jobs; null: it takes one job
     * @param description class and method, for messages
     */
    public record Target(
            @Nullable Type payloadType,
            @Nullable Transaction transaction,
            Code code,
            @Nullable Bulk bulk,
            String description) {

        public Target(@Nullable Type payloadType, @Nullable Transaction transaction, Code code, String description) {
            this(payloadType, transaction, code, null, description);
        }

        /** Returns the largest number of jobs that a call takes. */
        public int callSize() {
            return bulk == null ? 1 : bulk.size();
        }

        /** Returns a payload as the handler receives it. Clients that do not know its type pass maps and lists. */
        public @Nullable Object payload(PayloadJson json, @Nullable Object payload, String text) {
            return payloadType == null || ResolvableType.forType(payloadType).isInstance(payload)
                    ? payload
                    : json.read(text, payloadType);
        }

        /** Checks that the handler can read a payload, if it takes one. */
        public void requireReadable(PayloadJson json, @Nullable Object payload, String text) {
            if (payloadType != null) {
                json.requireReadable(payload, text, payloadType, description);
            }
        }
    }

    /**
     * How a handler takes many jobs at a time.
     *
     * @param size the largest number of jobs per call
     * @param patience how long a call waits for more jobs
     */
    public record Bulk(int size, Duration patience, BulkCode code) {

        /**
         * Returns a result for each job, or none at all.
         *
         * @param returned what the method returned, or the value of the future that it returned
         * @throws NonRetryableJobException if that cannot be assigned to the jobs
         */
        public static List<?> results(@Nullable Object returned, int jobs) {
            if (returned == null) {
                return List.of();
            }
            if (returned instanceof List<?> results && results.size() == jobs) {
                return results;
            }
            throw new NonRetryableJobException(
                    "a call for many jobs must return nothing, or a List with a result or an Outcome for each job; for %d jobs it returned %s"
                            .formatted(
                                    jobs,
                                    returned instanceof List<?> results
                                            ? "%d results".formatted(results.size())
                                            : returned.getClass().getName()));
        }
    }

    /** Calls the method for many jobs. */
    @FunctionalInterface
    public interface BulkCode {

        /**
         * Calls the method; exceptions of the method are thrown unwrapped.
         *
         * @return what the method returned: nothing, or one result or outcome for each job
         */
        @Nullable
        Object run(List<?> payloads, List<JobContext> contexts) throws Throwable;
    }

    /** The transaction of a handler. */
    public record Transaction(PlatformTransactionManager manager, TransactionDefinition definition) {}

    /** Calls the method. */
    @FunctionalInterface
    public interface Code {

        /** Calls the method; exceptions of the method are thrown unwrapped. */
        @Nullable
        Object run(@Nullable Object payload, Claim claim) throws Throwable;
    }

    /** Returns the name and the former names of the job. */
    public List<String> names() {
        return Stream.concat(Stream.of(name), aliases.stream()).toList();
    }

    public boolean isTransactional() {
        return target.transaction != null;
    }
}
