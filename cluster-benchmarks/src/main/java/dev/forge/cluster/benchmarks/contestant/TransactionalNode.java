// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.internal.job.handler.JobHandler;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.DefaultTransactionDefinition;

/** Forge Cluster with one node whose handler is transactional, like a {@code @Transactional} handler of an application. */
public final class TransactionalNode implements Contestant {

    private final Server server;
    private final RawSql rows;

    private final int batchSize;

    /** @param batchSize the number of jobs per call of the handler */
    public TransactionalNode(Server server, int batchSize) {
        this.server = server;
        this.batchSize = batchSize;
        this.rows = new RawSql(server.pool());
    }

    @Override
    public String name() {
        return batchSize == 1
                ? "Forge Cluster, transactional"
                : "Forge Cluster, transactional, batches of " + batchSize;
    }

    @Override
    public int jobs() {
        return batchSize == 1 ? DbScheduler.JOBS : OneNode.MANY;
    }

    @Override
    public void fill(int jobs) {
        rows.fill(jobs);
    }

    @Override
    public Race.Result drain(Race race) {
        var transaction = new JobHandler.Transaction(
                new JdbcTransactionManager(server.pool()), new DefaultTransactionDefinition());
        try (var node = new Ours(
                "one",
                server,
                Ours.WORKER,
                Ours.Setup.DEFAULT.withTransaction(transaction).withBatchSize(batchSize),
                job -> race.ran())) {
            node.start();
            race.await();
            server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
            return race.finished();
        }
    }
}
