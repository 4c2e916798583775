// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Ends claims: completes, fails, deletes or returns their jobs. Every statement names the node and the epoch of the claim, and its
 * update count decides whether the claim was still valid.
 */
public final class JobFinishStore {

    private static final String HISTORY_WITH_FAILURE =
            JobRows.historyWith("CASE WHEN d.timed_out THEN 'timed-out' ELSE 'failed' END", "d.ran", "d.error");

    /**
     * How long a statement that ends claims waits for a row that another transaction has locked. Part of the statement, because
     * a session setting is not reliable behind a transaction pooler.
     */
    private static final String LOCK_TIMEOUT = "set_config('lock_timeout', '100', true) AS patience";

    private final Tables tables;

    public JobFinishStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * How a claim ends.
     *
     * @param status completed, failed, or pending again
     * @param result JSON
     * @param delayMillis delay until a pending job is due again
     * @param attemptsGivenBack 1 if the attempt does not count
     * @param checkpoint JSON
     * @param progress JSON
     * @param ranMillis how long the handler ran; null if it never started
     * @param timedOut whether the attempt failed because it exceeded its timeout
     */
    public record Finish(
            ClaimKey key,
            JobStatus status,
            @Nullable String result,
            @Nullable String error,
            long delayMillis,
            int attemptsGivenBack,
            @Nullable String checkpoint,
            @Nullable String progress,
            @Nullable Duration retention,
            @Nullable Long ranMillis,
            boolean timedOut) {

        /** Returns the end of a claim whose job has completed. */
        public static Finish completed(ClaimKey key, @Nullable String result, @Nullable Long ranMillis) {
            return new Finish(key, JobStatus.COMPLETED, result, null, 0, 0, null, null, null, ranMillis, false);
        }

        /** Returns the end of a claim whose job has failed for good. */
        public static Finish failed(ClaimKey key, String error, @Nullable Long ranMillis) {
            return new Finish(key, JobStatus.FAILED, null, error, 0, 0, null, null, null, ranMillis, false);
        }

        /** Returns the end of a claim whose job goes back to the queue before it has started. */
        public static Finish unstarted(ClaimKey key, Duration delay) {
            return new Finish(key, JobStatus.PENDING, null, null, delay.toMillis(), 1, null, null, null, null, false);
        }

        /** Returns whether the short statement for completed jobs can write it. */
        boolean isPlainCompletion() {
            return status == JobStatus.COMPLETED && checkpoint == null && progress == null && retention == null;
        }

        /** Returns the approximate length that it adds to a statement. */
        public long length() {
            return length(result) + length(error) + length(checkpoint) + length(progress);
        }

        private static long length(@Nullable String text) {
            return text == null ? 0 : text.length();
        }

        /** Returns whether the row of the job is deleted at once. */
        public boolean isDeletion() {
            return status == JobStatus.COMPLETED && retention != null && retention.isZero();
        }

        /** Returns the same end, but a row that would be deleted at once is left to the clean-up. */
        public Finish leftToCleanUp() {
            if (!isDeletion()) {
                return this;
            }
            return new Finish(
                    key,
                    status,
                    result,
                    error,
                    delayMillis,
                    attemptsGivenBack,
                    checkpoint,
                    progress,
                    Duration.ofMillis(1),
                    ranMillis,
                    timedOut);
        }
    }

    // Arrays come from a subselect: a planner that knows their length prefers a scan of the table to lookups by id,
    // which takes ten times as long on a table of some ten thousand rows.

    /**
     * Divides ends into parts that {@link #finishPart} writes with one statement each.
     *
     * @param finish returns the end that an element carries
     */
    public static <T> List<List<T>> parts(Collection<T> all, Function<T, Finish> finish) {
        List<T> plain = new ArrayList<>();
        List<T> deleted = new ArrayList<>();
        List<T> rest = new ArrayList<>();
        // In the order of ids: two statements that lock the same rows in different orders deadlock.
        all.stream()
                .sorted(Comparator.comparing(one -> finish.apply(one).key.id()))
                .forEach(one -> {
                    Finish end = finish.apply(one);
                    (end.isDeletion() ? deleted : end.isPlainCompletion() ? plain : rest).add(one);
                });
        var parts = new ArrayList<List<T>>();
        for (List<T> kind : List.of(plain, deleted, rest)) {
            parts.addAll(JobRows.inParts(kind, one -> finish.apply(one).length()));
        }
        return parts;
    }

