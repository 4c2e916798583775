// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import java.time.Duration;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/** Writes five ticks a second on one node of the cluster. */
@Component
class PriceFeed {

    private static final Duration INTERVAL = Duration.ofMillis(200);
    private static final int TICKS_PER_MINUTE = 300;

    private final JdbcClient jdbc;

    PriceFeed(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    /** Writes ticks with the fence: a tick is committed only in the current term, even after a freeze of this process. */
    @ClusterDaemon
    void priceFeed(DaemonContext feed) throws InterruptedException {
        for (long tick = 1; !feed.awaitStop(INTERVAL); tick++) {
            long seq = tick;
            feed.fenced(() -> jdbc.sql("INSERT INTO price_ticks (node, term, seq) VALUES (?, ?, ?)")
                    .params(feed.nodeName(), feed.term(), seq)
                    .update());
            feed.note(seq + " ticks");
            if (seq % TICKS_PER_MINUTE == 0) {
                feed.fenced(() -> jdbc.sql("DELETE FROM price_ticks WHERE at < now() - interval '1 hour'")
                        .update());
            }
        }
    }
}
