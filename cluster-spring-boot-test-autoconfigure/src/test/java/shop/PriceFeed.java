// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import java.time.Duration;
import org.springframework.stereotype.Component;

/** A daemon: one node of the cluster runs it at a time. */
@Component
class PriceFeed {

    @ClusterDaemon(name = "price-feed")
    void follow(DaemonContext daemon) throws InterruptedException {
        while (!daemon.awaitStop(Duration.ofMillis(100))) {
            daemon.note("follows on " + daemon.nodeName());
        }
    }
}
