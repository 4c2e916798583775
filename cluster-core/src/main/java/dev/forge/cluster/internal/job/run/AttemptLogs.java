// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.JobLogStore;
import dev.forge.cluster.internal.job.row.JobLogStore.NewLine;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Writes the lines that handlers log: those of all running jobs together, twice a second, and those of one job when its handler has
 * returned. The statements are not part of the transaction of a handler, so lines survive a failed attempt.
 */
public final class AttemptLogs {

    private static final Logger log = GuardedLogger.of(AttemptLogs.class);

    private final JobLogStore store;
    private final LongSupplier nanos;

    AttemptLogs(JobLogStore store, LongSupplier nanos) {
        this.store = store;
        this.nanos = nanos;
    }

    /** Returns the time of a line. */
    long now() {
        return nanos.getAsLong();
    }

    /** Writes the lines of jobs. Lines that cannot be written now are kept. */
    void write(Collection<AttemptLog> logs) {
        var byNode = new LinkedHashMap<UUID, Map<AttemptLog, List<AttemptLog.Line>>>();
        for (AttemptLog lines : logs) {
            if (!lines.isEmpty()) {
                byNode.computeIfAbsent(lines.node(), node -> new LinkedHashMap<>())
                        .put(lines, lines.take());
            }
        }
        byNode.forEach(this::write);
    }

    private void write(UUID node, Map<AttemptLog, List<AttemptLog.Line>> taken) {
        boolean kept = false;
        try {
            long now = nanos.getAsLong();
            var lines = new ArrayList<NewLine>();
            var trimmed = new ArrayList<UUID>();
            taken.forEach((all, some) -> {
                some.forEach(line -> lines.add(new NewLine(
                        all.key(),
                        all.attempt(),
                        line.number(),
                        Math.max(0, (now - line.nanos()) / 1_000),
                        line.message())));
                // Earlier claims may have left lines.
                if (all.key().epoch() > 1 || all.isLong()) {
                    trimmed.add(all.key().id());
                }
            });
            store.write(node, lines);
            if (!trimmed.isEmpty()) {
                store.trim(trimmed);
            }
        } catch (RuntimeException e) {
            // Lines decide nothing about their job. A line that the database rejects would be rejected each time.
            kept = !(e instanceof DataAccessException failure
                    && DatabaseFailure.kind(failure).isOfRow());
            log.debug("Lines of {} jobs could not be written; {}", taken.size(), kept ? "kept" : "dropped", e);
        } finally {
            boolean keep = kept;
            taken.forEach((all, some) -> all.written(keep ? some : List.of()));
        }
    }

    /** Writes the lines of a job whose handler has returned. */
    void writeLast(AttemptLog lines) {
        lines.awaitWritten();
        write(List.of(lines));
    }
}
