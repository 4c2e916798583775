package dev.forge.cluster.internal.database;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.sql.DataSource;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.callback.Callback;
import org.flywaydb.core.api.callback.Context;
import org.flywaydb.core.api.callback.Event;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.NestedExceptionUtils;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Runs our scripts with a Flyway of our own: never a bean, which would switch the application's off, and with its own
 * history table. Apart from {@link Schema}, so that Flyway is loaded only where it is used.
 */
final class Migrator {

    private static final String HISTORY_TABLE = "forge_schema_history";
    private static final String INSUFFICIENT_PRIVILEGE = "42501";
    private static final String LOCK_NOT_AVAILABLE = "55P03";
    private static final String DEADLOCK = "40P01";

    /** How long a node waits for the migration of another one. */
    private static final Duration PATIENCE = Duration.ofMinutes(5);

    /** PostgreSQL 17 and later have a transaction_timeout, which a role or a database may set. */
    private static final String DISABLE_TRANSACTION_TIMEOUT =
            "SELECT pg_catalog.set_config(name, '0', true) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'";

    private static final Logger log = GuardedLogger.of(Migrator.class);

    /** How long a statement of a script waits for a lock: everybody who comes later waits behind it. */
    private static final Duration LOCK_TIMEOUT = Duration.ofSeconds(1);

    /** Between two tries, so that those who waited behind the first can do their work. */
    private static final Duration SHORTEST_PAUSE = Duration.ofSeconds(2);

    private final DataSource direct;
    private final String schema;
    private final JdbcClient locking;

    private Migrator(DataSource direct, String schema, JdbcClient locking) {
        this.direct = direct;
        this.schema = schema;
        this.locking = locking;
    }

    /** Brings the schema to {@link Schema#VERSION}, creating it if need be. Any number of nodes may do so at once. */
    static void migrate(DataSource direct, String schema) {
        migrate(direct, schema, PATIENCE);
    }

    static void migrate(DataSource unsafe, String schema, Duration patience) {
        // Flyway's own statements would call operators of others that fit better than the built-in ones.
        DataSource direct = DedicatedConnection.withSafeDefaults(unsafe);
        // Flyway's own lock does not cover its baseline step: of many nodes on an empty database some would fail.
        try (Connection locking = direct.getConnection()) {
            locking.setAutoCommit(false);
            var jdbc = JdbcClient.create(new SingleConnectionDataSource(locking, true));
            jdbc.sql("SET LOCAL lock_timeout = '%dms'".formatted(patience.toMillis()))
                    .update();
            jdbc.sql("SET LOCAL idle_in_transaction_session_timeout = 0").update();
            jdbc.sql("SET LOCAL statement_timeout = 0").update();
            jdbc.sql(DISABLE_TRANSACTION_TIMEOUT).query((row, n) -> true).list();
            lock(jdbc, schema, patience);
            // Not in the locking transaction, whose own locks a migration might then wait for.
            new Migrator(direct, schema, jdbc).migrate(patience);
            locking.rollback();
        } catch (SQLException | DataAccessException | FlywayException e) {
            throw failed(schema, e);
        }
    }

