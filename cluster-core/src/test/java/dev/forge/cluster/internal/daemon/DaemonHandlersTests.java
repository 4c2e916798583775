// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class DaemonHandlersTests {

    private final DaemonHandlers handlers = new DaemonHandlers();

    @Test
    void daemon_with_a_thousand_instances_is_accepted() {
        handlers.add(daemon("feed", 1_000));
        assertThat(handlers.all()).extracting(DaemonHandler::instances).containsExactly(1_000);
    }

    @Test
    void daemon_with_more_than_a_thousand_instances_is_refused_at_startup() {
        assertThatExceptionOfType(ClusterStartupException.class)
                .isThrownBy(() -> handlers.add(daemon("feed", 1_001)))
                .withMessage("@ClusterDaemon on Feed.run(): daemon 'feed': instances (1001): must be at most 1000");
        assertThat(handlers.all()).isEmpty();
    }

    private static DaemonHandler daemon(String name, int instances) {
        return new DaemonHandler(
                name,
                DaemonScope.CLUSTER,
                instances,
                new DaemonHandler.Needs(NodeRole.WORKER, null, Duration.ZERO),
                new DaemonHandler.Restarts(Duration.ofSeconds(1), null, false),
                new DaemonHandler.Target(context -> {}, "Feed.run()"));
    }
}
