// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Server;

/** Forge Cluster with one node and a handler without a transaction. */
public final class OneNode implements Contestant {

    public static final int MANY = 100_000;

    private final Server server;
    private final RawSql rows;
    private final int jobs;

    public OneNode(Server server, int jobs) {
        this.server = server;
        this.jobs = jobs;
        this.rows = new RawSql(server.pool());
    }

    @Override
    public String name() {
        return jobs == MANY ? "Forge Cluster" : "Forge Cluster, small table";
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
        return drain(server, race, new Handlers.Plain(race::ran));
    }

    static Race.Result drain(Server server, Race race, Object handlers) {
        try (var node = new Ours("one", server, handlers)) {
            node.start();
            race.await();
            server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
            return race.finished();
        }
    }
}
