// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.database.connection.DedicatedConnection;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.database.failure.Causes;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import javax.sql.DataSource;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.callback.Callback;
import org.flywaydb.core.api.callback.Context;
import org.flywaydb.core.api.callback.Event;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Runs the scripts of the cluster's schema with a Flyway instance that is no bean, since a bean would disable the application's
 * own, and with a history table of its own. Separate from {@link Schema}, so that Flyway is loaded only if it is used.
 */
final class Migrator {

    private static final String HISTORY_TABLE = "forge_schema_history";

    /** How long a node waits for the migration of another node. */
    private static final Duration PATIENCE = Duration.ofMinutes(5);

    private static final Logger log = GuardedLogger.of(Migrator.class);

    /** How long a statement of a script waits for a lock: all later statements on the table wait behind it. */
    private static final Duration LOCK_TIMEOUT = Duration.ofSeconds(1);

    /** The pause between two attempts, in which statements that waited behind the first one can run. */
    private static final Duration SHORTEST_PAUSE = Duration.ofSeconds(2);

    /**
     * Scripts to run.
     *
     * @param version the version that the last script installs
     * @param locations directories of the scripts, in the notation of Flyway
     */
    record Scripts(int version, List<String> locations) {

        /** The scripts of this library. */
        static final Scripts OWN = new Scripts(Schema.VERSION, List.of("classpath:" + Schema.SCRIPTS));
    }

    private final DataSource direct;
    private final String schema;
    private final Scripts scripts;
    private final JdbcClient locking;

    private Migrator(DataSource direct, String schema, Scripts scripts, JdbcClient locking) {
        this.direct = direct;
        this.schema = schema;
        this.scripts = scripts;
        this.locking = locking;
    }

    /** Migrates the schema to {@link Schema#VERSION}, and creates it if necessary. Any number of nodes may do so at once. */
    static void migrate(DataSource direct, String schema) {
        migrate(direct, schema, PATIENCE, Scripts.OWN);
    }

    static void migrate(DataSource direct, String schema, Duration patience, Scripts scripts) {
        migrate(direct, Pooler.detect(direct), schema, patience, scripts);
    }

    static void migrate(DataSource unsafe, Pooler pooler, String schema, Duration patience, Scripts scripts) {
        // Flyway's own statements would call foreign operators that fit better than the built-in ones.
        DataSource direct = DedicatedConnection.forMigration(unsafe, pooler);
        // Flyway's own lock does not cover its baseline step, so that some of many nodes on an empty database would
        // fail.
        try (Connection locking = direct.getConnection()) {
            locking.setAutoCommit(false);
            var jdbc = JdbcClient.create(new SingleConnectionDataSource(locking, true));
            jdbc.sql("SET LOCAL lock_timeout = '%dms'".formatted(patience.toMillis()))
                    .update();
            lock(jdbc, schema, patience);
            // On another connection: a migration might wait for locks of the locking transaction.
            new Migrator(direct, schema, scripts, jdbc).migrate(patience);
            locking.rollback();
        } catch (SQLException | DataAccessException | FlywayException e) {
            throw failed(schema, e);
        }
    }

    /** Tries until no other transaction blocks the migration, or for that long. */
    private void migrate(Duration patience) {
        long began = System.nanoTime();
        Duration timeout = patience.compareTo(LOCK_TIMEOUT) < 0 ? patience : LOCK_TIMEOUT;
        for (int tries = 1; ; tries++) {
            var wait = new MigrationLockWait(direct, timeout);
            try {
                migrateNow(wait);
                return;
            } catch (DataAccessException | FlywayException e) {
                if (!isBlocked(e)) {
                    throw e;
                }
                if (System.nanoTime() - began >= patience.toNanos()) {
                    throw blocked(wait.blockers(), patience, e);
                }
                if (tries == 1) {
                    log.warn(
                            "Schema '{}': {} blocks the migration; retrying for up to {} s",
                            schema,
                            wait.blockers(),
                            patience.toSeconds());
                }
            } finally {
                wait.close();
            }
            pause(patience);
        }
    }

    private void migrateNow(MigrationLockWait wait) {
        JdbcClient jdbc = JdbcClient.create(direct);
        if (!exists(jdbc, schema)) {
            jdbc.sql("CREATE SCHEMA " + Schema.quoted(schema)).update();
        }
        int version = SchemaInstallation.installed(jdbc, schema).version();
        dropOutdatedHistory(jdbc, version, wait);
        if (version < scripts.version()) {
            flyway(version, wait).migrate();
            log.info("Schema '{}': Forge Cluster migrated from version {} to {}", schema, version, scripts.version());
        }
    }

