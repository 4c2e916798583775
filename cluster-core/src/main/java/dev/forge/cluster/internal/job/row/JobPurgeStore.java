// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Purges finished jobs and vacuums their table. */
public final class JobPurgeStore {

    private static final Duration LONGEST_VACUUM = Duration.ofMinutes(30);

    private final Tables tables;

    public JobPurgeStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** The finished jobs that an index has in the order of their age. */
    public enum Kind {
        COMPLETED(JobStatus.COMPLETED),
        CANCELLED(JobStatus.CANCELLED),
        FAILED(JobStatus.FAILED),
        ABANDONED(JobStatus.ABANDONED),
        /** Jobs with their own retention. */
        RETAINED(
                // A job that was made pending by hand keeps both values.
                "retention IS NOT NULL AND finished_at IS NOT NULL"
                        + " AND status IN ('completed', 'failed', 'cancelled', 'abandoned')",
                "(finished_at AT TIME ZONE 'UTC') + retention",
                null);

        /** Includes the condition of the index: otherwise the index would not be used. */
        public final String condition;
        /** The expression of the index. */
        public final String age;

        private final @Nullable JobStatus status;

        Kind(JobStatus status) {
            this("status = '%s' AND retention IS NULL".formatted(EnumText.underscored(status)), "finished_at", status);
        }

        Kind(String condition, String age, @Nullable JobStatus status) {
            this.condition = condition;
            this.age = age;
            this.status = status;
        }

        public boolean mayInclude(JobStatus wanted) {
            return status == null ? wanted.isFinal() : status == wanted;
        }
    }

    /** Finds the job {@code u.row_id} if it has finished. */
    public static final String FINISHED_JOB =
            "SELECT FROM ~.forge_jobs j WHERE j.id = u.row_id AND j.status NOT IN " + JobRows.ACTIVE;

    /**
     * Which finished jobs are deleted.
     *
     * @param completed how long completed and cancelled jobs are kept that have no retention of their own
     * @param failed the same for failed and abandoned ones
     * @param awaited an SQL condition on jobs {@code j} that must stay; empty: none
     */
    public record Expiry(Duration completed, Duration failed, String awaited) {

        private Duration age(Kind kind) {
            return switch (kind) {
                case COMPLETED, CANCELLED -> completed;
                case FAILED, ABANDONED -> failed;
                case RETAINED -> Duration.ZERO;
            };
        }

        /** Returns the SQL condition that a job {@code j} of a kind may be deleted, with the parameter {@code :<kind>}. */
        private String condition(Kind kind) {
            // Not clock_timestamp(): an index cannot be searched for a value that changes during the search.
            return "%1$s AND %2$s < %3$s - :%4$s * interval '1 millisecond' AND NOT (%5$s)"
                    .formatted(
                            kind.condition,
                            kind.age,
                            kind == Kind.RETAINED ? "now() AT TIME ZONE 'UTC'" : "now()",
                            EnumText.underscored(kind),
                            (awaited.isEmpty() ? "false" : awaited)
                                    + (kind == Kind.COMPLETED ? "" : " OR " + JobDependencyStore.FAILED_FOR_OTHERS));
        }
    }

    /** Deletes finished jobs whose retention has passed, up to the limit, and reads no others. */
    public int purge(Expiry expiry, int limit) {
        int deleted = 0;
        for (Kind kind : Kind.values()) {
            if (deleted < limit) {
                if (kind != Kind.RETAINED) {
                    date(kind, limit - deleted);
                }
                deleted += delete(kind, expiry, limit - deleted);
            }
        }
        return deleted;
    }

    /** Sets the time of jobs that were ended by hand without a time: their retention begins now. */
    private void date(Kind kind, int limit) {
        // In the order of the index: the planner multiplies the share of completed jobs with the share of jobs without
        // a time. It expects many that are both, and would read the whole table to find the first of them.
        tables.sql("""
                UPDATE ~.forge_jobs SET finished_at = now() WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs WHERE %s AND finished_at IS NULL
                    ORDER BY finished_at LIMIT (SELECT ?) FOR UPDATE SKIP LOCKED))
                """.formatted(kind.condition)).param(limit).update();
    }

