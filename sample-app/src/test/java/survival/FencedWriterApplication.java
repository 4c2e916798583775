// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.NotLeaderException;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.support.TransactionTemplate;

/** A node that writes its term as fast as possible while it leads. A counter numbers the writes in the order of commits. */
@SpringBootApplication
public class FencedWriterApplication {

    private static final int WRITERS = 4;
    /** The pause between the decision to write and the write, when a freeze does the most harm. */
    private static final Duration THOUGHT = Duration.ofMillis(10);

    public static void main(String[] args) {
        SpringApplication.run(FencedWriterApplication.class, args);
    }

    @Bean
    CommandLineRunner writers(
            Leadership leadership,
            JdbcClient jdbc,
            TransactionTemplate transaction,
            @Value("${fence:true}") boolean fence,
            @Value("${forge.cluster.node.name}") String node) {
        return args -> {
            for (int i = 0; i < WRITERS; i++) {
                var thread = new Thread(() -> {
                    while (true) {
                        try {
                            if (!leadership.isLeader(Leadership.SCHEDULER)) {
                                LockSupport.parkNanos(Duration.ofMillis(2).toNanos());
                            } else if (fence) {
                                leadership.fenced(Leadership.SCHEDULER, () -> write(jdbc, think(leadership), node));
                            } else {
                                long term = think(leadership);
                                transaction.executeWithoutResult(status -> {
                                    // A node that is frozen while it locks the counter row would block all others.
                                    jdbc.sql("SET LOCAL idle_in_transaction_session_timeout = '2s'")
                                            .update();
                                    write(jdbc, term, node);
                                });
                            }
                        } catch (NotLeaderException | DataAccessException | TransactionException e) {
                            // The test provokes rejected writes and lost connections.
                        }
                    }
                });
                thread.setDaemon(true);
                thread.start();
            }
        };
    }

    private static long think(Leadership leadership) {
        long term = leadership
                .term(Leadership.SCHEDULER)
                .orElseThrow(() -> new NotLeaderException("lost before the write"));
        LockSupport.parkNanos(THOUGHT.toNanos());
        return term;
    }

    private static void write(JdbcClient jdbc, long term, String node) {
        // The counter row is locked until the commit, so n follows the order of commits.
        jdbc.sql("""
                WITH next AS (UPDATE counter SET n = n + 1 RETURNING n)
                INSERT INTO history (n, term, node) SELECT n, :term, :node FROM next
                """).param("term", term).param("node", node).update();
    }
}
