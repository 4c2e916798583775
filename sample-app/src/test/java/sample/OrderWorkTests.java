// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Tests the handlers of the sample without waiting: the test runs the jobs and moves the time. */
@ClusterTest
class OrderWorkTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @Autowired
    private Workflows workflows;

    @Autowired
    private JdbcClient jdbc;

    @Test
    void order_that_fails_twice_has_one_entry_in_the_ledger() {
        UUID job = jobs.enqueue(new ProcessOrder(order(), 0L, 2)).id();
        assertThat(cluster.run(job)).hasStatus(JobStatus.PENDING).hasFailed();
        assertThat(cluster.retryUntilFinal(job)).isCompleted().hasAttempts(3);
        assertThat(ledger()).isEqualTo(1);
    }

    @Test
    void order_whose_node_dies_before_the_commit_has_one_entry_in_the_ledger() {
        UUID job = jobs.enqueue(new ProcessOrder(order(), 0L, 0)).id();
        cluster.crashAfterHandler("process-order");
        cluster.run(job);
        assertThat(ledger()).isZero();
        assertThat(cluster.retryUntilFinal(job)).isCompleted();
        assertThat(ledger()).isEqualTo(1);
    }

    @Test
    void checkout_that_nobody_approves_is_undone_after_a_day() {
        UUID run = workflows.start("checkout", new Checkout("anvil", new BigDecimal("987.65")));
        cluster.runAllDue();
        assertThat(cluster.workflow(run))
                .waitsForSignal("approve")
                .waitsUntil(cluster.clock().instant().plus(Duration.ofDays(1)));
        assertThat(cluster.skipWait(run)).hasStatus(WorkflowStatus.COMPENSATED).hasCompensated("charge", "reserve");
        assertThat(entries(run)).containsExactly("reserved", "charged", "refunded", "released");
    }

    private UUID order() {
        UUID id = UUID.randomUUID();
        jdbc.sql("INSERT INTO orders (id, item, quantity) VALUES (?, 'anvil', 1)")
                .param(id)
                .update();
        return id;
    }

    private long ledger() {
        return jdbc.sql("SELECT count(*) FROM ledger").query(Long.class).single();
    }

    private List<String> entries(UUID run) {
        return jdbc.sql("SELECT entry FROM checkout_entries WHERE run_id = ? ORDER BY id")
                .param(run)
                .query(String.class)
                .list();
    }
}
