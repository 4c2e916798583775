// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.work.WorkerProperties;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.internal.cron.CronDeclarations;
import dev.forge.cluster.internal.cron.CronStore;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides how many jobs run at once on this node. A transactional handler holds a connection of the application's pool while it
 * runs, and so does a transactional step of a workflow. Numbers that are not configured leave at least a third of the pool, and at
 * least two connections, to requests, health checks and all other uses.
 */
public final class JobSlots implements NodeComponent {

    static final int USUAL_JOBS = 10;
    static final int USUAL_CRONS = 4;

    private static final int LEAST_FREE = 2;
    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private final ClusterProperties cluster;
    private final JobHandlers handlers;
    private final CronDeclarations crons;
    private final ClusterDatabase database;
    private volatile @Nullable Choice choice;

    public JobSlots(ClusterProperties cluster, CronDeclarations crons, ClusterDatabase database) {
        this.cluster = cluster;
        this.crons = crons;
        this.handlers = crons.handlers();
        this.database = database;
    }

    /** Returns the slots of the default executor. */
    public int jobs() {
        Choice chosen = choice;
        return chosen != null ? chosen.jobs : orElse(cluster.worker().maxConcurrentJobs(), USUAL_JOBS);
    }

    /** Returns the slots of a leader for cron runs. */
    public int crons() {
        Choice chosen = choice;
        return chosen != null ? chosen.crons : orElse(cluster.cron().maxConcurrentJobs(), USUAL_CRONS);
    }

    /** Decides, after all handlers are known. */
    @Override
    public void prepare() {
        choice = choice(demand(), ClusterDatabase.HIKARI ? HikariPool.of(database) : null);
    }

    @Override
    public List<String> summary() {
        Choice chosen = choice;
        return chosen == null || handlers.names().isEmpty() || chosen.explanation.isEmpty()
                ? List.of()
                : List.of("Slots: " + chosen.explanation);
    }

    /** Warns about settings that may use all connections. */
    @Override
    public void begin() {
        Choice chosen = choice;
        if (chosen != null && chosen.warning != null && !handlers.names().isEmpty()) {
            log.warn(chosen.warning);
        }
    }

    /**
     * A pool of connections.
     *
     * @param setting what sets its size
     */
    record Pool(String name, int size, String setting) {

        /** Returns the number of connections that jobs leave free. */
        int free() {
            return Math.max(LEAST_FREE, (size + 2) / 3);
        }

        /** Returns the number of connections that jobs may hold at once. */
        int spare() {
            return Math.max(0, size - free());
        }
    }

    /**
     * A kind of slots.
     *
     * @param present whether this node has them
     * @param configured the configured number; null if not configured
     * @param transactional whether one of their handlers holds a connection while it runs
     */
    record Kind(boolean present, @Nullable Integer configured, boolean transactional) {

        private boolean holds() {
            return present && transactional;
        }

        private int held(int slots) {
            return holds() ? slots : 0;
        }
    }

    /**
     * The slots that may hold connections.
     *
     * @param jobs the slots of the default executor
     * @param crons the slots of a leader for cron runs
     * @param others the slots of additional executors, which are always configured, whose handlers hold connections
     */
    record Demand(Kind jobs, Kind crons, int others) {}

    /**
     * The decision.
     *
     * @param explanation for the log; empty if there is nothing to explain
     */
    record Choice(
            int jobs,
            int crons,
            String explanation,
            @Nullable String warning) {}

    static Choice choice(Demand demand, @Nullable Pool pool) {
        int jobs = orElse(demand.jobs.configured, USUAL_JOBS);
        int crons = orElse(demand.crons.configured, USUAL_CRONS);
        if (pool == null) {
            return new Choice(jobs, crons, explanation(demand, jobs, crons), null);
        }
        if (demand.crons.holds() && demand.crons.configured == null) {
            // The default executor gets the larger part.
            int room = demand.jobs.holds() ? pool.spare() / 3 : pool.spare() - demand.others;
            crons = Math.max(1, Math.min(USUAL_CRONS, room));
        }
        if (demand.jobs.holds() && demand.jobs.configured == null) {
            int room = pool.spare() - demand.others - demand.crons.held(crons);
            jobs = Math.max(1, Math.min(USUAL_JOBS, room));
        }
        int held = demand.jobs.held(jobs) + demand.crons.held(crons) + demand.others;
        boolean lowered = jobs < orElse(demand.jobs.configured, USUAL_JOBS)
                || crons < orElse(demand.crons.configured, USUAL_CRONS);
        if (held > pool.spare()) {
            // The warning says all that there is to say about the pool.
            return new Choice(jobs, crons, explanation(demand, jobs, crons), warning(demand, jobs, crons, pool));
        }
        String reason = lowered
                ? (". Transactional handlers and steps hold a connection while they run: %d of the %d connections of the pool"
                                + " '%s' stay free for other uses. For more slots, raise %s, or set %s.")
                        .formatted(pool.size - held, pool.size, pool.name, pool.setting, keys(demand, 0, 0))
                : "";
        return new Choice(jobs, crons, explanation(demand, jobs, crons) + reason, null);
    }

