package dev.forge.cluster.internal.database;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
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
 * The schema that holds the cluster: one schema is one cluster. {@link #open} brings it to this library's version or
 * says why it cannot; afterwards it only completes the names in SQL.
 *
 * <p>What is installed is recorded by the scripts themselves in {@code forge_schema_versions}, so that a schema made
 * with psql and one made by Flyway look the same, and a start on a current schema needs one query and no Flyway. A row
 * there also names the oldest library that can work with it: migrations only add, hence the previous release keeps
 * working, and may be restarted, beside the next one.
 */
public final class Schema {

    /** The version this library brings a schema to. */
    public static final int VERSION = 1;

    /** Where the scripts are, for those who run them by hand. */
    static final String SCRIPTS = "dev/forge/cluster/db";

    /** Tables and sequences that nodes write. */
    private static final List<String> WRITTEN = List.of(
            "forge_cron_memories",
            "forge_cron_runs",
            "forge_cron_sets",
            "forge_crons",
            "forge_daemon_pauses",
            "forge_daemons",
            "forge_job_names",
            "forge_job_pauses",
            "forge_jobs",
            "forge_leader_leases",
            "forge_leaders",
            "forge_lock_tokens",
            "forge_locks",
            "forge_nodes",
            "forge_rate_limits",
            "forge_startup_actions",
            "forge_state",
            "forge_workflow_runs",
            "forge_workflow_signals",
            "forge_workflow_steps");

    private static final int OLDEST_SERVER = 15;

    /** Gives the functions of a renamed schema its present name. */
    private static final String RENAME = """
            As the owner of the functions, run: DO $$ DECLARE f record; BEGIN
            FOR f IN SELECT p.oid, n.nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                     WHERE n.nspname = '%s' AND p.proname LIKE 'forge\\_%%' AND p.prosrc LIKE '%%.forge\\_%%' LOOP
                EXECUTE regexp_replace(pg_get_functiondef(f.oid), '("([^"]|"")+"|\\w+)\\.forge_',
                                       replace(quote_ident(f.nspname), '\\', '\\\\') || '.forge_', 'g');
            END LOOP; END $$""";

    private static final Logger log = GuardedLogger.of(Schema.class);

    private final DataSource direct;
    private final String name;
    private final int version;
    private final String server;
    public final AdvisoryKeys keys;
    private final ConcurrentHashMap<String, String> completed = new ConcurrentHashMap<>();
    public volatile @Nullable String channel;

    private Schema(DataSource direct, String name, int version, String server, AdvisoryKeys keys) {
        this.direct = direct;
        this.name = name;
        this.version = version;
        this.server = server;
        this.keys = keys;
    }

    /**
     * Checks the server, finds the schema and brings it up to date as {@code mode} allows.
     *
     * @param direct opens connections that are not pooled: the application's pool may be too small for a migration
     * @param name see {@link #currentSchemaOf}
     */
    public static Schema open(DataSource direct, SchemaMode mode, String name) {
        try (Connection connection = direct.getConnection()) {
            String server = requirePostgres(connection.getMetaData());
            var jdbc = JdbcClient.create(new SingleConnectionDataSource(connection, true));
            if (mode == SchemaMode.NONE) {
                return new Schema(direct, name, VERSION, server, keys(jdbc, name));
            }
            if (mode == SchemaMode.MIGRATE && installed(jdbc, name).version() < VERSION) {
                migrate(direct, name);
            }
            Installed installed = installed(jdbc, name);
            requireUsable(name, installed);
            requireOwnName(jdbc, name);
            var schema = new Schema(direct, name, installed.version(), server, keys(jdbc, name));
            schema.channel = channel(jdbc, name);
            return schema;
        } catch (SQLException e) {
            throw unreachable(e);
        } catch (DataAccessException e) {
            throw unreadable(name, e);
        }
    }

    private static void migrate(DataSource direct, String name) {
        try {
            Migrator.migrate(direct, name);
        } catch (NoClassDefFoundError e) {
            throw withoutFlyway(name, e);
        }
    }

    private static ClusterStartupException withoutFlyway(String name, Throwable cause) {
        return new ClusterStartupException(
                "Forge Cluster cannot install its tables in schema '%s': Flyway is not on the class path (%s)"
                        .formatted(name, cause.getMessage()),
                "Add org.flywaydb:flyway-database-postgresql, which cluster-spring-boot-starter brings. Or run the scripts in"
                        + " dev/forge/cluster/db of the cluster-core jar by other means, and set"
                        + " forge.cluster.schema.mode=validate, which needs no Flyway.",
                cause);
    }

    /** The schema in which that data source's connections find unqualified names. */
    public static String currentSchemaOf(DataSource application) {
        try (Connection connection = application.getConnection()) {
            // Asked first: another product would not know the function below.
            requirePostgres(connection.getMetaData());
            String name = connection.getSchema();
            if (name == null) {
                throw new ClusterStartupException(
                        "The connection has no current schema: none of its search path exists",
                        "Set forge.cluster.schema.name, or the search path of the database role.");
            }
            return name;
        } catch (SQLException e) {
            throw unreachable(e);
        }
    }

    /** Refuses if that data source finds another installation under the same name, or none: another database. */
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
            log.debug("schema {} through the application's data source", name, e);
        }
        throw new ClusterStartupException(
                "forge.cluster.direct-connection.url leads to another database than the application's DataSource:"
                        + " that one does not see the cluster's schema '%s'".formatted(name),
                "Point forge.cluster.direct-connection.url at the same database, only past the pooler.");
    }

    /**
     * Refuses if the role of the nodes may not write some of the tables. Without that check a node would start, and fail
     * when it first needs the table; "ALL TABLES" in a grant means those of that moment, not of the next release.
     */
    public void requireGrants() {
        var missing = JdbcClient.create(direct)
                .sql("""
                        SELECT c.relname::text FROM pg_catalog.pg_class c
                        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                        WHERE n.nspname = ?::name AND c.relname::text = ANY (string_to_array(?::text, ','::text))
                          AND NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'USAGE'::text)
                              ELSE has_table_privilege(c.oid, 'SELECT'::text) AND has_table_privilege(c.oid, 'INSERT'::text)
                               AND has_table_privilege(c.oid, 'UPDATE'::text) AND has_table_privilege(c.oid, 'DELETE'::text) END
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

    /** Tables and sequences that the role of the nodes must be allowed to write. */
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

    public static AdvisoryKeys keys(JdbcClient jdbc, String name) {
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
     * The channel on which the nodes of this cluster notify each other. Its name is a secret of the roles that may read
     * {@code forge_settings}: never log it. A changed name is used from the next start on.
     */
    public String channel() {
        String known = channel;
        if (known == null) {
            // SchemaMode.NONE: open() looks at no table.
            known = channel(JdbcClient.create(direct), name);
            channel = known;
        }
        return known;
    }

    public static String channel(JdbcClient jdbc, String schema) {
        return jdbc.sql("SELECT channel FROM %s.forge_settings".formatted(quoted(schema)))
                .query(String.class)
                .optional()
                .orElseThrow(() -> new ClusterStartupException(
                        "Table forge_settings in schema '%s' is empty: nodes have no channel to notify each other"
                                .formatted(schema),
                        "As its owner: INSERT INTO %s.forge_settings DEFAULT VALUES;".formatted(quoted(schema))));
    }

    /** The name of the schema. */
    public String name() {
        return name;
    }

    /** The name of the database around it; asks the server. Both together tell clusters apart that share a broker. */
    public String database() {
        return JdbcClient.create(direct)
                .sql("SELECT current_database()::text")
                .query(String.class)
                .single();
    }

    /** The version found in the database: {@link #VERSION}, or a later one that this library can work with. */
    public int version() {
        return version;
    }

    /** The server's product name and version. */
    public String server() {
        return server;
    }

    /**
     * Completes {@code ~.table} to the quoted name in this schema. Statements run in the application's own
     * transactions too, whose search path is not ours to know.
     */
    public String sql(String text) {
        return completed.computeIfAbsent(text, t -> t.replace("~.", quoted(name) + "."));
    }

    static String quoted(String identifier) {
        return '"' + identifier.replace("\"", "\"\"") + '"';
    }

    private static String requirePostgres(DatabaseMetaData database) throws SQLException {
        String product = database.getDatabaseProductName();
        if (!product.equals("PostgreSQL") || database.getDatabaseMajorVersion() < OLDEST_SERVER) {
            throw new ClusterStartupException(
                    "Forge Cluster needs PostgreSQL %d or newer, but the database is %s %s"
                            .formatted(OLDEST_SERVER, product, database.getDatabaseProductVersion()),
                    "Point spring.datasource.url at such a server, or set forge.cluster.enabled=false where no"
                            + " cluster is wanted, for example in tests on another database.");
        }
        return product + " " + database.getDatabaseProductVersion();
    }

    static ClusterStartupException unreachable(SQLException e) {
        return new ClusterStartupException(
                "Forge Cluster cannot connect to its database: " + e.getMessage(),
                "Check spring.datasource.url, username and password, and forge.cluster.direct-connection.* if set.",
                e);
    }

    private static void requireUsable(String name, Installed installed) {
        if (installed.version() < VERSION) {
            throw new ClusterStartupException(
                    "Schema '%s' has Forge Cluster version %d, this library needs %d"
                            .formatted(name, installed.version(), VERSION),
                    "Run %s of %s/ in the cluster-core jar with search_path=%s, or set"
                                    .formatted(scripts(installed.version() + 1), SCRIPTS, quoted(name))
                            + " forge.cluster.schema.mode=migrate.");
        }
        if (installed.needsLibrary() > VERSION) {
            throw new ClusterStartupException(
                    "Schema '%s' has Forge Cluster version %d, which needs a library of version %d or newer; this one is %d"
                            .formatted(name, installed.version(), installed.needsLibrary(), VERSION),
                    "Upgrade this application's Forge Cluster, or give it another forge.cluster.schema.name.");
        }
        if (installed.version() > VERSION) {
            log.info(
                    "Schema '{}' has version {}, this library has {}; it works with it",
                    name,
                    installed.version(),
                    VERSION);
        }
    }

    /** Names the scripts from that version on. */
    private static String scripts(int first) {
        return first == VERSION ? "the script V" + VERSION : "the scripts V%d to V%d".formatted(first, VERSION);
    }

    /** The functions name their schema, so that no search path leads them astray: after a renaming they name a former one. */
    private static void requireOwnName(JdbcClient jdbc, String name) {
        List<String> misled =
                jdbc.sql("""
                        SELECT p.proname::text FROM pg_catalog.pg_proc p
                        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
                        WHERE n.nspname = ?::name AND strpos(p.proname::text, 'forge_'::text) = 1
                          AND strpos(p.prosrc, '.forge_'::text) > 0
                          AND strpos(p.prosrc, quote_ident(n.nspname::text) || '.forge_'::text) = 0
                        ORDER BY 1
                        """).param(name).query((row, n) -> row.getString(1)).list();
        if (!misled.isEmpty()) {
            throw new ClusterStartupException(
                    "Schema '%s' was renamed: its functions %s still name the former schema".formatted(name, misled),
                    RENAME.formatted(name.replace("'", "''")));
        }
    }

    /** What the scripts have recorded. Version 0: nothing. */
    record Installed(int version, int needsLibrary) {}

    static Installed installed(JdbcClient jdbc, String schema) {
        // Parameters have the very types of the functions and operators: an overload in the search path cannot fit
        // better.
        boolean recorded = jdbc.sql("SELECT to_regclass(?::text) IS NOT NULL")
                .param(quoted(schema) + ".forge_schema_versions")
                .query(Boolean.class)
                .single();
        if (!recorded) {
            return new Installed(0, 0);
        }
        return jdbc.sql(
                        "SELECT coalesce(max(version), 0), coalesce(max(needs_library), 0) FROM %s.forge_schema_versions"
                                .formatted(quoted(schema)))
                .query((row, n) -> new Installed(row.getInt(1), row.getInt(2)))
                .single();
    }
}