    private static List<List<Finish>> parts(Collection<Finish> finishes) {
        return parts(finishes, finish -> finish);
    }

    /**
     * Ends these claims; returns those that this node no longer held. A claim that this node completed or failed before counts as
     * ended. If a statement fails, those of other {@linkplain #parts parts} may have been written.
     *
     * @throws DataAccessException a {@linkplain DatabaseFailure.Kind#LOCK_TIMEOUT lock timeout} if another transaction has locked one of
     *     the rows; {@link #finishUnlocked} writes the others
     */
    public Set<ClaimKey> finish(UUID node, Collection<Finish> finishes) {
        var lost = new HashSet<ClaimKey>();
        parts(finishes).forEach(part -> lost.addAll(finishPart(node, part)));
        return lost;
    }

    /** Ends the claims of one {@linkplain #parts part} like {@link #finish}: all of them or, if it fails, none. */
    public Set<ClaimKey> finishPart(UUID node, List<Finish> part) {
        if (write(node, part, LOCK_TIMEOUT + ", ") == part.size()) {
            return Set.of();
        }
        List<ClaimKey> keys = part.stream().map(Finish::key).toList();
        var lost = new HashSet<>(keys);
        lost.removeAll(finished(node, keys));
        return lost;
    }

    /**
     * Ends these claims, except for those whose rows another transaction has locked; returns those that it ended. The others are
     * locked, or this node no longer holds them: {@link JobClaimStore#missing} and {@link #finished} tell.
     */
    public Set<ClaimKey> finishUnlocked(UUID node, Collection<Finish> finishes) {
        TransactionOperations transaction = new TransactionTemplate(
                new OwnTransactions(Objects.requireNonNull(tables.jdbc().getDataSource())));
        var ended = new HashSet<ClaimKey>();
        for (List<Finish> part : parts(finishes)) {
            ended.addAll(Objects.requireNonNull(transaction.execute(status -> {
                Set<ClaimKey> free = unlocked(node, part);
                List<Finish> those = part.stream()
                        .filter(finish -> free.contains(finish.key))
                        .toList();
                if (!those.isEmpty()) {
                    // Writes all of them: this transaction has locked their rows.
                    write(node, those, "");
                }
                return free;
            })));
        }
        return ended;
    }

    /** Returns those of these claims that this node holds and whose rows no other transaction has locked. */
    private Set<ClaimKey> unlocked(UUID node, List<Finish> finishes) {
        String sql = "SELECT j.id, j.claim_epoch FROM %s CROSS JOIN %s FOR UPDATE OF j SKIP LOCKED"
                .formatted(LOCK_TIMEOUT, JobRows.CLAIMS_OF_NODE);
        return HeldJobStore.claims(
                tables, sql, node, finishes.stream().map(Finish::key).toList());
    }

    /**
     * Writes a {@linkplain #parts part}; returns how many rows this node still held.
     *
     * @param lockTimeout how the FROM clauses begin: {@link #LOCK_TIMEOUT} and a comma, or nothing
     */
    private int write(UUID node, List<Finish> part, String lockTimeout) {
        Finish first = part.get(0);
        return first.isDeletion()
                ? delete(node, part, lockTimeout)
                : first.isPlainCompletion() ? complete(node, part, lockTimeout) : end(node, part, lockTimeout);
    }

    /** Returns those of these claims that this node has completed or failed. */
    public Set<ClaimKey> finished(UUID node, Collection<ClaimKey> keys) {
        return HeldJobStore.claims(tables, """
                SELECT j.id, j.claim_epoch FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                WHERE j.worker_id IS NOT DISTINCT FROM ? AND j.status IN ('completed', 'failed')
                """, node, List.copyOf(keys));
    }