    private static String explanation(Demand demand, int jobs, int crons) {
        return Stream.of(explanation(demand.jobs, jobs, "jobs"), explanation(demand.crons, crons, "crons"))
                .filter(part -> !part.isEmpty())
                .collect(Collectors.joining(", "));
    }

    private static String explanation(Kind kind, int slots, String what) {
        return kind.present ? "%d for %s%s".formatted(slots, what, kind.configured == null ? " (default)" : "") : "";
    }

    private static String warning(Demand demand, int jobs, int crons, Pool pool) {
        int held = demand.jobs.held(jobs) + demand.crons.held(crons) + demand.others;
        int left = Math.max(0, pool.size - held);
        // One slot of a kind cannot be lowered.
        String keys = keys(demand, jobs, crons);
        return ("Pool '%s' is too small: transactional jobs, runs of crons and steps of workflows may hold %d of its %d"
                        + " connections at once. Requests and health checks, which then have %s, may time out. Raise %s to %d%s.")
                .formatted(
                        pool.name,
                        Math.min(held, pool.size),
                        pool.size,
                        left == 0 ? "none" : String.valueOf(left),
                        pool.setting,
                        sizeFor(held),
                        keys.isEmpty() ? "" : ", or lower " + keys);
    }

    /** Returns the settings of the kinds that hold connections, except for kinds with a single slot. */
    private static String keys(Demand demand, int jobs, int crons) {
        return Stream.of(
                        demand.jobs.holds() && jobs != 1 ? "forge.cluster.worker.max-concurrent-jobs" : "",
                        demand.crons.holds() && crons != 1 ? "forge.cluster.cron.max-concurrent-jobs" : "",
                        demand.others > 0 ? "forge.cluster.worker.executors.*.max-concurrent-jobs" : "")
                .filter(key -> !key.isEmpty())
                .collect(Collectors.joining(", "));
    }

    /** Returns the smallest pool that can spare that many connections. */
    private static int sizeFor(int held) {
        int size = held + LEAST_FREE;
        while (new Pool("", size, "").spare() < held) {
            size++;
        }
        return size;
    }

    private Demand demand() {
        WorkerProperties worker = cluster.worker();
        Function<String, String> routes = worker.routes();
        Set<String> executors = new TreeSet<>();
        boolean cronsHold = false;
        for (JobHandler handler : handlers.all()) {
            if (handler.target().transaction() == null
                    && handlers.ownerOf(handler.name()).isEmpty()) {
                continue;
            }
            CronStore.Definition cron = crons.find(handler.name());
            if (cron != null && cron.target() == CronTarget.LEADER) {
                cronsHold = true;
            } else {
                Stream.concat(Stream.of(handler.name()), handler.aliases().stream())
                        .map(routes)
                        .forEach(executors::add);
            }
        }
        boolean isWorker = cluster.node().roles().contains(NodeRole.WORKER)
                && cluster.node().mode() != NodeMode.OBSERVER;
        boolean mayLead = cluster.node().roles().contains(NodeRole.SCHEDULER)
                && (cluster.node().mode() == NodeMode.AUTO || cluster.node().mode() == NodeMode.LEADER);
        return new Demand(
                new Kind(isWorker, worker.maxConcurrentJobs(), executors.contains(WorkerProperties.DEFAULT_EXECUTOR)),
                new Kind(mayLead, cluster.cron().maxConcurrentJobs(), cronsHold),
                isWorker
                        ? worker.executors().entrySet().stream()
                                .filter(executor -> executors.contains(executor.getKey()))
                                .mapToInt(executor -> executor.getValue().maxConcurrentJobs())
                                .sum()
                        : 0);
    }

    private static int orElse(@Nullable Integer configured, int usual) {
        return configured != null ? configured : usual;
    }

    /** A class of its own, because HikariCP may be absent. */
    private static final class HikariPool {

        static @Nullable Pool of(ClusterDatabase database) {
            HikariDataSource hikari = ClusterDatabase.hikari(database.application());
            return hikari == null
                    ? null
                    : new Pool(
                            String.valueOf(hikari.getPoolName()), hikari.getMaximumPoolSize(), database.poolSetting());
        }
    }
}
