// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.autoconfigure.ConditionalOnClusterRole;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.startup.StartupCoordinator;
import java.math.BigDecimal;
import java.util.List;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** The items that can be ordered. */
@RestController
class Items {

    private final JdbcClient jdbc;

    Items(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    record Item(String name, BigDecimal price, long views) {}

    @GetMapping("/items")
    List<Item> list() {
        return jdbc.sql("SELECT name, price, views FROM items ORDER BY name")
                .query(Item.class)
                .list();
    }

    /**
     * Fills the table once in the whole cluster: the first node that starts runs the action, and nodes that start meanwhile
     * wait. Raise the version to run the action again. The action is idempotent, because a crash may make it run twice. Nodes
     * without the role function may not change the cluster and do not run it.
     */
    @Component
    @ConditionalOnClusterRole(NodeRole.FUNCTION)
    static class Seed implements ApplicationRunner {

        private final JdbcClient jdbc;
        private final StartupCoordinator startup;

        Seed(JdbcClient jdbc, StartupCoordinator startup) {
            this.jdbc = jdbc;
            this.startup = startup;
        }

        @Override
        public void run(ApplicationArguments arguments) {
            startup.once("seed-items", "1", this::insert);
        }

        private void insert() {
            jdbc.sql(
                            "INSERT INTO items (name, price) VALUES ('anvil', 100), ('rocket skates', 250) ON CONFLICT DO NOTHING")
                    .update();
        }
    }
}
