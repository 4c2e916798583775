// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.EnumText;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads daemons and their instances for users. */
final class DaemonReports {

    /** How many paused names that no node knows are listed: operators may add any by SQL. */
    private static final int MOST_PAUSED = 1_000;

    private final Schema schema;
    private final JdbcClient jdbc;

    DaemonReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(source);
    }

    /** Returns the daemon of that name, or all daemons if the name is null, ordered by name. */
    List<DaemonInfo> list(@Nullable String name) {
        var instances = new TreeMap<String, List<DaemonInfo.Instance>>();
        var scopes = new HashMap<String, DaemonScope>();
        jdbc.sql(schema.sql("""
                SELECT d.name, d.scope, d.instance, d.status, d.node_id, n.name, d.term, d.started_at, d.restarts,
                       d.last_error, d.note
                FROM ~.forge_daemons d LEFT JOIN ~.forge_nodes n ON n.id = d.node_id
                WHERE :name::text IS NULL OR d.name = :name ORDER BY d.name, d.instance
                """))
                .param("name", name)
                .query((row, n) -> {
                    scopes.merge(row.getString(1), EnumText.parse(DaemonScope.class, row.getString(2)), (a, b) -> b);
                    return instances
                            .computeIfAbsent(row.getString(1), d -> new ArrayList<>())
                            .add(instance(row));
                })
                .list();
        Set<String> paused = Set.copyOf(jdbc.sql(schema.sql("""
                                SELECT p.name FROM ~.forge_daemon_pauses p
                                WHERE (:name::text IS NULL OR p.name = :name)
                                  AND (p.name IN (SELECT d.name FROM ~.forge_daemons d)
                                       OR p.name IN (SELECT substr(k.name, 8) FROM ~.forge_job_names k
                                                     WHERE starts_with(k.name, 'daemon:')))
                                UNION
                                (SELECT p.name FROM ~.forge_daemon_pauses p WHERE :name::text IS NULL OR p.name = :name
                                 ORDER BY p.name LIMIT %d)
                                """.formatted(MOST_PAUSED)))
                .param("name", name)
                .query((row, n) -> row.getString(1))
                .list());
        paused.forEach(p -> instances.computeIfAbsent(p, d -> new ArrayList<>()));
        Map<String, List<String>> candidates = candidates();
        // Only a paused daemon of scope NODE can have no row.
        return instances.entrySet().stream()
                .map(daemon -> new DaemonInfo(
                        daemon.getKey(),
                        scopes.getOrDefault(daemon.getKey(), DaemonScope.NODE),
                        paused.contains(daemon.getKey()),
                        candidates.getOrDefault(daemon.getKey(), List.of()),
                        List.copyOf(daemon.getValue())))
                .toList();
    }

    private Map<String, List<String>> candidates() {
        var candidates = new HashMap<String, List<String>>();
        jdbc.sql(schema.sql("""
                SELECT substr(h.handler, 8), n.name FROM ~.forge_nodes n, unnest(n.handlers) AS h (handler)
                WHERE n.status = 'active' AND h.handler LIKE 'daemon:%' ORDER BY n.name
                """))
                .query((row, n) -> candidates
                        .computeIfAbsent(row.getString(1), d -> new ArrayList<>())
                        .add(row.getString(2)))
                .list();
        return candidates;
    }

    private static DaemonInfo.Instance instance(ResultSet row) throws SQLException {
        OffsetDateTime started = row.getObject(8, OffsetDateTime.class);
        return new DaemonInfo.Instance(
                row.getInt(3),
                EnumText.parse(DaemonStatus.class, row.getString(4)),
                row.getObject(5, UUID.class),
                row.getString(6),
                row.getLong(7),
                started == null ? null : started.toInstant(),
                row.getInt(9),
                row.getString(10),
                row.getString(11));
    }
}