    /** Tries until no other transaction is in the way, or for that long. */
    private void migrate(Duration patience) {
        long began = System.nanoTime();
        Duration timeout = patience.compareTo(LOCK_TIMEOUT) < 0 ? patience : LOCK_TIMEOUT;
        for (int tries = 1; ; tries++) {
            var wait = new LockWait(direct, timeout);
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
                            "Schema '{}': {} blocks the migration, which is tried again for up to {} s",
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

    private void migrateNow(LockWait wait) {
        JdbcClient jdbc = JdbcClient.create(direct);
        if (!exists(jdbc, schema)) {
            jdbc.sql("CREATE SCHEMA " + Schema.quoted(schema)).update();
        }
        int version = Schema.installed(jdbc, schema).version();
        forgetHistoryThatDisagrees(jdbc, version, wait);
        if (version < Schema.VERSION) {
            flyway(version, wait).migrate();
            log.info("Schema '{}': Forge Cluster migrated from version {} to {}", schema, version, Schema.VERSION);
        }
    }

    /** On the server, in the transaction that holds the migration lock. */
    private void pause(Duration patience) {
        long most = Math.min(SHORTEST_PAUSE.toMillis(), patience.toMillis());
        double seconds = most * (1 + ThreadLocalRandom.current().nextDouble()) / 1_000;
        locking.sql("SELECT pg_sleep(?)").param(seconds).query((row, n) -> true).single();
    }

    private static boolean isBlocked(Throwable failure) {
        for (Throwable e = failure; e != null; e = e.getCause()) {
            if (e instanceof SQLException sql
                    && (LOCK_NOT_AVAILABLE.equals(sql.getSQLState()) || DEADLOCK.equals(sql.getSQLState()))) {
                return true;
            }
        }
        return false;
    }

    private ClusterStartupException blocked(String blockers, Duration patience, RuntimeException cause) {
        return new ClusterStartupException(
                "Forge Cluster could not migrate schema '%s': %s has blocked it for more than %d s"
                        .formatted(schema, blockers, patience.toSeconds()),
                "Each script is one transaction, so nothing is half done. Commit or end that transaction, with"
                        + " pg_terminate_backend if need be, and start again.",
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
    private void forgetHistoryThatDisagrees(JdbcClient jdbc, int version, LockWait wait) {
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
            new TransactionTemplate(new OwnTransactions(direct)).executeWithoutResult(status -> {
                jdbc.sql(wait.bound()).query(Integer.class).single();
                jdbc.sql("DROP TABLE " + table).update();
            });
        }
    }

    private Flyway flyway(int installed, LockWait wait) {
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
                .callbacks(wait)
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

    /** Bounds how long each statement of a script waits for a lock, and finds out whom it waits for. */
    private static final class LockWait implements Callback {

        private static final Duration PATIENCE = Duration.ofSeconds(5);

        private static final String BLOCKERS = """
                SELECT pg_catalog.string_agg(pg_catalog.format('session %s of role %s (%s)', b.pid,
                           coalesce(b.usename::text, 'unknown'::text), coalesce(b.application_name, ''::text)), ', '::text)
                FROM pg_catalog.pg_stat_activity b WHERE b.pid = ANY (pg_catalog.pg_blocking_pids(?))
                """;

        private final DataSource direct;
        private final Duration timeout;
        private final SimpleAsyncTaskExecutor threads = new SimpleAsyncTaskExecutor("forge-cluster-migration-");
        private volatile boolean closed;
        private volatile int migrating;
        private volatile String blockers = "another session";
        private @Nullable Future<?> watching;

        LockWait(DataSource direct, Duration timeout) {
            this.direct = direct;
            this.timeout = timeout;
        }

        /** For the running transaction only: behind a pooler the session is somebody else's afterwards. */
        String bound() {
            return "SELECT pg_backend_pid() FROM set_config('lock_timeout', '%d', true)".formatted(timeout.toMillis());
        }

        String blockers() {
            return blockers;
        }

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
            try (Statement statement = context.getConnection().createStatement()) {
                statement.execute(DISABLE_TRANSACTION_TIMEOUT);
                try (ResultSet row = statement.executeQuery(bound())) {
                    row.next();
                    migrating = row.getInt(1);
                }
            } catch (SQLException e) {
                throw new FlywayException("cannot bound the wait for locks: " + e.getMessage(), e);
            }
            if (watching == null) {
                watching = threads.submit(this::watch);
            }
        }

        @Override
        public String getCallbackName() {
            return "forge-cluster-lock-timeout";
        }

        private void watch() {
            try (Connection connection = direct.getConnection();
                    PreparedStatement look = connection.prepareStatement(BLOCKERS);
                    Statement pause = connection.createStatement()) {
                while (!closed) {
                    look.setInt(1, migrating);
                    try (ResultSet row = look.executeQuery()) {
                        row.next();
                        String seen = row.getString(1);
                        blockers = seen == null ? blockers : seen;
                    }
                    pause.execute("SELECT pg_sleep(0.05)");
                }
            } catch (SQLException e) {
                log.debug("cannot find out who blocks a migration", e);
            }
        }

        void close() {
            closed = true;
            Future<?> last = watching;
            if (last == null) {
                return;
            }
            try {
                last.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
            } catch (ExecutionException | TimeoutException e) {
                log.debug("the look for whoever blocks a migration did not end", e);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
