// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings.SignalLimits;
import java.sql.Types;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Signals to runs: {@code forge_workflow_signals}. */
public final class WorkflowSignalStore {

    private final Tables tables;
    private final CommandTransactionStore transactions;

    public WorkflowSignalStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.transactions = new CommandTransactionStore(source);
    }

    /**
     * A signal to send.
     *
     * @param payload JSON
     */
    public record NewSignal(UUID id, String name, @Nullable String payload) {}

    /** The result of sending a signal. */
    public sealed interface SendResult {

        /**
         * The signal is stored until the run consumes it.
         *
         * @param wakes whether the run continues now
         */
        record Sent(boolean wakes) implements SendResult {}

        /** Nothing was stored: there is no such run, or it has ended. */
        record NoActiveRun() implements SendResult {}

        /** Nothing was stored: the run has that many unconsumed signals. The caller's transaction can continue. */
        record LimitReached(int signals, long bytes) implements SendResult {}
    }

    /**
     * Sends a signal to a run, in the caller's transaction or one of its own. Beyond the limits, only the first signal is
     * accepted that the run waits for: signals that nobody consumes must not block it.
     *
     * @throws org.springframework.dao.CannotAcquireLockException if another transaction keeps the run locked for too long
     */
    public SendResult send(UUID run, NewSignal signal, SignalLimits limits) {
        // Two statements: the second must see what an execution has written that suspended the run before the first
        // statement got the lock, and all signals that were sent before.
        return transactions.execute("signal '%s'".formatted(signal.name), run, () -> {
            String awaits = tables.sql("""
                    SELECT coalesce(awaits, '') FROM ~.forge_workflow_runs
                    WHERE id = ? AND status NOT IN %s FOR NO KEY UPDATE
                    """.formatted(WorkflowRunStore.FINAL))
                    .param(run)
                    .query(String.class)
                    .optional()
                    .orElse(null);
            return awaits == null
                    ? new SendResult.NoActiveRun()
                    : insert(run, signal, limits, awaits.equals(signal.name));
        });
    }

    private SendResult insert(UUID run, NewSignal signal, SignalLimits limits, boolean awaited) {
        return tables.sql("""
                WITH waiting AS MATERIALIZED (
                    SELECT count(*)::int AS signals, count(*) FILTER (WHERE g.name = :name) AS same,
                           coalesce(sum(coalesce(g.payload_bytes, octet_length(g.payload::text))), 0)::bigint AS bytes
                    FROM ~.forge_workflow_signals g WHERE g.run_id = :run),
                given AS (
                    INSERT INTO ~.forge_workflow_signals (id, run_id, name, payload, created_at, payload_bytes)
                    SELECT :id, :run, :name, :payload::jsonb, clock_timestamp(), :bytes FROM waiting
                    WHERE signals < :most AND waiting.bytes + :bytes <= :most_bytes OR :awaited AND same = 0
                    RETURNING run_id),
                counted AS (
                    UPDATE ~.forge_workflow_runs r SET wake_seq = (r.wake_seq + 1) %% 1000000000000000000 FROM given WHERE r.id = given.run_id),
                woken AS (%s RETURNING 1)
                SELECT signals, bytes, EXISTS (SELECT FROM given), EXISTS (SELECT FROM woken) FROM waiting
                """.formatted(JobScheduleStore.waking(
                        "WHERE j.id = :run AND j.status = 'pending' AND :awaited AND EXISTS (SELECT FROM given)")))
                .param("run", run)
                .param("id", signal.id)
                .param("name", signal.name)
                .param("payload", signal.payload, Types.VARCHAR)
                .param("bytes", (int) PrintedJson.bytes(signal.payload))
                .param("most", limits.signals())
                .param("most_bytes", limits.bytes())
                .param("awaited", awaited)
                .query((row, n) -> row.getBoolean(3)
                        ? new SendResult.Sent(row.getBoolean(4))
                        : new SendResult.LimitReached(row.getInt(1), row.getLong(2)))
                .single();
    }

    /** Reads the payload of a signal, JSON; null if it has none. */
    public @Nullable String payload(UUID signal) {
        return tables.sql("SELECT payload::text FROM ~.forge_workflow_signals WHERE id = ?")
                .param(signal)
                .query((row, n) -> Optional.ofNullable(row.getString(1)))
                .optional()
                .flatMap(payload -> payload)
                .orElse(null);
    }
}
