package dev.forge.cluster.benchmarks;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import javax.sql.DataSource;

/** The ceiling: the same rows by hand-written statements, without any engine around them. */
final class RawSql {

    private static final int INSERT_BATCH = 1_000;

    private final DataSource source;

    RawSql(DataSource source) {
        this.source = source;
    }

    /** Empties the table, then fills it; answers rows per second. */
    double insert(int jobs) {
        try (Connection connection = source.getConnection();
                Statement statement = connection.createStatement();
                PreparedStatement insert = connection.prepareStatement("""
                        INSERT INTO forge_jobs (id, name, payload)
                        SELECT id, 'trivial', '{"orderId": 42}' FROM unnest(?::uuid[]) AS id
                        """)) {
            statement.execute("TRUNCATE forge_jobs");
            long start = System.nanoTime();
            for (int done = 0; done < jobs; done += INSERT_BATCH) {
                UUID[] ids =
                        Stream.generate(UUID::randomUUID).limit(INSERT_BATCH).toArray(UUID[]::new);
                insert.setArray(1, connection.createArrayOf("uuid", ids));
                insert.executeUpdate();
            }
            double rate = perSecond(jobs, start);
            statement.execute("VACUUM ANALYZE forge_jobs");
            return rate;
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Claims and finishes until nothing is pending; answers jobs per second. */
    double drain(int batch, int connections) {
        var threads = Executors.newFixedThreadPool(connections);
        try {
            long start = System.nanoTime();
            Callable<Integer> worker = () -> drainOn(batch);
            int done = 0;
            for (Future<Integer> drained : threads.invokeAll(
                    Stream.generate(() -> worker).limit(connections).toList())) {
                done += drained.get();
            }
            return perSecond(done, start);
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        } finally {
            threads.shutdown();
        }
    }

    private int drainOn(int batch) throws SQLException {
        UUID worker = UUID.randomUUID();
        int done = 0;
        try (Connection connection = source.getConnection();
                PreparedStatement claim = connection.prepareStatement("""
                        UPDATE forge_jobs
                        SET status = 'running', worker_id = ?, claim_epoch = claim_epoch + 1, attempts = attempts + 1,
                            claimed_at = now(), started_at = now(), lease_expires_at = now() + interval '60 seconds'
                        WHERE id = ANY (ARRAY(
                            SELECT id FROM forge_jobs
                            WHERE status = 'pending' AND waits_for IS NULL AND name = 'trivial'
                              AND coalesce(worker_capability, '') = '' AND priority = 50 AND scheduled_at <= now()
                            ORDER BY scheduled_at LIMIT ? FOR UPDATE SKIP LOCKED))
                        RETURNING id, payload, claim_epoch
                        """);
                PreparedStatement finish = connection.prepareStatement("""
                        UPDATE forge_jobs SET status = 'completed', finished_at = now()
                        WHERE id = ANY (?::uuid[]) AND worker_id = ? AND status = 'running'
                        """)) {
            while (true) {
                claim.setObject(1, worker);
                claim.setInt(2, batch);
                List<UUID> claimed = new ArrayList<>(batch);
                try (ResultSet rows = claim.executeQuery()) {
                    while (rows.next()) {
                        claimed.add(rows.getObject(1, UUID.class));
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

    /** Returns when no job is unfinished. */
    void awaitFinished() {
        try (Connection connection = source.getConnection();
                Statement statement = connection.createStatement()) {
            boolean unfinished = true;
            while (unfinished) {
                try (ResultSet row = statement.executeQuery(
                        "SELECT EXISTS (SELECT FROM forge_jobs WHERE status IN ('claimed', 'running'))")) {
                    row.next();
                    unfinished = row.getBoolean(1);
                }
            }
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    private static double perSecond(int jobs, long startNanos) {
        return jobs / ((System.nanoTime() - startNanos) / 1e9);
    }
}
