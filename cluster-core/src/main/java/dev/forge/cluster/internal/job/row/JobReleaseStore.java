// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Releases jobs that wait for another one: those with the same unique key, and those that carry a workflow run which awaits a job or a
 * batch. A trigger releases most of them in the transaction that ends the other job. It cannot release a job that this transaction does
 * not see.
 */
public final class JobReleaseStore {

    /** How many waiting jobs one call of {@link #freeNext} reads. */
    public static final int MOST_READ = 10_000;

    private static final int MOST_FREED = 1_000;

    /** Each blocked key costs a timeout. */
    private static final int MOST_BLOCKED_KEYS = 3;

    /** The condition that job {@code w} waits for nothing that still goes on. Only the change of a batch releases its callbacks. */
    private static final String RELEASED = """
            NOT EXISTS (SELECT FROM ~.forge_jobs p WHERE p.id = w.waits_for AND p.status IN %s)
              AND NOT EXISTS (SELECT FROM ~.forge_job_batches b
                              WHERE b.id = w.waits_for AND (b.ended_at IS NULL OR w.id IN (b.on_failure, b.on_end, b.on_success)))
            """.formatted(JobRows.ACTIVE);

    /** What changes in a pending job {@code j} that need not wait any longer. A time in the past would put it ahead of all others. */
    static final String FREED = "waits_for = NULL, scheduled_at = greatest(j.scheduled_at, clock_timestamp())";

    private final Tables tables;

    public JobReleaseStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** Releases one successor if its predecessor has ended. */
    public int free(UUID successor) {
        return freeing("AND w.id = ?").param(successor).update();
    }

    /** Releases those of some successors whose predecessor has ended. */
    public int free(Collection<UUID> successors) {
        return freeing("AND w.id = ANY (?::uuid[])")
                .param(successors.toArray(UUID[]::new))
                .update();
    }

    /** Releases the successors of a job that ended in a transaction which could not see them. */
    public int freeSuccessorsOf(UUID predecessor) {
        return freeing("AND w.waits_for = ?").param(predecessor).update();
    }

    private JdbcClient.StatementSpec freeing(String which) {
        return tables.sql("""
                UPDATE ~.forge_jobs w
                SET waits_for = (SELECT a.id FROM ~.forge_jobs a
                                 WHERE a.name = w.name AND a.unique_key = w.unique_key AND a.waits_for IS NULL
                                   AND a.status IN %1$s)
                WHERE w.waits_for IS NOT NULL AND w.status = 'pending' %2$s AND %3$s
                """.formatted(JobRows.ACTIVE, which, RELEASED));
    }

    /** A waiting job and what it waits for. */
    public record Place(UUID waitsFor, UUID id) {}

    /**
     * What {@link #freeNext} did.
     *
     * @param last the last job that it read; null: the next call starts from the beginning
     */
    public record Freed(int jobs, @Nullable Place last) {}

    /**
     * Releases successors whose predecessor ended while they were being enqueued. Reads the next {@value #MOST_READ} waiting jobs,
     * releases at most a thousand of them and skips locked rows; the sweeps that follow do the rest.
     */
    public Freed freeNext(@Nullable Place after) {
        UUID first = new UUID(0, 0);
        Slice slice = tables.sql("""
                WITH slice AS MATERIALIZED (
                    SELECT w.id, w.waits_for FROM ~.forge_jobs w
                    WHERE w.waits_for IS NOT NULL AND w.status = 'pending' AND w.waits_for >= :other
                      AND (w.waits_for, w.id) > (:other, :id)
                    ORDER BY w.waits_for, w.id LIMIT :most)
                SELECT ARRAY(SELECT w.id FROM slice w WHERE %s LIMIT :freed),
                       (SELECT count(*) FROM slice), waits_for, id
                FROM slice ORDER BY waits_for DESC, id DESC LIMIT 1
                """.formatted(RELEASED))
                .param("other", after == null ? first : after.waitsFor, Types.OTHER)
                .param("id", after == null ? first : after.id, Types.OTHER)
                .param("most", MOST_READ)
                .param("freed", MOST_FREED)
                .query((row, n) -> new Slice(
                        List.of((UUID[]) row.getArray(1).getArray()),
                        row.getInt(2) < MOST_READ
                                ? null
                                : new Place(row.getObject(3, UUID.class), row.getObject(4, UUID.class))))
                .optional()
                .orElse(new Slice(List.of(), null));
        int freed = slice.releasable.isEmpty() ? 0 : freeUnlocked(slice.releasable);
        // There may be more of them in the same slice.
        return new Freed(freed, freed > 0 && slice.releasable.size() == MOST_FREED ? after : slice.last);
    }

    private record Slice(List<UUID> releasable, @Nullable Place last) {}

    private int freeUnlocked(List<UUID> releasable) {
        try {
            return freeing("AND w.id = ANY (ARRAY(SELECT j.id FROM ~.forge_jobs j WHERE j.id = ANY (?::uuid[])"
                            + " ORDER BY j.id FOR UPDATE SKIP LOCKED))")
                    .param(releasable.toArray(UUID[]::new))
                    .update();
        } catch (DataAccessException e) {
            if (!isOfOneKey(e)) {
                throw e;
            }
            return freeSeparately(releasable);
        }
    }

    /**
     * Releases successors one by one: an open transaction of another session has inserted a job with the key of one of them.
     * The order is random, so that the keys that are blocked now do not hold up the same successors in every sweep.
     */
    private int freeSeparately(List<UUID> releasable) {
        int freed = 0;
        int blocked = 0;
        var inRandomOrder = new ArrayList<>(releasable);
        Collections.shuffle(inRandomOrder);
        for (UUID successor : inRandomOrder) {
            try {
                freed += free(successor);
            } catch (DataAccessException e) {
                if (!isOfOneKey(e)) {
                    throw e;
                }
                if (++blocked == MOST_BLOCKED_KEYS) {
                    break;
                }
            }
        }
        return freed;
    }

    /** Behind a transaction pooler there is no lock timeout; the driver cancels the statement. */
    private static boolean isOfOneKey(DataAccessException failure) {
        return DatabaseFailure.kind(failure) == Kind.LOCK_TIMEOUT
                || DatabaseFailure.kind(failure) == Kind.STATEMENT_TIMEOUT
                || DatabaseFailure.kind(failure).isOfRow();
    }
}
