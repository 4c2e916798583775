// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.job.operations.JobLogLine;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Lines that handlers log for their jobs, in {@code forge_job_logs}. */
public final class JobLogStore {

    /** How many lines of a job are kept: the last ones. */
    public static final int MOST_LINES = 500;

    /** How many characters of a line are kept. */
    public static final int LONGEST_LINE = 1_000;

    private static final UUID FIRST = new UUID(0, 0);

    private final Tables tables;

    public JobLogStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * A line to write.
     *
     * @param number the number of the line within its claim
     * @param ageMicros how long ago it was logged: the clock of the database gives its time
     */
    public record NewLine(ClaimKey claim, int attempt, int number, long ageMicros, String message) {}

    /**
     * Writes lines of jobs that a node holds, or held last. Lines of a claim that another one has followed are dropped. May be
     * repeated after a lost response.
     */
    public void write(UUID node, List<NewLine> lines) {
        JobRows.inParts(lines, line -> line.message.length() + 100L).forEach(part -> writeTogether(node, part));
    }

    private void writeTogether(UUID node, List<NewLine> lines) {
        tables.update("""
                INSERT INTO ~.forge_job_logs (job_id, epoch, line, attempt, logged_at, message)
                SELECT d.id, d.epoch, d.line, d.attempt, clock_timestamp() - d.age * interval '1 microsecond', d.message
                FROM unnest(?::uuid[], ?::bigint[], ?::int[], ?::int[], ?::bigint[], ?::text[])
                    AS d (id, epoch, line, attempt, age, message)
                -- A subquery for each line: a join might read the whole table.
                WHERE (SELECT j.claim_epoch = d.epoch AND (j.worker_id = ? OR j.worker_id IS NULL) FROM ~.forge_jobs j WHERE j.id = d.id)
                ON CONFLICT DO NOTHING
                """, statement -> {
            SqlArrays.bind(statement, 1, "uuid", lines, line -> line.claim.id());
            SqlArrays.bind(statement, 2, "int8", lines, line -> line.claim.epoch());
            SqlArrays.bind(statement, 3, "int4", lines, NewLine::number);
            SqlArrays.bind(statement, 4, "int4", lines, NewLine::attempt);
            SqlArrays.bind(statement, 5, "int8", lines, NewLine::ageMicros);
            SqlArrays.bind(statement, 6, "text", lines, NewLine::message);
            statement.setObject(7, node);
        });
    }

    /** Deletes all but the last lines of jobs. */
    public void trim(Collection<UUID> jobs) {
        tables.sql("""
                DELETE FROM ~.forge_job_logs l
                USING unnest(:jobs::uuid[]) AS d (id)
                CROSS JOIN LATERAL (SELECT k.epoch, k.line FROM ~.forge_job_logs k WHERE k.job_id = d.id
                                    ORDER BY k.epoch DESC, k.line DESC OFFSET %d LIMIT 1) AS oldest
                WHERE l.job_id = d.id AND (l.epoch, l.line) < (oldest.epoch, oldest.line)
                """.formatted(MOST_LINES - 1))
                .param("jobs", jobs.toArray(UUID[]::new))
                .update();
    }

    /** Returns the last lines of a job, the oldest first. */
    public List<JobLogLine> read(UUID job) {
        var lines = new ArrayList<>(tables.sql("""
                SELECT attempt, epoch, logged_at, message FROM ~.forge_job_logs WHERE job_id = ?
                ORDER BY epoch DESC, line DESC LIMIT %d
                """.formatted(MOST_LINES))
                .param(job)
                .query((row, n) -> new JobLogLine(
                        row.getInt(1),
                        row.getLong(2),
                        row.getObject(3, OffsetDateTime.class).toInstant(),
                        row.getString(4)))
                .list());
        Collections.reverse(lines);
        return lines;
    }

    /** Deletes the lines of jobs. */
    public void delete(Collection<UUID> jobs) {
        tables.sql("DELETE FROM ~.forge_job_logs WHERE job_id = ANY (:jobs)")
                .param("jobs", jobs.toArray(UUID[]::new))
                .update();
    }

    /**
     * How far a sweep has come.
     *
     * @param last the last job whose lines were looked at; null: there are no further ones
     * @param deleted how many lines were deleted
     */
    public record Swept(@Nullable UUID last, int deleted) {}

    /**
     * Deletes the lines of jobs that no longer exist. Looks at one entry of the index for each job, however many lines it has.
     *
     * @param after the job to continue after; null: begins
     * @param most how many jobs are looked at
     */
    public Swept sweep(@Nullable UUID after, int most) {
        return tables.sql("""
                WITH RECURSIVE logged (id, n) AS (
                    (SELECT job_id, 1 FROM ~.forge_job_logs WHERE job_id > :after ORDER BY job_id LIMIT 1)
                    UNION ALL
                    SELECT (SELECT l.job_id FROM ~.forge_job_logs l WHERE l.job_id > p.id ORDER BY l.job_id LIMIT 1), p.n + 1
                    FROM logged p WHERE p.id IS NOT NULL AND p.n < :most),
                gone AS (
                    DELETE FROM ~.forge_job_logs WHERE job_id = ANY (ARRAY(
                        SELECT id FROM logged WHERE id IS NOT NULL
                          AND (SELECT j.id FROM ~.forge_jobs j WHERE j.id = logged.id) IS NULL))
                    RETURNING 1)
                SELECT (SELECT id FROM logged WHERE n = :most), (SELECT count(*) FROM gone)
                """)
                .param("after", after == null ? FIRST : after)
                .param("most", most)
                .query((row, n) -> new Swept(row.getObject(1, UUID.class), row.getInt(2)))
                .single();
    }
}
