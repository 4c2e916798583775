// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.work;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.between;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notShorter;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.shorter;

import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * Defaults of jobs.
 *
 * @param leaseDuration How long a node keeps its claim on a running job without renewing it.
 * @param heartbeatInterval Interval at which a node renews the leases of its running jobs.
 * @param claimStartTimeout How long a claimed job may wait for its start before other nodes may claim it.
 * @param maxAttempts Number of attempts before a job fails for good.
 * @param timeout How long an attempt may run before it is interrupted and counts as failed. Default: unlimited.
 * @param crashPolicy Effect of a node crash on a running job: requeue consumes no attempt, fail consumes one.
 * @param maxRecoveries Number of node crashes that a job survives. With one more it is abandoned.
 * @param maxPayloadSize Largest size of a payload.
 * @param events Spring events that are published: none, failures (a job failed permanently or was abandoned), or all, which adds
 *     the start and end of each attempt.
 */
public record JobProperties(
        @DefaultValue("60s") Duration leaseDuration,
        @DefaultValue("10s") Duration heartbeatInterval,
        @DefaultValue("5m") Duration claimStartTimeout,
        @DefaultValue("10") int maxAttempts,
        @DefaultValue Backoff backoff,
        @Nullable Duration timeout,
        @DefaultValue("requeue") CrashPolicy crashPolicy,
        @DefaultValue("3") int maxRecoveries,
        @DefaultValue("1MB") DataSize maxPayloadSize,
        @DefaultValue("failures") Events events,
        @DefaultValue Retention retention) {
    public JobProperties {
        positive("job.lease-duration", leaseDuration);
        positive("job.heartbeat-interval", heartbeatInterval);
        positive("job.claim-start-timeout", claimStartTimeout);
        positive("job.timeout", timeout);
        shorter("job.heartbeat-interval", heartbeatInterval, "job.lease-duration", leaseDuration);
        atLeast(1, "job.max-attempts", maxAttempts);
        atLeast(0, "job.max-recoveries", maxRecoveries);
        require(maxPayloadSize.toBytes() > 0, "job.max-payload-size", maxPayloadSize, "must be larger than zero");
    }

    /** Spring events that are published. */
    public enum Events {
        /** No events of jobs. */
        NONE,
        /** JobFailed. */
        FAILURES,
        /** JobFailed, and JobStarted and JobEnded for each attempt. */
        ALL
    }

    /** Effect of a node crash on a running job. */
    public enum CrashPolicy {
        /** Consumes no attempt; the crash counts as a recovery. */
        REQUEUE,
        /** Consumes an attempt. */
        FAIL
    }

    /**
     * Delay before the next attempt of a failed job.
     *
     * @param strategy How the delay grows with each attempt.
     * @param delay Delay before the second attempt.
     * @param multiplier Factor by which an exponential delay grows with each attempt.
     * @param maxDelay Longest delay.
     * @param jitter Random share of the delay, so that jobs that failed together are not retried together.
     */
    public record Backoff(
            @DefaultValue("exponential") Strategy strategy,
            @DefaultValue("2s") Duration delay,
            @DefaultValue("2.0") double multiplier,
            @DefaultValue("5m") Duration maxDelay,
            @DefaultValue("0.25") double jitter) {
        public Backoff {
            positive("job.backoff.delay", delay);
            positive("job.backoff.max-delay", maxDelay);
            notShorter("job.backoff.max-delay", maxDelay, "job.backoff.delay", delay);
            require(
                    multiplier >= 1 && Double.isFinite(multiplier),
                    "job.backoff.multiplier",
                    multiplier,
                    "must be at least 1");
            between(0, 1, "job.backoff.jitter", jitter);
        }

        /** How a delay grows. */
        public enum Strategy {
            /** Multiplied with each attempt. */
            EXPONENTIAL,
            /** Longer by the same amount with each attempt. */
            LINEAR,
            /** The same for each attempt. */
            FIXED
        }
    }

    /**
     * Retention of finished jobs; zero deletes them at once.
     *
     * @param completed How long completed and cancelled jobs are kept.
     * @param failed How long failed and abandoned jobs are kept.
     */
    public record Retention(
            @DefaultValue("1d") Duration completed,
            @DefaultValue("7d") Duration failed) {
        public Retention {
            notNegative("job.retention.completed", completed);
            notNegative("job.retention.failed", failed);
        }
    }
}