    /** Returns whether a job was completed under that claim. */
    public boolean isCompleted(ClaimKey key) {
        return tables.sql(
                        "SELECT EXISTS (SELECT FROM ~.forge_jobs WHERE id = ? AND claim_epoch = ? AND status = 'completed')")
                .params(key.id(), key.epoch())
                .query(Boolean.class)
                .single();
    }

    /**
     * Returns those of these claims that their node itself seems to have ended: completed or failed, deleted, or returned. Used
     * when the response to a statement that ends them was lost. A job that was taken from its node has one recovery more, so it
     * is not among them.
     *
     * @param recoveries the recoveries of each job when it was claimed
     */
    public Set<ClaimKey> endedByHolder(UUID node, Map<ClaimKey, Integer> recoveries) {
        List<Map.Entry<ClaimKey, Integer>> claims = List.copyOf(recoveries.entrySet());
        return new HashSet<>(tables.query(
                """
                            SELECT d.id, d.epoch
                            FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::int[])) AS d (id, epoch, recoveries)
                            LEFT JOIN ~.forge_jobs j ON j.id = d.id
                            WHERE j.id IS NULL
                               OR j.claim_epoch = d.epoch AND j.worker_id = ? AND j.status IN ('completed', 'failed')
                               OR (j.claim_epoch > d.epoch OR j.claim_epoch = d.epoch AND j.status = 'pending')
                                  AND j.recoveries <= d.recoveries
                            """,
                statement -> {
                    HeldJobStore.bind(
                            statement, claims.stream().map(Map.Entry::getKey).toList());
                    SqlArrays.bind(statement, 3, "int4", claims, Map.Entry::getValue);
                    statement.setObject(4, node);
                },
                (row, n) -> new ClaimKey(row.getObject(1, UUID.class), row.getLong(2))));
    }

    /**
     * Returns the first words of a statement that completes jobs {@code j}.
     *
     * @param result JSON, in SQL
     * @param ran how many milliseconds the handler ran, in SQL
     */
    static String completing(String result, String ran) {
        return """
                UPDATE ~.forge_jobs j
                SET status = 'completed', finished_at = clock_timestamp(), lease_expires_at = NULL, result = %s::jsonb,
                    started_at = coalesce(j.started_at, clock_timestamp() - %s * interval '1 millisecond')
                """.formatted(result, ran);
    }

    /**
     * Returns a statement that ends the jobs {@code j} of workflow runs.
     *
     * @param status completed or failed, in SQL
     * @param error in SQL
     * @param progress JSON, in SQL
     * @param which the rest of the statement: other tables, and a condition that selects jobs that their nodes hold
     */
    public static String endingCarrier(String status, String error, String progress, String which) {
        return """
                UPDATE ~.forge_jobs j
                SET status = %s, finished_at = clock_timestamp(), lease_expires_at = NULL,
                    last_error = coalesce(%s, j.last_error), started_at = coalesce(j.started_at, j.claimed_at),
                    progress = coalesce(%s::jsonb, j.progress)
                %s
                """.formatted(status, error, progress, which);
    }

    private int complete(UUID node, List<Finish> finishes, String lockTimeout) {
        return tables.update(
                """
                %s
                FROM %sunnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::text[]), (SELECT ?::bigint[])) AS d (id, epoch, result, ran)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(completing("d.result", "d.ran"), lockTimeout, JobRows.HELD_BY_NODE), statement -> {
                    bindKeys(statement, finishes);
                    SqlArrays.bind(statement, 3, "text", finishes, Finish::result);
                    SqlArrays.bind(statement, 4, "int8", finishes, Finish::ranMillis);
                    statement.setObject(5, node);
                });
    }

    /** Binds the first two parameters. */
    private static void bindKeys(PreparedStatement statement, List<Finish> finishes) throws SQLException {
        SqlArrays.bind(statement, 1, "uuid", finishes, finish -> finish.key.id());
        SqlArrays.bind(statement, 2, "int8", finishes, finish -> finish.key.epoch());
    }

    private int delete(UUID node, List<Finish> finishes, String lockTimeout) {
        return tables.update("""
                DELETE FROM ~.forge_jobs j USING %sunnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(lockTimeout, JobRows.HELD_BY_NODE), statement -> {
            bindKeys(statement, finishes);
            statement.setObject(3, node);
        });
    }

