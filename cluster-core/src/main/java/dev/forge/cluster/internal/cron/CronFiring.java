// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.internal.cron.CronSlotBatch.Rules;
import dev.forge.cluster.internal.cron.CronSlotStore.DueCron;
import dev.forge.cluster.internal.cron.CronSlotStore.ExcludedCrons;
import dev.forge.cluster.internal.cron.CronSlotStore.HandlerAvailability;
import dev.forge.cluster.internal.cron.CronSlotStore.PagePosition;
import dev.forge.cluster.internal.cron.CronSlotStore.RequiredHandler;
import dev.forge.cluster.internal.database.failure.Causes;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeTime;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.TransientDataAccessException;

/**
 * Fires the due crons of the cluster, in batches of one transaction each. If a batch fails, its crons are fired one by one; a
 * cron that fails alone is excluded for a while, so that it does not stop the others. Confined to the thread of the leader's
 * loop.
 */
final class CronFiring {

    private static final Logger log = GuardedLogger.of(CronFiring.class);
    private static final Duration HANDLERS_CACHED_FOR = Duration.ofSeconds(2);
    private static final Duration RETRY_FAILED_AFTER = Duration.ofSeconds(30);
    /** Slots that are due after this time are left to the next pass. */
    private static final Duration LONGEST_PASS = Duration.ofSeconds(5);

    private final NodeTime time;
    private final Node.Resources resources;
    private final CronSlotStore store;
    private final Rules rules;
    private final Consumer<CronSlotBatch> report;

    private Map<String, HandlerAvailability> handlers = Map.of();
    private long handlersReadAt;
    /** Handlers that due slots wait for. */
    private final Set<RequiredHandler> missingHandlers = new HashSet<>();
    /** Crons that could not be fired, with the time of the last attempt. */
    private final Map<String, Long> failedAt = new HashMap<>();

    private volatile Duration retryFailedAfter = RETRY_FAILED_AFTER;

    /** @param report called after the commit of each batch */
    CronFiring(
            NodeTime time, Node.Resources resources, CronSlotStore store, Rules rules, Consumer<CronSlotBatch> report) {
        this.time = time;
        this.resources = resources;
        this.store = store;
        this.rules = rules;
        this.report = report;
    }

    /** Forgets everything that an earlier term has found. */
    void reset() {
        missingHandlers.clear();
        failedAt.clear();
    }

    void retryFailedAfter(Duration delay) {
        retryFailedAfter = delay;
    }

    /** Reads the handlers of live nodes again if due slots wait for one. */
    void refreshMissingHandlers() {
        if (!missingHandlers.isEmpty()) {
            refreshHandlers();
        }
    }

    /** Returns the time until the next slot that may be decided; zero or negative if it is due, empty if there is none. */
    Optional<Duration> untilNext() {
        return store.untilNext(excluded());
    }

    /** Decides due slots until none is left or the pass has taken too long; returns false if the term is over. */
    boolean fire(SchedulerTerm term) {
        refreshHandlers();
        PagePosition position = PagePosition.FIRST;
        long began = time.nanos();
        while (position != null && time.nanos() - began < LONGEST_PASS.toNanos()) {
            CronSlotBatch batch;
            PagePosition from = position;
            try {
                batch = commit(term, () -> store.due(from, CronSlotBatch.MAX_CRONS, excluded()));
            } catch (TransientDataAccessException e) {
                // A lock timeout or a deadlock is no fault of a cron. The next pass tries again.
                throw e;
            } catch (RuntimeException e) {
                if (DatabaseFailure.kind(e).isOfServer()) {
                    // The server failed, not a cron. The next pass tries again.
                    throw e;
                }
                log.debug("Crons: a batch could not be fired; firing its crons one by one", e);
                return fireOneByOne(term, from);
            }
            if (batch == null) {
                return false;
            }
            position = batch.next();
        }
        return true;
    }

    private boolean fireOneByOne(SchedulerTerm term, PagePosition from) {
        for (String cron : store.dueNames(from, CronSlotBatch.MAX_CRONS, excluded())) {
            try {
                if (commit(term, () -> store.due(cron)) == null) {
                    return false;
                }
            } catch (TransientDataAccessException e) {
                throw e;
            } catch (RuntimeException e) {
                if (DatabaseFailure.kind(e).isOfServer()) {
                    throw e;
                }
                if (!exclude(term, cron, e)) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Decides the crons that {@code due} locks; returns null if the term is over. */
    private @Nullable CronSlotBatch commit(SchedulerTerm term, Supplier<List<DueCron>> due) {
        var batch = new CronSlotBatch(resources.schema(), resources.control(), rules, handlers, term.number());
        if (!term.commit(() -> batch.decide(due.get()))) {
            return null;
        }
        missingHandlers.addAll(batch.missingHandlers());
        batch.advances().forEach(advance -> failedAt.remove(advance.name()));
        report.accept(batch);
        return batch;
    }

    private boolean exclude(SchedulerTerm term, String cron, RuntimeException cause) {
        String state = DatabaseFailure.state(cause);
        // Messages of the server may contain values of rows, and everyone who may see crons sees this text.
        String problem = "could not be fired: "
                + (state == null
                        ? ErrorText.firstLine(String.valueOf(Causes.root(cause).getMessage()))
                        : "the database returned SQLSTATE %s; see the log of the scheduler".formatted(state));
        if (!term.commit(() -> store.recordProblem(cron, problem))) {
            return false;
        }
        if (failedAt.put(cron, time.nanos()) == null) {
            log.warn(
                    "Cron {}: could not be fired. It is retried every {} s; other crons are not affected.",
                    Names.printable(cron),
                    retryFailedAfter.toSeconds(),
                    ErrorText.loggable(cause));
        }
        return true;
    }

    private ExcludedCrons excluded() {
        long now = time.nanos();
        Set<String> failed = failedAt.entrySet().stream()
                .filter(failure -> now - failure.getValue() < retryFailedAfter.toNanos())
                .map(Map.Entry::getKey)
                .collect(Collectors.toSet());
        return new ExcludedCrons(failed, Set.copyOf(missingHandlers));
    }

    private void refreshHandlers() {
        long now = time.nanos();
        if (handlers.isEmpty() || now - handlersReadAt > HANDLERS_CACHED_FOR.toNanos()) {
            handlers = store.availableHandlers();
            handlersReadAt = now;
            missingHandlers.removeIf(missing -> mayRun(missing.name(), missing.target()));
        }
    }

    private boolean mayRun(String handler, CronTarget target) {
        HandlerAvailability availability = handlers.get(handler);
        return availability != null && availability.mayRun(target);
    }
}