    private int delete(Kind kind, Expiry expiry, int limit) {
        // A plain DELETE for completed jobs: they end no window, and their batches need not count them.
        String which = "WHERE j.id = ANY (ARRAY(%s FOR UPDATE SKIP LOCKED))".formatted(expired(kind, expiry));
        JdbcClient.StatementSpec statement = tables.sql(
                        kind == Kind.COMPLETED ? "DELETE FROM ~.forge_jobs j " + which : counting(which))
                .param(EnumText.underscored(kind), expiry.age(kind).toMillis())
                .param("limit", limit);
        return kind == Kind.COMPLETED
                ? statement.update()
                : statement.query(Integer.class).single();
    }

    private static String expired(Kind kind, Expiry expiry) {
        return "SELECT id FROM ~.forge_jobs j WHERE %s AND %s ORDER BY %s LIMIT (SELECT :limit)"
                .formatted(expiry.condition(kind), UndeletableStore.notSetAside("forge_jobs", "j.id"), kind.age);
    }

    /**
     * Returns the part of a statement that deletes finished jobs {@code j}, as {@code deleted}. Without its row, the window of a job
     * that did not complete would stay open, and its batch would succeed.
     *
     * @param which the rest of the DELETE: other tables, and a condition that selects the jobs
     */
    static String deleting(String which) {
        return "deleted AS (DELETE FROM ~.forge_jobs j %s RETURNING j.id, j.name, j.unique_key, j.status, j.batch_id), %s, %s"
                .formatted(which, UniqueJobStore.ENDING_WINDOWS, JobBatchStore.REMEMBERING);
    }

    private static String counting(String which) {
        return "WITH %s SELECT count(*) FROM deleted".formatted(deleting(which));
    }

    /** Returns the jobs that {@link #purge(Expiry, int)} would delete. */
    public List<UUID> expired(Expiry expiry, int limit) {
        var ids = new ArrayList<UUID>();
        for (Kind kind : Kind.values()) {
            if (ids.size() < limit) {
                ids.addAll(tables.sql(expired(kind, expiry))
                        .param(EnumText.underscored(kind), expiry.age(kind).toMillis())
                        .param("limit", limit - ids.size())
                        .query((row, n) -> row.getObject(1, UUID.class))
                        .list());
            }
        }
        return ids;
    }

    /** Deletes those of these finished jobs whose retention has passed. */
    public int purge(Expiry expiry, Collection<UUID> among) {
        String expired = Stream.of(Kind.values())
                .map(kind -> "(" + expiry.condition(kind) + ")")
                .collect(Collectors.joining(" OR "));
        JdbcClient.StatementSpec statement =
                tables.sql(counting("""
                        WHERE j.id = ANY (ARRAY(
                            SELECT id FROM ~.forge_jobs j WHERE id = ANY (:among::uuid[]) AND (%s)
                            ORDER BY id FOR UPDATE SKIP LOCKED))
                        """.formatted(expired))).param("among", among.toArray(UUID[]::new));
        for (Kind kind : Kind.values()) {
            statement.param(EnumText.underscored(kind), expiry.age(kind).toMillis());
        }
        return statement.query(Integer.class).single();
    }

    /** Returns the number of dead rows of the table according to the statistics of the server. */
    public long deadRows() {
        return tables.sql("SELECT coalesce(pg_stat_get_dead_tuples(to_regclass(?)), 0)")
                .param(tables.complete("~.forge_jobs"))
                .query(Long.class)
                .single();
    }

    /** Vacuums the table. Best effort: only its owner may do so, and not while another vacuum runs. */
    public void vacuum() {
        tables.jdbc().execute((ConnectionCallback<Boolean>) connection -> {
            connection.setNetworkTimeout(Runnable::run, (int) LONGEST_VACUUM.toMillis());
            try (Statement statement = connection.createStatement()) {
                return statement.execute(
                        tables.complete("VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED) ~.forge_jobs"));
            }
        });
    }
}
