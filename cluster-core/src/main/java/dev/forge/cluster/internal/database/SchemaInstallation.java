// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.DatabaseMetaData;
import java.sql.SQLException;
import java.util.List;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Finds out what is installed on the server and in the schema, and rejects what this library cannot work with. */
final class SchemaInstallation {

    private static final Logger log = GuardedLogger.of(Schema.class);

    private static final int OLDEST_SERVER = 15;

    /** A statement that gives the functions of a renamed schema its present name. */
    private static final String RENAME = """
            As the owner of the functions, run: DO $$ DECLARE f record; BEGIN
            FOR f IN SELECT p.oid, n.nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                     WHERE n.nspname = '%s' AND p.proname LIKE 'forge\\_%%' AND p.prosrc LIKE '%%.forge\\_%%' LOOP
                EXECUTE regexp_replace(pg_get_functiondef(f.oid), '("([^"]|"")+"|\\w+)\\.forge_',
                                       replace(quote_ident(f.nspname), '\\', '\\\\') || '.forge_', 'g');
            END LOOP; END $$""";

    private SchemaInstallation() {}

    static void migrate(DataSource direct, String name) {
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

    static String requirePostgres(DatabaseMetaData database) throws SQLException {
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

    static void requireUsable(String name, Installed installed) {
        if (installed.version() < Schema.VERSION) {
            throw new ClusterStartupException(
                    "Schema '%s' has Forge Cluster version %d, this library needs %d"
                            .formatted(name, installed.version(), Schema.VERSION),
                    "Run %s of %s/ in the cluster-core jar with search_path=%s, or set"
                                    .formatted(scripts(installed.version() + 1), Schema.SCRIPTS, Schema.quoted(name))
                            + " forge.cluster.schema.mode=migrate.");
        }
        if (installed.needsLibrary() > Schema.VERSION) {
            throw new ClusterStartupException(
                    "Schema '%s' has Forge Cluster version %d, which needs a library of version %d or newer; this one is %d"
                            .formatted(name, installed.version(), installed.needsLibrary(), Schema.VERSION),
                    "Upgrade this application's Forge Cluster, or give it another forge.cluster.schema.name.");
        }
        if (installed.version() > Schema.VERSION) {
            log.info(
                    "Schema '{}' has version {}; this library of version {} is compatible with it",
                    name,
                    installed.version(),
                    Schema.VERSION);
        }
    }

    /** Rejects a renamed schema: its functions, which qualify all names, still have the former schema name. */
    static void requireOwnName(JdbcClient jdbc, String name) {
        List<String> outdated =
                jdbc.sql("""
                        SELECT p.proname::text FROM pg_catalog.pg_proc p
                        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
                        WHERE n.nspname = ?::name AND strpos(p.proname::text, 'forge_'::text) = 1
                          AND strpos(p.prosrc, '.forge_'::text) > 0
                          AND strpos(p.prosrc, quote_ident(n.nspname::text) || '.forge_'::text) = 0
                        ORDER BY 1
                        """).param(name).query((row, n) -> row.getString(1)).list();
        if (!outdated.isEmpty()) {
            throw new ClusterStartupException(
                    "Schema '%s' was renamed: its functions %s still name the former schema".formatted(name, outdated),
                    RENAME.formatted(name.replace("'", "''")));
        }
    }

    /**
     * The installation that the scripts have recorded.
     *
     * @param version 0 if there is none
     * @param needsLibrary the oldest version of the library that works with it
     */
    record Installed(int version, int needsLibrary) {}

    static Installed installed(JdbcClient jdbc, String schema) {
        // Parameters have exactly the types of the functions and operators, so that no overload in the search path fits
        // better.
        boolean recorded = jdbc.sql("SELECT to_regclass(?::text) IS NOT NULL")
                .param(Schema.quoted(schema) + ".forge_schema_versions")
                .query(Boolean.class)
                .single();
        if (!recorded) {
            return new Installed(0, 0);
        }
        return jdbc.sql(
                        "SELECT coalesce(max(version), 0), coalesce(max(needs_library), 0) FROM %s.forge_schema_versions"
                                .formatted(Schema.quoted(schema)))
                .query((row, n) -> new Installed(row.getInt(1), row.getInt(2)))
                .single();
    }

    /** Returns a text that names the scripts from that version on. */
    private static String scripts(int first) {
        return first == Schema.VERSION
                ? "the script V" + Schema.VERSION
                : "the scripts V%d to V%d".formatted(first, Schema.VERSION);
    }
}