    /** Pauses on the server, in the transaction that holds the migration lock. */
    private void pause(Duration patience) {
        long most = Math.min(SHORTEST_PAUSE.toMillis(), patience.toMillis());
        double seconds = most * (1 + ThreadLocalRandom.current().nextDouble()) / 1_000;
        locking.sql("SELECT pg_sleep(?)").param(seconds).query((row, n) -> true).single();
    }

    private static boolean isBlocked(Throwable failure) {
        Kind kind = DatabaseFailure.kind(failure);
        return kind == Kind.LOCK_TIMEOUT || kind == Kind.DEADLOCK;
    }

    private ClusterStartupException blocked(String blockers, Duration patience, RuntimeException cause) {
        return new ClusterStartupException(
                "Forge Cluster could not migrate schema '%s': %s has blocked it for more than %d s"
                        .formatted(schema, blockers, patience.toSeconds()),
                "Each script is one transaction, so no script is half done. Commit or end the blocking transaction, with"
                        + " pg_terminate_backend if necessary, and start again.",
                cause);
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
        log.info("Schema '{}': {} holds the migration lock; waiting up to {} s", schema, holder, patience.toSeconds());
        try {
            jdbc.sql("SELECT pg_advisory_xact_lock(?, ?)")
                    .params(AdvisoryKeys.CLASS_ID, key)
                    .query((row, n) -> true)
                    .single();
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == Kind.LOCK_TIMEOUT) {
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

    /**
     * Drops a Flyway history that disagrees with the version which the scripts have recorded, because a script was run with psql
     * or a first migration failed.
     */
    private void dropOutdatedHistory(JdbcClient jdbc, int version, MigrationLockWait wait) {
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
                    "Schema '{}': its migration history does not end with version {}; starting a new one",
                    schema,
                    version);
            new TransactionTemplate(new OwnTransactions(direct)).executeWithoutResult(status -> {
                jdbc.sql(wait.bound()).query(Integer.class).single();
                jdbc.sql("DROP TABLE " + table).update();
            });
        }
    }

    private Flyway flyway(int installed, MigrationLockWait wait) {
        return Flyway.configure(Migrator.class.getClassLoader())
                .dataSource(direct)
                .locations(scripts.locations().toArray(String[]::new))
                .table(HISTORY_TABLE)
                .schemas(schema)
                .createSchemas(false)
                // The schema may hold tables of the application, or tables of the cluster that psql installed.
                .baselineOnMigrate(true)
                .baselineVersion(Integer.toString(installed))
                // The scripts must also run with psql.
                .placeholderReplacement(false)
                .callbacks(new BeforeEachScript(wait))
                .load();
    }

    private static ClusterStartupException failed(String schema, Exception failure) {
        String quoted = Schema.quoted(schema);
        return DatabaseFailure.kind(failure) == Kind.FORBIDDEN
                ? new ClusterStartupException(
                        "The database role may not install Forge Cluster in schema '%s': %s"
                                .formatted(schema, Causes.root(failure).getMessage()),
                        "As an administrator: CREATE SCHEMA IF NOT EXISTS %s; GRANT USAGE, CREATE ON SCHEMA %s TO <role>;"
                                        .formatted(quoted, quoted)
                                + " or run the scripts of %s/ in the cluster-core jar and set".formatted(Schema.SCRIPTS)
                                + " forge.cluster.schema.mode=validate.",
                        failure)
                : new ClusterStartupException(
                        "Forge Cluster could not migrate schema '%s': %s"
                                .formatted(schema, Causes.root(failure).getMessage()),
                        DatabaseFailure.kind(failure) == Kind.READ_ONLY
                                ? "The server is a standby, or default_transaction_read_only is on for the role or the"
                                        + " database. A node must be able to write."
                                : "Each script is one transaction, so no script is half done. Fix the cause and start"
                                        + " again.",
                        failure);
    }

    /** Calls {@link MigrationLockWait} at the beginning of each script's transaction. */
    private record BeforeEachScript(MigrationLockWait lockWait) implements Callback {

        @Override
        public boolean supports(Event event, Context context) {
            return event == Event.BEFORE_EACH_MIGRATE;
        }

        @Override
        public boolean canHandleInTransaction(Event event, Context context) {
            return true;
        }

        @Override
        public void handle(Event event, Context context) {
            try {
                lockWait.bound(context.getConnection());
            } catch (SQLException e) {
                throw new FlywayException("cannot bound the wait for locks: " + e.getMessage(), e);
            }
        }

        @Override
        public String getCallbackName() {
            return "forge-cluster-lock-timeout";
        }
    }
}
