package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.RunningJob;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.leader.Leadership;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.MDC;

/** Makes the jobs that crons have fired what their methods see. */
public final class CronContexts {

    private static final String CRON = "forge.cron.name";
    private static final String SLOT = "forge.cron.slot";

    private final Node node;
    private final FencedLeadership leadership;
    private final CronStore store;

    /** @param application whose transactions the fence joins */
    public CronContexts(Node node, FencedLeadership leadership, DataSource application) {
        this.node = node;
        this.leadership = leadership;
        this.store = new CronStore(node.resources().schema(), application);
    }

    /** A method that runs one slot. */
    @FunctionalInterface
    public interface Code {
        @Nullable
        Object run(CronContext context) throws Throwable;
    }

    /** Runs the method of a cron. */
    public @Nullable Object run(JobContext job, Code code) throws Throwable {
        Run context = new Run((RunningJob) job);
        MDC.put(CRON, context.name());
        MDC.put(SLOT, context.slot().toString());
        try {
            return code.run(context);
        } finally {
            MDC.remove(CRON);
            MDC.remove(SLOT);
        }
    }

    private final class Run implements CronContext {
        private final RunningJob job;
        private final Map<String, String> facts;
        private final long term;
        private final boolean led;

        Run(RunningJob job) {
            this.job = job;
            this.facts = job.metadata();
            this.led = JobEngine.LEADER.equals(job.claimed().queue().capability());
            OptionalLong leading = led ? node.elector().term(Leadership.SCHEDULER) : OptionalLong.empty();
            this.term = leading.orElseGet(() -> Long.parseLong(facts.getOrDefault("term", "0")));
        }

        @Override
        public String name() {
            return facts.getOrDefault("cron", job.name());
        }

        @Override
        public Instant slot() {
            return time("slot").orElseGet(job::scheduledAt);
        }

        @Override
        public Instant firedAt() {
            return time("firedAt").orElseGet(job::scheduledAt);
        }

        @Override
        public Optional<Instant> previousSlot() {
            return time("previousSlot");
        }

        private Optional<Instant> time(String fact) {
            return Optional.ofNullable(facts.get(fact)).map(Instant::parse);
        }

        @Override
        public <T> Optional<T> payload(Class<T> type) {
            return job.payload(type);
        }

        @Override
        public int attempt() {
            return job.attempt();
        }

        @Override
        public long term() {
            return term;
        }

        @Override
        public <T> T fenced(Supplier<T> work) {
            return leadership.guarded(work, this::requireOurs);
        }

        private void requireOurs() {
            if (led) {
                leadership.requireTerm(Leadership.SCHEDULER, job.node(), term);
            }
            if (!store.isHeld(job.id(), job.epoch(), job.node())) {
                throw new ClaimLostException(
                        "cron %s, slot %s: another node has the run by now; the work was rolled back"
                                .formatted(name(), slot()));
            }
        }

        @Override
        public JobContext job() {
            return job;
        }
    }
}
