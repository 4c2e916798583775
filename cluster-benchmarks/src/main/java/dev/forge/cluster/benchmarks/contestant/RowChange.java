// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Server;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.jdbc.core.JdbcTemplate;

/** The work of a handler that changes one row of the application by its key, each time another row. */
public final class RowChange implements Runnable {

    private final JdbcTemplate jdbc;
    private final AtomicInteger next = new AtomicInteger();

    public RowChange(Server server) {
        this.jdbc = new JdbcTemplate(server.pool());
        server.execute("CREATE TABLE changed (id int PRIMARY KEY, changes int NOT NULL) WITH (fillfactor = 80)");
        server.execute("INSERT INTO changed SELECT n, 0 FROM generate_series(0, %d) AS n".formatted(DbScheduler.JOBS));
        server.execute("VACUUM ANALYZE changed");
    }

    @Override
    public void run() {
        int id = Math.floorMod(next.getAndIncrement(), DbScheduler.JOBS);
        jdbc.update("UPDATE changed SET changes = changes + 1 WHERE id = ?", id);
    }
}
