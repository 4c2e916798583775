// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.Collection;
import java.util.UUID;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Moves the deadlines of live nodes along with the time: a test that skips days does not mean that they were silent for days. */
final class LiveLeases {

    private final TestDatabase database;
    private final Schema schema;
    private final HeldJobStore jobs;

    LiveLeases(TestDatabase database, Schema schema) {
        this.database = database;
        this.schema = schema;
        this.jobs = new HeldJobStore(schema, database.dataSource());
    }

    /**
     * Moves the deadlines, and the time with them.
     *
     * @param concurrent whether nodes write meanwhile: then no deadline may be written between the two
     */
    void move(Collection<UUID> nodes, Duration duration, boolean concurrent, Runnable moveTime) {
        if (!concurrent) {
            extend(nodes, duration);
            moveTime.run();
            return;
        }
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            database.jdbc().sql("SET LOCAL lock_timeout = '10s'").update();
            database.jdbc()
                    .sql(
                            schema.sql(
                                    "LOCK TABLE ~.forge_nodes, ~.forge_leader_leases, ~.forge_locks IN SHARE ROW EXCLUSIVE MODE"))
                    .update();
            extend(nodes, duration);
            moveTime.run();
            // Claims that were made between the two. The table of jobs is not locked: transactions of the application
            // that
            // enqueue would have to end first.
            jobs.moveLeases(nodes, duration, true);
        });
    }

    private void extend(Collection<UUID> nodes, Duration duration) {
        long micros = duration.toNanos() / 1_000;
        update("""
                UPDATE ~.forge_nodes SET last_heartbeat = last_heartbeat + :micros * interval '1 microsecond',
                    stale_at = stale_at + :micros * interval '1 microsecond',
                    dead_at = dead_at + :micros * interval '1 microsecond'
                WHERE id = ANY (:nodes)
                """, nodes, micros);
        update("""
                UPDATE ~.forge_leader_leases SET lease_until = lease_until + :micros * interval '1 microsecond'
                WHERE node_id = ANY (:nodes)
                """, nodes, micros);
        update("""
                UPDATE ~.forge_locks SET expires_at = expires_at + :micros * interval '1 microsecond'
                WHERE owner_node = ANY (:nodes) AND expires_at > clock_timestamp()
                """, nodes, micros);
        // Skips locked rows: a handler may move the time inside of its own transaction, which has locked the row of its
        // job.
        jobs.moveLeases(nodes, duration, false);
    }

    private void update(String sql, Collection<UUID> nodes, long micros) {
        database.jdbc()
                .sql(schema.sql(sql))
                .param("micros", micros)
                .param("nodes", nodes.toArray(UUID[]::new))
                .update();
    }
}
