// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import javax.sql.DataSource;

/** The upper bound: hand-written statements without an engine, on the table of Forge Cluster or of a hand-written queue. */
public final class RawSql implements Contestant {

    private static final int INSERT_BATCH = 1_000;
    public static final int CLAIM = 100;
    public static final int LARGE_CLAIM = 500;
    private static final int CONNECTIONS = 2;
    private static final String PAYLOAD = "{\"orderId\": 42}";

    /** The table with the jobs. */
    public enum Table {
        /** The table of Forge Cluster: shows the cost of the engine. */
        FORGE_JOBS(
                "forge_jobs",
                "raw SQL",
                "(id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata, body_bytes)",
                "'trivial', d.payload::jsonb, 50, NULL, now(), NULL, '{}', 17",
                "claim_epoch = claim_epoch + 1, started_at = now(), lease_expires_at = now() + interval '60 seconds',",
                "waits_for IS NULL AND name = 'trivial' AND coalesce(worker_capability, '') = '' AND priority = 50"),
        /** A queue that keeps its rows, with as few columns and indexes as possible: also shows the cost of the features. */
        OWN(
                "hand_written_jobs",
                "hand-written queue",
                "(id, name, payload, scheduled_at)",
                "'trivial', d.payload::jsonb, now()",
                "",
                "true");

        private final String table;
        private final String text;
        private final String columns;
        private final String values;
        private final String changes;
        private final String condition;

        Table(String table, String text, String columns, String values, String changes, String condition) {
            this.table = table;
            this.text = text;
            this.columns = columns;
            this.values = values;
            this.changes = changes;
            this.condition = condition;
        }
    }

    private final DataSource source;
    private final Table table;
    private final int batch;

    /** @param claim the number of jobs per claim */
    public RawSql(DataSource source, Table table, int claim) {
        this.source = source;
        this.table = table;
        this.batch = claim;
        if (table == Table.OWN) {
            execute("""
                    CREATE TABLE IF NOT EXISTS hand_written_jobs (
                        id uuid PRIMARY KEY,
                        name text NOT NULL,
                        payload jsonb NOT NULL,
                        status text NOT NULL DEFAULT 'pending',
                        scheduled_at timestamptz NOT NULL,
                        attempts int NOT NULL DEFAULT 0,
                        worker_id uuid,
                        claimed_at timestamptz,
                        finished_at timestamptz);
                    CREATE INDEX IF NOT EXISTS hand_written_jobs_due ON hand_written_jobs (scheduled_at)
                        WHERE status = 'pending'
                    """);
        }
    }

    /** Uses the table of Forge Cluster and claims of {@link #CLAIM} jobs. */
    public RawSql(DataSource source) {
        this(source, Table.FORGE_JOBS, CLAIM);
    }

    @Override
    public String name() {
        return batch == CLAIM ? table.text : table.text + ", k=" + batch;
    }

    @Override
    public int jobs() {
        return 100_000;
    }

    @Override
    public void fill(int jobs) {
        empty();
        insert(jobs);
        execute("VACUUM ANALYZE " + table.table);
    }

    public void empty() {
        execute("TRUNCATE " + table.table);
    }

    private void execute(String sql) {
        try (Connection connection = source.getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            throw new IllegalStateException(sql, e);
        }
    }

    /** Inserts jobs, many per statement, and returns the rate in rows per second. */
    public double insert(int jobs) {
        try (Connection connection = source.getConnection();
                PreparedStatement insert =
                        connection.prepareStatement("""
                        INSERT INTO %s %s SELECT d.id, %s FROM unnest(?::uuid[], ?::text[]) AS d (id, payload)
                        """.formatted(table.table, table.columns, table.values))) {
            long start = System.nanoTime();
            for (int done = 0; done < jobs; done += INSERT_BATCH) {
                int rows = Math.min(INSERT_BATCH, jobs - done);
                String[] payloads = new String[rows];
                Arrays.fill(payloads, PAYLOAD);
                insert.setArray(1, connection.createArrayOf("uuid", Ids.next(rows)));
                insert.setArray(2, connection.createArrayOf("text", payloads));
                insert.executeUpdate();
            }
            return jobs / ((System.nanoTime() - start) / 1e9);
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Inserts one job in its own transaction. */
    public void insertOne() {
        try (Connection connection = source.getConnection();
                PreparedStatement insert = connection.prepareStatement(
                        "INSERT INTO forge_jobs (id, name, payload) VALUES (?, 'trivial', ?::jsonb)")) {
            insert.setObject(1, Ids.next());
            insert.setString(2, PAYLOAD);
            insert.executeUpdate();
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public Race.Result drain(Race race) {
        var threads = Executors.newFixedThreadPool(CONNECTIONS);
        try {
            race.begin();
            Callable<Integer> worker = () -> drainOn(race);
            for (Future<Integer> drained : threads.invokeAll(
                    Stream.generate(() -> worker).limit(CONNECTIONS).toList())) {
                drained.get();
            }
            return race.finished();
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        } finally {
            threads.shutdown();
        }
    }

    private int drainOn(Race race) throws SQLException {
        UUID worker = UUID.randomUUID();
        int done = 0;
        try (Connection connection = source.getConnection();
                PreparedStatement claim =
                        connection.prepareStatement("""
                        UPDATE %1$s
                        SET status = 'running', worker_id = ?, attempts = attempts + 1, %2$s claimed_at = now()
                        WHERE id = ANY (ARRAY(
                            SELECT id FROM %1$s WHERE status = 'pending' AND %3$s AND scheduled_at <= now()
                            ORDER BY scheduled_at LIMIT ? FOR UPDATE SKIP LOCKED))
                        RETURNING id, payload, attempts
                        """.formatted(table.table, table.changes, table.condition));
                PreparedStatement finish = connection.prepareStatement("""
                        UPDATE %s SET status = 'completed', finished_at = now()
                        WHERE id = ANY (?::uuid[]) AND worker_id = ? AND status = 'running'
                        """.formatted(table.table))) {
            while (true) {
                claim.setObject(1, worker);
                claim.setInt(2, batch);
                List<UUID> claimed = new ArrayList<>(batch);
                try (ResultSet rows = claim.executeQuery()) {
                    while (rows.next()) {
                        claimed.add(rows.getObject(1, UUID.class));
                        race.ran();
                    }
                }
                if (claimed.isEmpty()) {
                    return done;
                }
                claimed.sort(null);
                finish.setArray(1, connection.createArrayOf("uuid", claimed.toArray()));
                finish.setObject(2, worker);
                done += finish.executeUpdate();
            }
        }
    }
}
