// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** Verifies cancellations and restarts on request. */
@ClusterPostgres
class JobRestartStoreTests extends JobStoreFixture {

    JobRestartStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void retry_is_refused_while_its_key_is_enqueued_and_the_transaction_continues() throws Exception {
        NewJob first = job("job");
        unique.insertUnique(first, "k", UniquePolicy.KEEP);
        cancels.cancel(first.id(), List.of());
        var threads = Executors.newSingleThreadExecutor();
        try (Connection enqueuer = database.dataSource().getConnection();
                Statement statement = enqueuer.createStatement()) {
            enqueuer.setAutoCommit(false);
            statement.execute("SELECT forge_enqueue('job', unique_key => 'k')");
            Future<Boolean> retried = threads.submit(() -> transactions().execute(status -> {
                boolean restarted = restarts.retry(first.id(), List.of());
                // The conflict has not aborted the transaction.
                jobs.insert(job("after"));
                return restarted;
            }));
            await().until(() -> waiting() == 1);
            enqueuer.commit();
            assertThat(retried.get()).isFalse();
        } finally {
            threads.shutdown();
        }
        assertThat(status(first.id())).isEqualTo("cancelled");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'after'")
                        .query(Long.class)
                        .single())
                .isOne();
        jdbc.sql("DELETE FROM forge_jobs WHERE status = 'pending'").update();
        assertThat(restarts.retry(first.id(), List.of())).isTrue();
    }

    @Test
    void cancellation_ends_pending_and_running_jobs() {
        UUID pending = insert();
        assertThat(cancels.cancel(pending, List.of())).isPresent();
        assertThat(cancels.cancel(pending, List.of())).isEmpty();
        UUID running = insert();
        Claimed claimed = claimOne(one);
        assertThat(cancels.cancel(running, List.of()).orElseThrow().node()).isEqualTo(one);
        assertThat(finishes.finish(one, List.of(completed(claimed, null)))).containsExactly(key(claimed));
        assertThat(status(running)).isEqualTo("cancelled");
        assertThat(restarts.retry(running, List.of())).isTrue();
        assertThat(restarts.retry(running, List.of())).isFalse();
    }

    private long waiting() {
        return jdbc.sql("""
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """).query(Long.class).single();
    }
}
