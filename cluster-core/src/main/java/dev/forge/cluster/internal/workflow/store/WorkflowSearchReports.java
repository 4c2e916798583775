// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.SqlParameterValue;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Searches runs, newest first. Runs in flight with one status are read from their partial index if there are at most ten thousand of
 * them, however many other runs there are. Otherwise a search walks from run to run and looks at ten thousand of them at most; the
 * next call continues behind the last one.
 */
final class WorkflowSearchReports {

    private static final int MOST_EXAMINED = 10_000;
    private static final int CHUNK = 1_000;

    private static final String MATCHES = """
            (:name::text IS NULL OR %1$s.workflow_name = :name) AND (:version::text IS NULL OR %1$s.workflow_version = :version)
            AND (:status::text IS NULL OR %1$s.status = :status)""";

    private static final UUID LAST = new UUID(-1, -1);

    /** The order of PostgreSQL, which knows no negative ids. */
    private static final Comparator<UUID> OLDEST_FIRST = Comparator.comparing(
                    UUID::getMostSignificantBits, Long::compareUnsigned)
            .thenComparing(UUID::getLeastSignificantBits, Long::compareUnsigned);

    private final Schema schema;
    private final JdbcClient client;

    WorkflowSearchReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * What a search has found.
     *
     * @param next the run behind which the search continues; null: there are no further runs
     */
    record Found(List<UUID> ids, @Nullable UUID next) {}

    /**
     * Searches runs.
     *
     * @param after only runs before this one; null: all
     * @param limit how many runs are enough
     */
    Found find(WorkflowFilter filter, @Nullable UUID after, int limit) {
        UUID before = after == null ? LAST : after;
        if (!isInFlight(filter)) {
            return walk(filter, before, limit, MOST_EXAMINED);
        }
        // Usually enough, and cheaper than to read all runs with the status.
        Found first = walk(filter, before, limit, CHUNK);
        if (first.next == null || first.ids.size() == limit) {
            return first;
        }
        List<UUID> all = inFlight(filter);
        return all.size() <= MOST_EXAMINED ? page(all, before, limit) : walk(filter, before, limit, MOST_EXAMINED);
    }

    private static boolean isEmpty(WorkflowFilter filter) {
        return filter.name() == null && filter.version() == null && filter.status() == null;
    }

    private static boolean isInFlight(WorkflowFilter filter) {
        WorkflowStatus status = filter.status();
        return status != null && !status.isFinal();
    }

    /** Returns one run more than are examined if there are more; in no order. */
    private List<UUID> inFlight(WorkflowFilter filter) {
        return client.sql(schema.sql(WorkflowReports.KINDS_IN_FLIGHT
                        + """
                SELECT run.id FROM kind k CROSS JOIN LATERAL (
                    SELECT r.id FROM ~.forge_workflow_runs r
                    WHERE r.workflow_name = k.workflow_name AND r.workflow_version = k.workflow_version
                      AND r.status = k.status AND r.status NOT IN %1$s
                    -- A limit that the planner does not know: if it expects fewer rows, it reads them all.
                    ORDER BY r.workflow_name, r.workflow_version, r.status LIMIT (SELECT %2$d)) AS run
                WHERE %3$s LIMIT %2$d
                """.formatted(WorkflowRunStore.FINAL, MOST_EXAMINED + 1, MATCHES.formatted("k"))))
                .params(parameters(filter))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    private static Map<String, Object> parameters(WorkflowFilter filter) {
        WorkflowStatus status = filter.status();
        return Map.of(
                "name", text(filter.name()),
                "version", text(filter.version()),
                "status", text(status == null ? null : EnumText.underscored(status)));
    }

    private static SqlParameterValue text(@Nullable String value) {
        return new SqlParameterValue(Types.VARCHAR, value);
    }

    /** Returns the newest of these runs before another one. */
    private static Found page(List<UUID> ids, UUID before, int limit) {
        List<UUID> older = ids.stream()
                .filter(id -> OLDEST_FIRST.compare(id, before) < 0)
                .sorted(OLDEST_FIRST.reversed())
                .toList();
        return older.size() <= limit
                ? new Found(older, null)
                : new Found(older.subList(0, limit), older.get(limit - 1));
    }

    private record Row(UUID id, boolean matches) {}

    private Found walk(WorkflowFilter filter, UUID before, int limit, int most) {
        var ids = new ArrayList<UUID>();
        UUID last = before;
        long examined = 0;
        int chunk = isEmpty(filter) ? limit + 1 : CHUNK;
        while (examined < most) {
            List<Row> rows = next(filter, last, chunk);
            for (int i = 0; i < rows.size(); i++) {
                last = rows.get(i).id;
                examined++;
                if (rows.get(i).matches) {
                    ids.add(last);
                }
                if (ids.size() == limit) {
                    boolean ended = i == rows.size() - 1 && rows.size() < chunk;
                    return new Found(ids, ended ? null : last);
                }
            }
            if (rows.size() < chunk) {
                return new Found(ids, null);
            }
        }
        return new Found(ids, last);
    }

    /** Returns the next runs, newest first; only those in flight if the filter selects such. */
    private List<Row> next(WorkflowFilter filter, UUID before, int chunk) {
        return client.sql(schema.sql("""
                SELECT r.id, %s FROM ~.forge_workflow_runs r WHERE r.id < :before %s ORDER BY r.id DESC LIMIT :chunk
                """.formatted(
                                MATCHES.formatted("r"),
                                isInFlight(filter) ? "AND r.status NOT IN " + WorkflowRunStore.FINAL : "")))
                .params(parameters(filter))
                .param("before", before)
                .param("chunk", chunk)
                .query((row, n) -> new Row(row.getObject(1, UUID.class), row.getBoolean(2)))
                .list();
    }
}
