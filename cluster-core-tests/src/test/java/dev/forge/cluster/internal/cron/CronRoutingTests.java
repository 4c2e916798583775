// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Choice of the node that runs the slots of a cron, and slots that wait for a handler. */
@ClusterPostgres
class CronRoutingTests extends AbstractCronTests {

    CronRoutingTests(TestDatabase database) {
        super(database);
    }

    @Test
    void leader_without_the_worker_role_runs_crons() {
        work.on(cron("report", YEARLY), this::recordRun);
        startLeader("one", work, without(NodeRole.WORKER));
        start("two", work);
        Instant slot = due("report");
        awaitRuns(1);
        assertThat(runs).containsExactly(new Run("report", "one", slot, cluster.term(Leadership.SCHEDULER)));
        assertThat(ledger("report", 1).get(0).outcome()).isEqualTo(Outcome.RAN);
    }

    @Test
    void scheduler_runs_cron_whose_handler_the_leader_lacks() {
        startLeader(jobs());
        work.on(cron("report", YEARLY), this::recordRun);
        cluster.start("worker", work, without(NodeRole.SCHEDULER));
        cluster.start("scheduler", work, without(NodeRole.WORKER));
        due("report");
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("scheduler");
    }

    @Test
    void worker_runs_cron_whose_handler_no_scheduler_has() {
        startLeader(jobs());
        work.on(cron("report", YEARLY), this::recordRun);
        cluster.start("worker", work, without(NodeRole.SCHEDULER));
        due("report");
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("worker");
    }

    @Test
    void run_left_by_an_earlier_leader_moves_to_a_scheduler_with_its_handler() {
        Member leader = startLeader(jobs());
        work.on(cron("report", YEARLY), this::recordRun);
        start("two", work);
        awaitCron("report");
        leader.cronEngine().removeOrphansAfter(Duration.ofMillis(500));
        // A job of a dead node that is released after the new leader has reconciled.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, worker_capability, metadata)
                VALUES (gen_random_uuid(), 'report', '@leader', '{"cron": "report", "slot": "2026-01-01T00:00:00Z"}')
                """).update();
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("two");
    }

    @Test
    void any_worker_cron_runs_on_a_worker_with_its_capability() {
        work.on(cron("report", YEARLY).anyWorker("gpu"), this::recordRun);
        startLeader(work);
        cluster.start("two", work, offering("gpu"));
        due("report");
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("two");
    }

    @Test
    void any_worker_cron_waits_for_a_worker_with_its_handler() {
        work.on(cron("report", YEARLY).anyWorker(null), this::recordRun);
        Member leader = startLeader("one", work, without(NodeRole.WORKER));
        due("report");
        awaitPass();
        assertThat(ledger("report")).isEmpty();
        assertThat(info("report").runnable()).isFalse();
        refused(() -> leader.crons().trigger("report"), "Cron 'report': no live worker has handler 'report'");
        start("two", work);
        awaitRuns(1);
        assertThat(info("report").runnable()).isTrue();
    }

    @Test
    void cron_without_a_handler_is_not_locked_again() {
        startLeader(jobs());
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, declared, next_fire_at)
                VALUES ('nobodys', '@yearly', false, now() - interval '2 minutes')
                """).update();
        awaitPass();
        String touched = locker("nobodys");
        for (int i = 0; i < 5; i++) {
            awaitPass();
        }
        assertThat(locker("nobodys")).isEqualTo(touched);
    }

    /** Returns the last transaction that has locked the row of a cron. */
    private String locker(String cron) {
        return jdbc.sql("SELECT xmax::text FROM forge_crons WHERE name = ?")
                .param(cron)
                .query(String.class)
                .single();
    }

    @Test
    void slot_without_a_handler_waits_and_becomes_a_misfire() {
        Member leader = startLeader(jobs());
        work.on(cron("report", YEARLY).misfire(Misfire.SKIP, 1), this::recordRun);
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, misfire, declared, next_fire_at)
                VALUES ('report', '@yearly', 'skip', false, now() - interval '2 minutes')
                """).update();
        awaitPass();
        assertThat(ledger("report")).isEmpty();
        assertThat(leader.crons().find("report").orElseThrow().runnable()).isFalse();
        start("two", work);
        List<CronRun> rows = ledger("report", 1);
        assertThat(rows.get(0).outcome()).isEqualTo(Outcome.MISSED);
        assertThat(rows.get(0).reason()).endsWith("s late; misfire skip");
        assertThat(runs).isEmpty();
    }
}
