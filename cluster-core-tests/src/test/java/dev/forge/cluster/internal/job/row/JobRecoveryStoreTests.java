// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.CrashRule;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.Recovered;
import dev.forge.cluster.internal.node.NodeStore.SeenNode;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Recovery of jobs from dead or silent nodes. */
@ClusterPostgres
class JobRecoveryStoreTests extends JobStoreFixture {

    JobRecoveryStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void expired_lease_returns_the_job_without_a_counted_attempt() {
        UUID id = insert();
        claimOne(one);
        assertThat(recoveries.sweep(REQUEUE, overdue(false))).isEmpty();
        age("lease_expires_at", "2 minutes");
        assertThat(recoveries.sweep(REQUEUE, overdue(true)))
                .as("sweep in the grace period")
                .isEmpty();
        List<Recovered> recovered = recoveries.sweep(REQUEUE, overdue(false));
        assertThat(recovered).singleElement().satisfies(job -> {
            assertThat(job.id()).isEqualTo(id);
            assertThat(job.node()).isEqualTo(one);
            assertThat(job.status()).isEqualTo(JobStatus.PENDING);
            assertThat(job.recoveries()).isOne();
        });
        assertThat(column(id, "attempts", Integer.class)).isZero();
    }

    @Test
    void jobs_of_a_vanished_node_are_recovered_during_grace() {
        UUID id = insert();
        claims.claim(QUEUE, Mark.UNMARKED, new Claiming(one, 1, 1, 10, null));
        assertThat(column(id, "lease_expires_at = 'infinity'", Boolean.class)).isTrue();
        assertThat(recoveries.sweep(REQUEUE, overdue(true))).isEmpty();
        jdbc.sql("DELETE FROM forge_nodes WHERE id = ?").param(one).update();
        assertThat(recoveries.sweep(REQUEUE, overdue(true))).hasSize(1);
    }

    @Test
    void jobs_of_a_dead_node_are_recovered_when_it_is_declared_dead() {
        UUID id = insert();
        claimOne(one);
        var crash = new CrashRule(false, 10, 0);
        nodes().inShortTransaction(() -> {
            assertThat(nodes().declareDead(new SeenNode(one, 0))).isTrue();
            return recoveries.recoverFrom(one, crash, 1_000);
        });
        assertThat(status(id)).isEqualTo("abandoned");
    }

    @Test
    void unstarted_claim_is_returned_without_a_counted_attempt_or_recovery() {
        UUID id = insert();
        claims.claim(QUEUE, Mark.UNMARKED, new Claiming(one, 1, 0, 10, LEASE));
        age("claimed_at", "6 minutes");
        assertThat(recoveries.sweep(REQUEUE, overdue(false))).hasSize(1);
        assertThat(column(id, "recoveries", Integer.class)).isZero();
        assertThat(column(id, "attempts", Integer.class)).isZero();
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
        assertThat(claim(two, 1)).hasSize(1);
    }

    @Test
    void claims_unknown_to_their_node_are_released() {
        IntStream.range(0, 3).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 3);
        UUID known = claimed.get(0).id();
        assertThat(recoveries.returnUnknown(one, List.of(known), Duration.ofSeconds(15)))
                .as("released claims that are in progress")
                .isZero();
        jdbc.sql("UPDATE forge_jobs SET claimed_at = claimed_at - interval '1 minute'")
                .update();
        assertThat(recoveries.returnUnknown(one, List.of(known), Duration.ofSeconds(15)))
                .isEqualTo(2);
        assertThat(status(known)).isEqualTo("running");
        assertThat(claim(two, 3))
                .hasSize(2)
                .allSatisfy(job -> assertThat(job.attempt()).isOne());
    }

    @Test
    void max_attempts_of_the_handler_apply_to_recovery_by_other_nodes() {
        UUID id = insert();
        claims.claim(QUEUE, Mark.UNMARKED, new Claiming(one, 1, 1, 1, LEASE));
        age("lease_expires_at", "2 minutes");
        recoveries.sweep(new CrashRule(true, 10, 0), overdue(false));
        assertThat(status(id)).isEqualTo("failed");
    }

    @Test
    void crashing_job_is_abandoned_after_its_last_recovery() {
        UUID id = insert();
        for (int crash = 1; crash <= 4; crash++) {
            jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
            assertThat(claim(one, 1)).hasSize(1);
            age("lease_expires_at", "2 minutes");
            assertThat(recoveries.sweep(REQUEUE, overdue(false))).hasSize(1);
            assertThat(status(id)).isEqualTo(crash <= 3 ? "pending" : "abandoned");
        }
        assertThat(column(id, "last_error", String.class)).contains("max-recoveries");
        assertThat(restarts.retry(id, List.of())).isTrue();
        assertThat(claim(one, 1)).hasSize(1);
    }

    @Test
    void crash_is_a_failed_attempt_under_the_policy_fail() {
        var fail = new CrashRule(true, 2, 0);
        UUID id = insert();
        for (int crash = 1; crash <= 2; crash++) {
            jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
            assertThat(claims.claim(QUEUE, Mark.UNMARKED, new Claiming(one, 1, 1, 2, LEASE)))
                    .singleElement()
                    .extracting(Claimed::attempt)
                    .isEqualTo(crash);
            age("lease_expires_at", "2 minutes");
            recoveries.sweep(fail, overdue(false));
        }
        assertThat(status(id)).isEqualTo("failed");
    }

    @Test
    void infinite_heartbeat_blocks_no_recovery() {
        IntStream.range(0, 2).forEach(i -> insert());
        UUID first = claim(one, 2).get(0).id();
        jdbc.sql("UPDATE forge_jobs SET last_heartbeat = 'infinity'").update();
        jdbc.sql("UPDATE forge_jobs SET lease_expires_at = '-infinity' WHERE id = ?")
                .param(first)
                .update();
        assertThat(recoveries.sweep(REQUEUE, overdue(false))).hasSize(1);
        assertThat(recoveries.recoverFrom(one, REQUEUE, 1_000)).hasSize(1);
    }

    @Test
    void attempts_reset_by_an_operator_block_no_sweep() {
        UUID id = insert();
        UUID neighbour = insert();
        claim(one, 10);
        jdbc.sql("UPDATE forge_jobs SET attempts = 0 WHERE id = ?").param(id).update();
        age("lease_expires_at", "2 minutes");
        assertThat(recoveries.sweep(REQUEUE, overdue(false)))
                .extracting(Recovered::id)
                .containsExactlyInAnyOrder(id, neighbour);
        assertThat(column(id, "attempts", Integer.class)).isZero();
    }
}
