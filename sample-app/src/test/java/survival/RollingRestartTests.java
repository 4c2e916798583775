// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import sample.SampleApplication;

/** Checks that no request fails during a rolling restart under load. */
@ClusterPostgres(migrated = false)
class RollingRestartTests {

    private static final Duration START = Duration.ofSeconds(90);
    private static final int ORDERS_PER_SECOND = 100;

    private static AppProcess start(TestDatabase database, String name) {
        return AppProcess.of(SampleApplication.class)
                .database(database)
                .property("forge.cluster.node.name", name)
                .property("spring.datasource.hikari.maximum-pool-size", 8)
                .property("forge.cluster.worker.max-concurrent-jobs", 4)
                .start();
    }

    @Test
    @Tag("soak")
    void three_nodes_restart_one_after_the_other_under_load_and_no_request_fails() {
        try (TestDatabase database = PostgresServer.shared().createEmptyDatabase("rolling")) {
            List<AppProcess> nodes = new ArrayList<>();
            try {
                for (String name : List.of("a", "b", "c")) {
                    nodes.add(start(database, name));
                }
                nodes.forEach(node -> node.awaitReady(START));
                var traffic = new OrderTraffic(nodes, ORDERS_PER_SECOND);
                for (int i = 0; i < 3; i++) {
                    AppProcess leaving = nodes.get(i);
                    leaving.terminate();
                    leaving.awaitExit(Duration.ofSeconds(60));
                    traffic.remove(leaving);
                    AppProcess next = start(database, "next-" + i);
                    nodes.set(i, next);
                    leaving.close();
                    next.awaitReady(START);
                    traffic.add(next);
                }
                traffic.close();
                await().until(() -> database.jdbc()
                                .sql("SELECT count(*) FROM forge_jobs WHERE status <> 'completed'")
                                .query(Long.class)
                                .single()
                        == 0);
                List<String> processed = database.jdbc()
                        .sql("SELECT order_id::text FROM ledger")
                        .query(String.class)
                        .list();
                System.out.printf(
                        "rolling restart of 3 nodes: %d orders acknowledged, %d requests failed %s, %d ledger rows%n",
                        traffic.acknowledged.size(),
                        traffic.failures.size(),
                        traffic.failures.stream().limit(3).toList(),
                        processed.size());
                assertThat(traffic.failures).isEmpty();
                assertThat(processed).doesNotHaveDuplicates().containsExactlyInAnyOrderElementsOf(traffic.acknowledged);
            } finally {
                nodes.forEach(AppProcess::close);
            }
        }
    }
}
