package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.between;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.notShorter;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.shorter;

import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * How jobs are held, retried and kept.
 *
 * @param leaseDuration How long a running job belongs to its node without a sign of life.
 * @param heartbeatInterval Pause between two signs of life of a running job.
 * @param claimStartTimeout How long a claimed job may wait for its start before others may have it.
 * @param maxAttempts How often a job is tried before it has failed.
 * @param timeout How long an attempt may take before it is interrupted and has failed; no limit by default.
 * @param crashPolicy What a crash of the node costs the job: requeue spends no attempt, fail counts as one.
 * @param maxRecoveries How many crashes a job may survive before it is abandoned.
 * @param maxPayloadSize How large a payload may be.
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

    /** What a crash of its node costs a job. */
    public enum CrashPolicy {
        /** No attempt; the crash counts as a recovery. */
        REQUEUE,
        /** An attempt. */
        FAIL
    }

    /**
     * How long a failed job waits for its next attempt.
     *
     * @param strategy How the delay grows with the attempts.
     * @param delay How long a job waits before its second attempt.
     * @param multiplier Factor by which an exponential delay grows at each attempt.
     * @param maxDelay How long a job waits at most.
     * @param jitter Share of the delay that is left to chance, so that jobs which failed together do not return
     *     together.
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
            /** Multiplied at each attempt. */
            EXPONENTIAL,
            /** Longer by the same amount at each attempt. */
            LINEAR,
            /** Always the same. */
            FIXED
        }
    }

    /**
     * How long finished jobs are kept; zero deletes them at once.
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
