// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Server;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * The upper bound for transactional jobs: transactions of two statements without an engine, with the same driver, pool and
 * number of threads.
 */
public final class BareTransactions implements Contestant {

    private final Server server;

    public BareTransactions(Server server) {
        this.server = server;
        server.execute("CREATE TABLE bare (id int PRIMARY KEY, done boolean NOT NULL) WITH (fillfactor = 80)");
    }

    @Override
    public String name() {
        return "bare transactions";
    }

    @Override
    public int jobs() {
        return DbScheduler.JOBS;
    }

    @Override
    public void fill(int jobs) {
        server.execute("TRUNCATE bare");
        server.execute("INSERT INTO bare SELECT n, false FROM generate_series(1, %d) AS n".formatted(jobs));
        server.execute("VACUUM ANALYZE bare");
    }

    @Override
    public Race.Result drain(Race race) {
        var next = new AtomicInteger();
        var threads = Executors.newFixedThreadPool(Ours.SLOTS);
        try {
            race.begin();
            Callable<Void> worker = () -> {
                for (int id = next.incrementAndGet(); id <= race.jobs(); id = next.incrementAndGet()) {
                    commit(id);
                    race.ran();
                }
                return null;
            };
            for (Future<Void> ended : threads.invokeAll(
                    Stream.generate(() -> worker).limit(Ours.SLOTS).toList())) {
                ended.get();
            }
            return race.finished();
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        } finally {
            threads.shutdown();
        }
    }

    private void commit(int id) throws SQLException {
        try (Connection connection = server.pool().getConnection();
                PreparedStatement select = connection.prepareStatement("SELECT 1");
                PreparedStatement update = connection.prepareStatement("UPDATE bare SET done = true WHERE id = ?")) {
            connection.setAutoCommit(false);
            select.executeQuery().close();
            update.setInt(1, id);
            update.executeUpdate();
            connection.commit();
        }
    }
}
