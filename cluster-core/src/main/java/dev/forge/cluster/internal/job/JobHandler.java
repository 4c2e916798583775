package dev.forge.cluster.internal.job;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.JobContext;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;

/**
 * A job as its handler declares it.
 *
 * @param aliases former names
 * @param capability what a node must offer to run it; null: nothing
 */
public record JobHandler(
        String name, List<String> aliases, @Nullable String capability, int priority, Limits limits, Target target) {

    /**
     * When an attempt, and the job, has failed.
     *
     * @param jitter share of the backoff that is left to chance
     * @param excluded exceptions after which trying again is of no use
     * @param retention once it is finished; null: as the cluster is configured
     */
    public record Limits(
            int maxAttempts,
            BackoffStrategy backoff,
            double jitter,
            Set<Class<? extends Throwable>> excluded,
            @Nullable Duration timeout,
            @Nullable Duration retention) {

        boolean isPermanent(Throwable failure) {
            return excluded.stream().anyMatch(type -> type.isInstance(failure));
        }
    }

    /**
     * What runs.
     *
     * @param payloadType null: it takes none
     * @param transaction the transaction it wants to run in, whose last statement completes the job; null: none
     * @param description where it is, for people
     */
    public record Target(
            @Nullable Type payloadType, @Nullable Transaction transaction, Code code, String description) {

        /** Checks that the handler can read a payload that was written for it, if it takes one. */
        public void requireReadable(PayloadJson json, @Nullable Object payload, String text) {
            if (payloadType != null) {
                json.requireReadable(payload, text, payloadType, description);
            }
        }
    }

    /** The handler's own transaction. */
    public record Transaction(PlatformTransactionManager manager, TransactionDefinition definition) {}

    /** The method. */
    @FunctionalInterface
    public interface Code {

        /** Runs it; what it throws is its own exception, unwrapped. */
        @Nullable
        Object run(@Nullable Object payload, JobContext context) throws Throwable;
    }

    boolean isTransactional() {
        return target.transaction != null;
    }
}
