// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package feed;

import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The price feed without the fence, to show that the fence is needed. It only checks before each tick whether to stop. */
@SpringBootApplication
public class UnfencedFeedApplication {

    /** The pause between the decision to write and the write, when a freeze does the most harm. */
    private static final Duration THOUGHT = Duration.ofMillis(100);

    public static void main(String[] args) {
        SpringApplication.run(UnfencedFeedApplication.class, args);
    }

    @Bean
    Feed feed(JdbcClient jdbc) {
        return new Feed(jdbc);
    }

    /** The unfenced daemon. */
    public static class Feed {

        private final JdbcClient jdbc;

        Feed(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterDaemon(name = "price-feed")
        void write(DaemonContext feed) throws InterruptedException {
            for (long tick = 1; !feed.awaitStop(Duration.ofMillis(1)); tick++) {
                LockSupport.parkNanos(THOUGHT.toNanos());
                jdbc.sql("INSERT INTO price_ticks (node, term, seq) VALUES (?, ?, ?)")
                        .params(feed.nodeName(), feed.term(), tick)
                        .update();
            }
        }
    }
}
