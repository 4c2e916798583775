// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.LeaderCapabilities;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.leader.Leadership;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.MDC;
import org.springframework.core.ParameterizedTypeReference;

/** Runs the methods of crons: turns the job of a slot into the {@link CronContext} that the method receives. */
public final class CronContexts {

    private static final String CRON = "forge.cron.name";
    private static final String SLOT = "forge.cron.slot";

    private final Elector elector;
    private final FencedLeadership leadership;
    private final CronJobStore store;

    /** @param application the data source whose transactions the fence joins */
    public CronContexts(Node node, FencedLeadership leadership, DataSource application) {
        this.elector = node.elector();
        this.leadership = leadership;
        this.store = new CronJobStore(node.resources().schema(), application);
    }

    /** The method of a cron. */
    @FunctionalInterface
    public interface Code {
        @Nullable
        Object run(CronContext context) throws Throwable;
    }

    /** Runs the method of a cron with the name and the slot in the MDC; throws what the method throws. */
    public @Nullable Object run(Claim job, Code code) throws Throwable {
        var context = new SlotContext(job);
        if (!context.metadata.containsKey("cron")) {
            // Enqueued with SQL, or by a node that does not know the cron: on any node, without a slot and without a
            // term.
            throw new NonRetryableJobException(
                    "'%s' is a cron, which only the scheduler may enqueue; Crons.trigger runs it now"
                            .formatted(job.name()));
        }
        MDC.put(CRON, context.name());
        MDC.put(SLOT, context.slot().toString());
        try {
            return code.run(context);
        } finally {
            MDC.remove(CRON);
            MDC.remove(SLOT);
        }
    }

    private final class SlotContext implements CronContext {
        private final Claim job;
        private final Map<String, String> metadata;
        private final long term;
        private final boolean reservedForLeader;

        SlotContext(Claim job) {
            this.job = job;
            this.metadata = job.metadata();
            this.reservedForLeader =
                    LeaderCapabilities.LEADER.equals(job.claimed().queue().capability());
            OptionalLong leading = reservedForLeader ? elector.term(Leadership.SCHEDULER) : OptionalLong.empty();
            this.term = leading.orElseGet(() -> Long.parseLong(metadata.getOrDefault("term", "0")));
        }

        @Override
        public String name() {
            return metadata.getOrDefault("cron", job.name());
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

        private Optional<Instant> time(String key) {
            return Optional.ofNullable(metadata.get(key)).map(Instant::parse);
        }

        @Override
        public <T> Optional<T> payload(Class<T> type) {
            return job.payload(type);
        }

        @Override
        public <T> Optional<T> payload(ParameterizedTypeReference<T> type) {
            return job.payload(type.getType());
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
            return leadership.guarded(work, this::requireClaimAndTerm);
        }

        private void requireClaimAndTerm() {
            if (reservedForLeader) {
                leadership.requireTerm(Leadership.SCHEDULER, job.node(), term);
            }
            if (!store.isClaimedBy(job.id(), job.epoch(), job.node())) {
                throw new ClaimLostException(
                        "Cron %s, slot %s: claim lost, work rolled back. Another node runs the slot."
                                .formatted(name(), slot()));
            }
        }

        @Override
        public JobContext job() {
            return job;
        }
    }
}