    private int end(UUID node, List<Finish> finishes, String lockTimeout) {
        return tables.update("""
                UPDATE ~.forge_jobs j
                SET status = d.status, lease_expires_at = NULL,
                    worker_id = CASE WHEN d.status <> 'pending' THEN j.worker_id END,
                    finished_at = CASE WHEN d.status <> 'pending' THEN clock_timestamp() END,
                    scheduled_at = CASE WHEN d.status <> 'pending' THEN j.scheduled_at
                                        ELSE clock_timestamp() + d.delay * interval '1 millisecond' END,
                    attempts = greatest(j.attempts - d.given_back, 0),
                    -- A handler that ended an attempt does not make its nodes crash.
                    recoveries = CASE WHEN d.status = 'pending' AND d.ran IS NOT NULL THEN 0 ELSE j.recoveries END,
                    started_at = coalesce(j.started_at, clock_timestamp() - d.ran * interval '1 millisecond'),
                    result = coalesce(d.result::jsonb, j.result), last_error = coalesce(d.error, j.last_error),
                    checkpoint = coalesce(d.checkpoint::jsonb, j.checkpoint),
                    checkpoint_bytes = coalesce(octet_length(d.checkpoint::jsonb::text), j.checkpoint_bytes),
                    progress = coalesce(d.progress::jsonb, j.progress),
                    attempt_history = CASE WHEN d.error IS NOT NULL AND d.given_back = 0 THEN %s ELSE j.attempt_history END,
                    retention = d.retention * interval '1 millisecond'
                FROM %sunnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::text[]), (SELECT ?::text[]), (SELECT ?::text[]), (SELECT ?::bigint[]), (SELECT ?::int[]), (SELECT ?::text[]),
                            (SELECT ?::text[]), (SELECT ?::bigint[]), (SELECT ?::bigint[]), (SELECT ?::bool[]))
                    AS d (id, epoch, status, result, error, delay, given_back, checkpoint, progress, retention, ran, timed_out)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(HISTORY_WITH_FAILURE, lockTimeout, JobRows.HELD_BY_NODE), statement -> {
            bindKeys(statement, finishes);
            SqlArrays.bind(statement, 3, "text", finishes, finish -> EnumText.underscored(finish.status));
            SqlArrays.bind(statement, 4, "text", finishes, Finish::result);
            SqlArrays.bind(statement, 5, "text", finishes, Finish::error);
            SqlArrays.bind(statement, 6, "int8", finishes, Finish::delayMillis);
            SqlArrays.bind(statement, 7, "int4", finishes, Finish::attemptsGivenBack);
            SqlArrays.bind(statement, 8, "text", finishes, Finish::checkpoint);
            SqlArrays.bind(statement, 9, "text", finishes, Finish::progress);
            SqlArrays.bind(
                    statement,
                    10,
                    "int8",
                    finishes,
                    finish -> finish.retention == null ? null : finish.retention.toMillis());
            SqlArrays.bind(statement, 11, "int8", finishes, Finish::ranMillis);
            SqlArrays.bind(statement, 12, "bool", finishes, Finish::timedOut);
            statement.setObject(13, node);
        });
    }

    /** Ends claims in the current transaction; false if this node no longer held one of them. */
    boolean finishInTransaction(UUID node, List<Finish> finishes) {
        for (List<Finish> part : parts(finishes)) {
            if (write(node, part, "") != part.size()) {
                return false;
            }
        }
        return true;
    }
}
