// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Server;
import java.util.function.Function;

/** Forge Cluster with one node and a {@code @Transactional} handler. */
public final class TransactionalNode implements Contestant {

    private final Server server;
    private final RawSql rows;
    private final String name;
    private final int jobs;
    private final Function<Race, Object> handlers;

    private TransactionalNode(Server server, String name, int jobs, Function<Race, Object> handlers) {
        this.server = server;
        this.rows = new RawSql(server.pool());
        this.name = name;
        this.jobs = jobs;
        this.handlers = handlers;
    }

    /** Returns a node whose handler does nothing. */
    public static Contestant empty(Server server) {
        return new TransactionalNode(
                server,
                "Forge Cluster, transactional",
                DbScheduler.JOBS,
                race -> new Handlers.InTransaction(race::ran));
    }

    /** Returns a node whose handler changes one row. */
    public static Contestant writing(Server server, RowChange change) {
        return new TransactionalNode(
                server,
                "Forge Cluster, transactional, handler changes a row",
                DbScheduler.JOBS,
                race -> new Handlers.InTransaction(() -> {
                    change.run();
                    race.ran();
                }));
    }

    /** Returns a node whose handler does nothing with up to a hundred jobs at a time. */
    public static Contestant bulk(Server server) {
        return new TransactionalNode(
                server,
                "Forge Cluster, transactional, batches of " + Handlers.Bulk.SIZE,
                OneNode.MANY,
                race -> new Handlers.Bulk(race::ran));
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public int jobs() {
        return jobs;
    }

    @Override
    public void fill(int jobs) {
        rows.fill(jobs);
    }

    @Override
    public Race.Result drain(Race race) {
        return OneNode.drain(server, race, handlers.apply(race));
    }
}
