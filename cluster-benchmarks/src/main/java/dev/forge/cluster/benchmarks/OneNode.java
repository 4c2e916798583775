package dev.forge.cluster.benchmarks;

/** The product, with one node. */
final class OneNode implements Contestant {

    private final Server server;
    private final RawSql rows;

    OneNode(Server server) {
        this.server = server;
        this.rows = new RawSql(server.pool());
    }

    @Override
    public String name() {
        return "ours";
    }

    @Override
    public int jobs() {
        return 100_000;
    }

    @Override
    public void fill(int jobs) {
        rows.fill(jobs);
    }

    @Override
    public Race.Result drain(Race race) {
        try (var node = new Ours("one", server, Ours.WORKER, job -> race.ran())) {
            node.start();
            race.await();
            server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
            return race.finished();
        }
    }
}
