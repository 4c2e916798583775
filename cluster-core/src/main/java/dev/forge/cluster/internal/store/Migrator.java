package dev.forge.cluster.internal.store;

import dev.forge.cluster.ClusterStartupException;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import javax.sql.DataSource;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.core.NestedExceptionUtils;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * Runs our scripts with a Flyway of our own: never a bean, which would switch the application's off, and with its own
 * history table. Apart from {@link Schema}, so that Flyway is loaded only where it is used.
 */
final class Migrator {

    private static final String HISTORY_TABLE = "forge_schema_history";
    private static final String INSUFFICIENT_PRIVILEGE = "42501";
    private static final String LOCK_NOT_AVAILABLE = "55P03";

    /** How long a node waits for the migration of another one. */
    private static final Duration PATIENCE = Duration.ofMinutes(5);

    private static final Logger log = LoggerFactory.getLogger(Migrator.class);

    private Migrator() {}

    /** Brings the schema to {@link Schema#VERSION}, creating it if need be. Any number of nodes may do so at once. */
    static void migrate(DataSource direct, String schema) {
        migrate(direct, schema, PATIENCE);
    }

    static void migrate(DataSource direct, String schema, Duration patience) {
        // Flyway's own lock does not cover its baseline step: of many nodes on an empty database some would fail.
        try (Connection locking = direct.getConnection()) {
            locking.setAutoCommit(false);
            var jdbc = JdbcClient.create(new SingleConnectionDataSource(locking, true));
            jdbc.sql("SET LOCAL lock_timeout = '%dms'".formatted(patience.toMillis()))
                    .update();
            jdbc.sql("SET LOCAL idle_in_transaction_session_timeout = 0").update();
            jdbc.sql("SET LOCAL statement_timeout = 0").update();
            lock(jdbc, schema, patience);
            // Not in the locking transaction, whose own locks a migration might then wait for.
            JdbcClient apart = JdbcClient.create(direct);
            if (!exists(apart, schema)) {
                apart.sql("CREATE SCHEMA " + Schema.quoted(schema)).update();
            }
            int version = Schema.installed(apart, schema).version();
            forgetHistoryThatDisagrees(apart, schema, version);
            if (version < Schema.VERSION) {
                flyway(direct, schema, version).migrate();
                log.info("Schema '{}': Forge Cluster migrated from version {} to {}", schema, version, Schema.VERSION);
            }
            locking.rollback();
        } catch (SQLException | DataAccessException | FlywayException e) {
            throw failed(schema, e);
        }
    }

    private static void lock(JdbcClient jdbc, String schema, Duration patience) {
        int key = jdbc.sql("SELECT hashtext(?::text)")
                .param("migrate " + schema)
                .query(Integer.class)
                .single();
        if (jdbc.sql("SELECT pg_try_advisory_xact_lock(?, ?)")
                .params(AdvisoryKeys.CLASS_ID, key)
                .query(Boolean.class)
                .single()) {
            return;
        }
        String holder = holder(jdbc, key);
        log.info(
                "Schema '{}': {} holds the migration lock; waiting for it, up to {} s",
                schema,
                holder,
                patience.toSeconds());
        try {
            jdbc.sql("SELECT pg_advisory_xact_lock(?, ?)")
                    .params(AdvisoryKeys.CLASS_ID, key)
                    .query((row, n) -> true)
                    .single();
        } catch (DataAccessException e) {
            if (NestedExceptionUtils.getMostSpecificCause(e) instanceof SQLException cause
                    && LOCK_NOT_AVAILABLE.equals(cause.getSQLState())) {
                throw new ClusterStartupException(
                        "Forge Cluster could not migrate schema '%s': %s has held the migration lock for more than %d s"
                                .formatted(schema, holder, patience.toSeconds()),
                        "If that session is not a node that migrates, end it with pg_terminate_backend and start again.",
                        e);
            }
            throw e;
        }
    }

    private static String holder(JdbcClient jdbc, int key) {
        return jdbc.sql("""
                        SELECT pg_catalog.format('session %s of role %s (%s)', l.pid, coalesce(a.usename::text, 'unknown'),
                                                 coalesce(a.application_name, ''))
                        FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
                        WHERE l.locktype = 'advisory' AND l.classid = ?::oid AND l.objid = (?::bigint & 4294967295)::oid
                          AND l.objsubid = 2 AND l.granted
                          AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
                        LIMIT 1
                        """)
                .params(AdvisoryKeys.CLASS_ID, key)
                .query(String.class)
                .optional()
                .orElse("another session");
    }

    private static boolean exists(JdbcClient jdbc, String schema) {
        return jdbc.sql("SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = ?::name)")
                .param(schema)
                .query(Boolean.class)
                .single();
    }

    /** Somebody ran a script with psql, or a first migration failed: what the scripts recorded is the truth. */
    private static void forgetHistoryThatDisagrees(JdbcClient jdbc, String schema, int version) {
        String table = Schema.quoted(schema) + "." + HISTORY_TABLE;
        boolean kept = jdbc.sql("SELECT to_regclass(?::text) IS NOT NULL")
                .param(table)
                .query(Boolean.class)
                .single();
        if (kept
                && jdbc.sql("SELECT coalesce(max(version::int), 0) FROM %s WHERE success".formatted(table))
                                .query(Integer.class)
                                .single()
                        != version) {
            log.info(
                    "Schema '{}': its migration history does not say version {}; beginning a new one", schema, version);
            jdbc.sql("DROP TABLE " + table).update();
        }
    }

    private static Flyway flyway(DataSource direct, String schema, int installed) {
        return Flyway.configure(Migrator.class.getClassLoader())
                .dataSource(direct)
                .locations("classpath:" + Schema.SCRIPTS)
                .table(HISTORY_TABLE)
                .schemas(schema)
                .createSchemas(false)
                // The schema may hold the application's tables already, or ours, installed with psql.
                .baselineOnMigrate(true)
                .baselineVersion(Integer.toString(installed))
                // The scripts run under psql as they are.
                .placeholderReplacement(false)
                .load();
    }

    private static ClusterStartupException failed(String schema, Exception failure) {
        String quoted = Schema.quoted(schema);
        boolean forbidden = false;
        for (Throwable e = failure; e != null; e = e.getCause()) {
            forbidden |= e instanceof SQLException sql && INSUFFICIENT_PRIVILEGE.equals(sql.getSQLState());
        }
        return forbidden
                ? new ClusterStartupException(
                        "The database role may not install Forge Cluster in schema '%s': %s"
                                .formatted(schema, rootMessage(failure)),
                        "As an administrator: CREATE SCHEMA IF NOT EXISTS %s; GRANT USAGE, CREATE ON SCHEMA %s TO <role>;"
                                        .formatted(quoted, quoted)
                                + " or run the scripts of %s/ in the cluster-core jar and set".formatted(Schema.SCRIPTS)
                                + " forge.cluster.schema.mode=validate.",
                        failure)
                : new ClusterStartupException(
                        "Forge Cluster could not migrate schema '%s': %s".formatted(schema, rootMessage(failure)),
                        "Each script is one transaction, so nothing is half done. Mend the cause and start again.",
                        failure);
    }

    private static String rootMessage(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return String.valueOf(cause.getMessage());
    }
}
