// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.cron.CronStore.COLUMNS;

import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.internal.cron.CronStore.CronRow;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads crons and the outcomes of their slots for users. */
final class CronReports {

    private final Schema schema;
    private final JdbcClient client;

    CronReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    private static final String ERROR = "left(coalesce(j.last_error, r.last_error), 2000)";

    private static final String RUN = """
            r.cron, r.slot, r.outcome, r.reason, r.job_id, coalesce(j.status, r.job_status) AS job_status,
            coalesce(j.attempts, r.attempts) AS attempts, %s AS last_error,
            coalesce(j.started_at, r.started_at) AS started_at, coalesce(j.finished_at, r.finished_at) AS finished_at,
            r.term, r.fired_at""".formatted(ERROR);

    private static final String RUNS = """
            SELECT %s FROM ~.forge_cron_runs r LEFT JOIN ~.forge_jobs j ON j.id = r.job_id
            """.formatted(RUN);

    /** Returns the cron of that name. */
    Optional<CronInfo> find(String name) {
        return infos("WHERE name = ?", name).stream().findFirst();
    }

    /** Returns up to {@code limit} crons after a name, ordered by name. */
    List<CronInfo> page(@Nullable String after, int limit) {
        return after == null
                ? infos("ORDER BY name LIMIT ?", limit)
                : infos("WHERE name > ? ORDER BY name LIMIT ?", after, limit);
    }

    private List<CronInfo> infos(String which, Object... parameters) {
        Map<String, CronRun> last = latest("AND r.outcome = 'ran'", which, parameters);
        Map<String, CronRun> latest = latest("", which, parameters);
        return client.sql(schema.sql("""
                SELECT %s, c.declared, c.paused, c.next_fire_at, c.problem,
                       EXISTS (SELECT FROM ~.forge_nodes n
                               WHERE %s AND coalesce(c.handler, c.name) = ANY (n.handlers)
                                 AND ('worker' = ANY (n.roles) OR c.target = 'leader' AND 'scheduler' = ANY (n.roles)))
                           AS known
                FROM (SELECT * FROM ~.forge_crons %s) AS c
                ORDER BY c.name
                """.formatted(
                                COLUMNS.replace("handler", "coalesce(c.handler, c.name) AS handler"),
                                CronSlotStore.ACCEPTS_RUNS,
                                which)))
                .params(parameters)
                .query((row, n) -> info(row, last, latest))
                .list();
    }

    /** Returns the latest ledger row that meets a condition, for each of the crons. */
    private Map<String, CronRun> latest(String condition, String which, Object... parameters) {
        return client
                .sql(schema.sql("""
                SELECT l.* FROM (SELECT name FROM ~.forge_crons %s) AS c,
                    LATERAL (%s WHERE r.cron = c.name %s ORDER BY r.slot DESC LIMIT 1) AS l
                """.formatted(which, RUNS, condition)))
                .params(parameters)
                .query((row, n) -> run(row))
                .list()
                .stream()
                .collect(Collectors.toMap(CronRun::cron, Function.identity()));
    }

    /**
     * Returns the outcomes of a cron's slots, the latest slot first.
     *
     * @param before only earlier slots; null: all
     */
    List<CronRun> runs(String cron, @Nullable Instant before, int limit) {
        return client.sql(schema.sql(RUNS + """
                 WHERE r.cron = :cron AND r.slot < coalesce(:before, 'infinity'::timestamptz)
                 ORDER BY r.slot DESC LIMIT :limit
                """))
                .param("cron", cron)
                .param("before", before == null ? null : before.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("limit", limit)
                .query((row, n) -> run(row))
                .list();
    }

    /** Returns the outcomes of the latest slots of each cron, the latest first, without errors: these may be long. */
    Map<String, List<CronRun>> latestRuns(Collection<String> crons, int limit) {
        return client
                .sql(schema.sql("""
                SELECT l.* FROM unnest(?::text[]) AS c (name),
                    LATERAL (%s WHERE r.cron = c.name ORDER BY r.slot DESC LIMIT ?) AS l
                ORDER BY l.cron, l.slot DESC
                """.formatted(RUNS.replace(ERROR, "NULL::text"))))
                .params(crons.toArray(String[]::new), limit)
                .query((row, n) -> run(row))
                .list()
                .stream()
                .collect(Collectors.groupingBy(CronRun::cron));
    }

    private static CronInfo info(ResultSet row, Map<String, CronRun> last, Map<String, CronRun> latest)
            throws SQLException {
        CronRow cron = CronStore.row(row);
        Definition definition = cron.definition();
        return new CronInfo(
                definition.name(),
                cron.declared(),
                definition.handler(),
                definition.expression(),
                definition.zone(),
                definition.target(),
                definition.capability(),
                definition.misfire(),
                definition.catchUpLimit(),
                definition.overlap(),
                Duration.ofMillis(definition.jitterMillis()),
                definition.run().group(),
                cron.paused(),
                cron.next(),
                row.getBoolean("known"),
                cron.problem(),
                last.get(definition.name()),
                latest.get(definition.name()));
    }

    private static CronRun run(ResultSet row) throws SQLException {
        return new CronRun(
                row.getString("cron"),
                row.getObject("slot", OffsetDateTime.class).toInstant(),
                EnumText.parse(CronRun.Outcome.class, row.getString("outcome")),
                row.getString("reason"),
                row.getObject("job_id", UUID.class),
                status(row.getString("job_status")),
                row.getObject("attempts", Integer.class),
                row.getString("last_error"),
                time(row, "started_at"),
                time(row, "finished_at"),
                row.getObject("term", Long.class),
                row.getObject("fired_at", OffsetDateTime.class).toInstant());
    }

    /** Null if there is none, or if the column was edited by hand and cannot be read: the other runs still can. */
    private static @Nullable JobStatus status(@Nullable String text) {
        return Stream.of(JobStatus.values())
                .filter(status -> EnumText.hyphenated(status).equals(text))
                .findFirst()
                .orElse(null);
    }

    private static @Nullable Instant time(ResultSet row, String column) throws SQLException {
        return CronStore.time(row, row.findColumn(column));
    }
}
