// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.cron.ClusterCron;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/** Crons. */
@Component
class Reports {

    private final JdbcClient jdbc;

    Reports(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    @ClusterCron(value = "0 30 2 * * *", name = "nightly-report", zone = "Europe/Berlin")
    void report() {
        jdbc.sql("INSERT INTO orders (customer, status) VALUES ('report', 'done')")
                .update();
    }
}
