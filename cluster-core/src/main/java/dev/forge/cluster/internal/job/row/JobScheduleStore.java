// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Collection;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Changes when, or on which nodes, pending jobs are due. Corrects times after the clock of the database was set back. */
public final class JobScheduleStore {

    /** More than clocks drift, and than a statement takes, between two sweeps. */
    public static final Duration STEP = Duration.ofSeconds(3);

    /** How many jobs one statement looks at. */
    private static final int PAGE = 5_000;

    private static final UUID FIRST = new UUID(0, 0);

    private final Tables tables;

    public JobScheduleStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * Returns a statement that makes jobs {@code j} due now, whatever they wait for.
     *
     * @param which the rest of the statement: other tables, and a condition that selects pending jobs
     */
    public static String waking(String which) {
        return "UPDATE ~.forge_jobs j SET scheduled_at = clock_timestamp(), waits_for = NULL " + which;
    }

    /** Changes the capability that up to 1,000 due or delayed jobs require; returns how many. Skips locked rows. */
    public int reroute(Collection<String> names, String from, String to) {
        return tables.sql("""
                UPDATE ~.forge_jobs SET worker_capability = :to
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs
                    WHERE status = 'pending' AND waits_for IS NULL AND name = ANY (:names)
                      AND coalesce(worker_capability, '') = :from
                    ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))
                """)
                .param("names", names.toArray(String[]::new))
                .param("from", from)
                .param("to", to)
                .update();
    }

    // Clock -------------------------------------------------------------------------------------------------

    /**
     * What the clock shows.
     *
     * @param now the time that decides about leases
     * @param written a time that the clock has shown before, at most about a minute before the newest one: the leader of
     *     metrics_aggregator writes the history of jobs each minute
     */
    public record DatabaseTime(Instant now, Instant written) {

        /** Returns by how much the clock is behind a time that it has shown before; zero if that is not more than clocks drift. */
        public Duration behind() {
            return isBehind(now, written) ? Duration.between(now, written) : Duration.ZERO;
        }
    }

    /** Returns whether a clock has shown a time that is later than its present one by more than clocks drift. */
    public static boolean isBehind(Instant now, Instant shown) {
        return shown.isAfter(now.plus(STEP));
    }

    public DatabaseTime read() {
        return tables.sql("""
                SELECT clock_timestamp(),
                       coalesce((SELECT max(slot) FROM ~.forge_job_history WHERE minutes = 1 AND slot < 'infinity'),
                                'epoch')
                """)
                .query((row, n) -> new DatabaseTime(
                        row.getObject(1, OffsetDateTime.class).toInstant(),
                        row.getObject(2, OffsetDateTime.class).toInstant()))
                .single();
    }

    /**
     * A page of jobs was looked at.
     *
     * @param last the last of them; null if there are no more
     * @param jobs how many of them have a new time
     */
    public record Moved(@Nullable UUID last, int jobs) {}

    /**
     * Corrects the time of pending jobs that was written before the clock was set back: their last claim, or else their creation, lies
     * in the future. Jobs that were due by then become due. A later time that was relative to the claim or the creation (a retry, a
     * short delay) stays relative. Other delays are left alone, because they may be times that the application has chosen.
     *
     * @param after the last job of the page before; null for the first page
     * @param newest the newest time that the clock had shown
     */
    public Moved makeDue(@Nullable UUID after, Instant newest) {
        return tables.sql("""
                WITH page AS MATERIALIZED (
                    SELECT id FROM ~.forge_jobs WHERE id > :after ORDER BY id LIMIT %d),
                ahead AS MATERIALIZED (
                    SELECT j.id, CASE WHEN j.scheduled_at <= :newest THEN interval '0'
                                      ELSE greatest(j.scheduled_at - coalesce(j.claimed_at, j.created_at), interval '0') END AS delay
                    FROM page p JOIN ~.forge_jobs j ON j.id = p.id
                    WHERE j.status = 'pending' AND j.scheduled_at > clock_timestamp() AND isfinite(j.scheduled_at)
                      AND coalesce(j.claimed_at, j.created_at) > clock_timestamp() + :tolerance * interval '1 millisecond'
                      AND isfinite(coalesce(j.claimed_at, j.created_at))
                      AND (j.claimed_at IS NOT NULL OR j.scheduled_at <= :newest
                           OR j.scheduled_at <= j.created_at + interval '1 minute')
                    FOR UPDATE OF j SKIP LOCKED),
                moved AS (
                    UPDATE ~.forge_jobs j SET scheduled_at = clock_timestamp() + a.delay FROM ahead a WHERE j.id = a.id
                    RETURNING j.id)
                SELECT (SELECT id FROM page ORDER BY id DESC LIMIT 1), (SELECT count(*) FROM moved)
                """.formatted(PAGE))
                .param("after", after == null ? FIRST : after)
                .param("newest", newest.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("tolerance", STEP.toMillis())
                .query((row, n) -> new Moved(row.getObject(1, UUID.class), row.getInt(2)))
                .single();
    }
}
