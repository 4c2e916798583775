// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.NestedExceptionUtils;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * The schema that holds a cluster; one schema is one cluster. {@link #open} migrates it to this library's version, or throws an
 * exception that says why it cannot. Afterwards {@link #sql} completes the names in statements.
 *
 * <p>The scripts themselves record the installed version in {@code forge_schema_versions}. So a schema that psql made and one
 * that Flyway made look the same, and a start on a current schema needs one query and no Flyway. Each row also has the oldest
 * version of the library that works with it: migrations only add objects, so that nodes of the previous release keep working,
 * and may be restarted, beside nodes of the next one.
 */
public final class Schema {

    /** The version to which this library migrates a schema. */
    public static final int VERSION = 1;

    /** The directory of the scripts in the jar. */
    static final String SCRIPTS = "dev/forge/cluster/db";

    /** Tables and sequences that nodes write. */
    private static final List<String> WRITTEN = List.of(
            "forge_audit",
            "forge_audit_id_seq",
            "forge_cron_memories",
            "forge_cron_runs",
            "forge_cron_sets",
            "forge_crons",
            "forge_daemon_pauses",
            "forge_daemons",
            "forge_former_nodes",
            "forge_job_batch_parts",
            "forge_job_batches",
            "forge_job_dependencies",
            "forge_job_group_locks",
            "forge_job_history",
            "forge_job_limits",
            "forge_job_logs",
            "forge_job_names",
            "forge_job_pauses",
            "forge_job_rates",
            "forge_job_tags",
            "forge_job_weights",
            "forge_job_windows",
            "forge_jobs",
            "forge_leader_leases",
            "forge_leaders",
            "forge_lock_tokens",
            "forge_locks",
            "forge_nodes",
            "forge_rate_limits",
            "forge_startup_actions",
            "forge_state",
            "forge_undeletable_rows",
            "forge_workflow_runs",
            "forge_workflow_signals",
            "forge_workflow_steps");

    /**
     * The beginning of statements by which nodes change tables that operators edit by hand. Triggers record changes by other
     * statements, and changes by roles that may not write the audit trail, which could copy this text.
     */
    public static final String BY_NODE = "/* by a node of Forge Cluster */ ";

    private static final Logger log = GuardedLogger.of(Schema.class);

    private final DataSource direct;
    private final String name;
    private final int version;
    private final String server;
    private final AdvisoryKeys keys;
    private final ConcurrentHashMap<String, String> completed = new ConcurrentHashMap<>();
    private volatile @Nullable String channel;

    private Schema(DataSource direct, String name, int version, String server, AdvisoryKeys keys) {
        this.direct = direct;
        this.name = name;
        this.version = version;
        this.server = server;
        this.keys = keys;
    }

    /**
     * Checks the server, finds the schema and migrates it if {@code mode} allows that.
     *
     * @param direct opens connections that are not pooled: the application's pool may be too small for a migration
     * @param name see {@link #currentSchemaOf}
     */
    public static Schema open(DataSource direct, SchemaMode mode, String name) {
        try (Connection connection = direct.getConnection()) {
            String server = SchemaInstallation.requirePostgres(connection.getMetaData());
            var jdbc = JdbcClient.create(new SingleConnectionDataSource(connection, true));
            if (mode == SchemaMode.NONE) {
                return new Schema(direct, name, VERSION, server, keys(jdbc, name));
            }
            if (mode == SchemaMode.MIGRATE
                    && SchemaInstallation.installed(jdbc, name).version() < VERSION) {
                SchemaInstallation.migrate(direct, name);
                // On another connection: an idle_session_timeout may have closed this one meanwhile.
                return open(direct, SchemaMode.VALIDATE, name);
            }
            SchemaInstallation.Installed installed = SchemaInstallation.installed(jdbc, name);
            SchemaInstallation.requireUsable(name, installed);
            SchemaInstallation.requireOwnName(jdbc, name);
            var schema = new Schema(direct, name, installed.version(), server, keys(jdbc, name));
            schema.channel = channel(jdbc, name);
            return schema;
        } catch (SQLException e) {
            throw Pooler.unreachable(e);
        } catch (DataAccessException e) {
            throw unreadable(name, e);
        }
    }

    /** Returns the schema in which connections of a data source find unqualified names. */
    public static String currentSchemaOf(DataSource application) {
        try (Connection connection = application.getConnection()) {
            // Checked first: another product does not have the function below.
            SchemaInstallation.requirePostgres(connection.getMetaData());
            String name = connection.getSchema();
            if (name == null) {
                throw new ClusterStartupException(
                        "The connection has no current schema: no schema of its search path exists",
                        "Set forge.cluster.schema.name, or the search path of the database role.");
            }
            return name;
        } catch (SQLException e) {
            throw Pooler.unreachable(e);
        }
    }

    /**
     * Checks that a data source leads to the same database.
     *
     * @throws ClusterStartupException if it finds another installation under the name of this schema, or none
     */
    public void requireSeenBy(DataSource application) {
        String stamp = "SELECT min(installed_at)::text FROM ~.forge_schema_versions";
        String own =
                JdbcClient.create(direct).sql(sql(stamp)).query(String.class).single();
        try {
            if (own.equals(JdbcClient.create(application)
                    .sql(sql(stamp))
                    .query(String.class)
                    .single())) {
                return;
            }
        } catch (DataAccessException e) {
            log.debug("Schema {}: could not be read through the application's data source", name, e);
        }
        throw new ClusterStartupException(
                "forge.cluster.direct-connection.url leads to another database than the application's DataSource:"
                        + " that one does not see the cluster's schema '%s'".formatted(name),
                "Point forge.cluster.direct-connection.url at the same database, only past the pooler.");
    }

    /**
     * Checks that the database role of the nodes may write all tables. Without this check a node would start, and fail when it
     * first needs the table: "ALL TABLES" in a grant does not include the tables of the next release.
     *
     * @throws ClusterStartupException if it may not write one of them
     */
    public void requireGrants() {
        var missing = JdbcClient.create(direct)
                .sql("""
                        SELECT c.relname::text FROM pg_catalog.pg_class c
                        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                        WHERE n.nspname = ?::name AND c.relname::text = ANY (string_to_array(?::text, ','::text))
                          AND NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'USAGE'::text)
                              ELSE has_table_privilege(c.oid, 'SELECT'::text) AND has_table_privilege(c.oid, 'INSERT'::text)
                               AND (c.relname = 'forge_audit'::name
                                    OR has_table_privilege(c.oid, 'UPDATE'::text) AND has_table_privilege(c.oid, 'DELETE'::text)) END
                        ORDER BY 1
                        """)
                .params(name, String.join(",", WRITTEN))
                .query(String.class)
                .list();
        if (!missing.isEmpty()) {
            throw new ClusterStartupException(
                    "The database role lacks rights in Forge Cluster's schema '%s', on %s".formatted(name, missing),
                    grants(name));
        }
    }

    /** Returns the tables and sequences that the database role of the nodes must be allowed to write. */
    public static List<String> written() {
        return WRITTEN;
    }

    private static String grants(String name) {
        return "As its owner: GRANT USAGE ON SCHEMA %1$s TO <role>; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %1$s TO <role>; GRANT USAGE ON ALL SEQUENCES IN SCHEMA %1$s TO <role>;"
                .formatted(quoted(name));
    }

    private static ClusterStartupException unreadable(String name, DataAccessException e) {
        return new ClusterStartupException(
                "The database role cannot read Forge Cluster's schema '%s': %s"
                        .formatted(
                                name,
                                NestedExceptionUtils.getMostSpecificCause(e).getMessage()),
                grants(name),
                e);
    }

    private static AdvisoryKeys keys(JdbcClient jdbc, String name) {
        return new AdvisoryKeys(
                name,
                jdbc.sql("SELECT oid::bigint FROM pg_catalog.pg_namespace WHERE nspname = ?::name")
                        .param(name)
                        .query(Long.class)
                        .optional()
                        .orElseThrow(() -> new ClusterStartupException(
                                "There is no schema '%s'".formatted(name),
                                "Create it, or set forge.cluster.schema.mode=migrate.")));
    }

    public AdvisoryKeys keys() {
        return keys;
    }

    /**
     * Returns the channel on which the nodes of this cluster notify each other. Only roles that may read {@code forge_settings}
     * know its name, which must not be logged. A changed name takes effect with the next start.
     */
    public String channel() {
        String known = channel;
        if (known == null) {
            // With SchemaMode.NONE, open() reads no table.
            known = channel(JdbcClient.create(direct), name);
            channel = known;
        }
        return known;
    }

    private static String channel(JdbcClient jdbc, String schema) {
        return jdbc.sql("SELECT channel FROM %s.forge_settings".formatted(quoted(schema)))
                .query(String.class)
                .optional()
                .orElseThrow(() -> new ClusterStartupException(
                        "Table forge_settings in schema '%s' is empty: nodes have no channel on which to notify each other"
                                .formatted(schema),
                        "As its owner: INSERT INTO %s.forge_settings DEFAULT VALUES;".formatted(quoted(schema))));
    }

    /** Returns the name of the schema. */
    public String name() {
        return name;
    }

    /** Reads the name of the database. Together with the schema's name it tells clusters apart that share a broker. */
    public String database() {
        return JdbcClient.create(direct)
                .sql("SELECT current_database()::text")
                .query(String.class)
                .single();
    }

    /** Returns the installed version: {@link #VERSION}, or a later one that this library is compatible with. */
    public int version() {
        return version;
    }

    /** Returns product name and version of the server. */
    public String server() {
        return server;
    }

    /**
     * Replaces {@code ~.} by the quoted name of this schema. Statements also run in transactions of the application, whose search
     * path is unknown.
     */
    public String sql(String text) {
        return completed.computeIfAbsent(text, t -> t.replace("~.", quoted(name) + "."));
    }

    static String quoted(String identifier) {
        return '"' + identifier.replace("\"", "\"\"") + '"';
    }
}
