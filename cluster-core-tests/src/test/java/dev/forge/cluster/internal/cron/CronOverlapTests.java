// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Slots that meet an unfinished run or a pause. */
@ClusterPostgres
class CronOverlapTests extends AbstractCronTests {

    CronOverlapTests(TestDatabase database) {
        super(database);
    }

    @Test
    void slot_is_skipped_while_the_previous_run_is_running() {
        work.on(cron("report", YEARLY), this::hold);
        startLeader(work);
        due("report", Duration.ofSeconds(10));
        awaitRuns(1);
        await().until(() -> ledger("report").get(0).jobStatus() == JobStatus.RUNNING);
        due("report");
        List<CronRun> rows = ledger("report", 2);
        assertThat(rows.get(1).outcome()).isEqualTo(Outcome.SKIPPED);
        assertThat(rows.get(1).reason())
                .startsWith(
                        "job " + rows.get(0).job() + " of slot " + rows.get(0).slot() + " has been running since ")
                .matches(".*T..:..:..Z");
        release.countDown();
        await().until(() -> ledger("report").get(0).jobStatus() == JobStatus.COMPLETED);
        due("report", Duration.ZERO);
        awaitRuns(2);
    }

    @Test
    void overlapping_cron_runs_beside_its_previous_run() {
        work.on(cron("report", YEARLY).overlapping(), this::hold);
        startLeader(work);
        due("report", Duration.ofSeconds(10));
        awaitRuns(1);
        due("report");
        awaitRuns(2);
        assertThat(ledger("report", 2)).allMatch(row -> row.outcome() == Outcome.RAN);
    }

    @Test
    void catch_up_slot_waits_for_its_predecessor() {
        work.on(cron("report", YEARLY).misfire(Misfire.CATCH_UP, 10), this::hold);
        startLeader(work);
        due("report", Duration.ofSeconds(10));
        awaitRuns(1);
        Instant second = due("report");
        awaitPass();
        ledger("report", 1);
        assertThat(info("report").next()).isEqualTo(second);
        release.countDown();
        awaitRuns(2);
        assertThat(runs.get(1).slot()).isEqualTo(second);
    }

    @Test
    void paused_cron_skips_its_slots() {
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        Member two = start("two", work);
        assertThat(two.crons().pause("report")).isTrue();
        assertThat(two.crons().pause("report")).isFalse();
        assertThat(info("report").paused()).isTrue();
        due("report", Duration.ofHours(1));
        CronRun skipped = ledger("report", 1).get(0);
        assertThat(skipped.outcome()).isEqualTo(Outcome.SKIPPED);
        assertThat(skipped.reason()).isEqualTo("paused");
        assertThat(leader.crons().resume("report")).isTrue();
        assertThat(leader.crons().resume("report")).isFalse();
        due("report");
        awaitRuns(1);
        assertThat(leader.crons().pause("none")).isFalse();
        assertThat(leader.crons().resume("none")).isFalse();
    }

    @Test
    void failed_run_is_replaced_by_the_run_of_the_next_slot() {
        work.backoff = (attempts, failure) -> Duration.ofHours(1);
        work.on(cron("report", YEARLY), context -> {
            recordRun(context);
            throw new IllegalStateException("no paper");
        });
        Member leader = startLeader(work);
        due("report", Duration.ofSeconds(9));
        await().until(() -> count("forge_jobs WHERE status = 'pending' AND attempts = 1") == 1);
        Instant second = due("report", Duration.ofSeconds(6));
        awaitRuns(2);
        assertThat(runs.get(1).slot()).isEqualTo(second);
        CronRun first = ledger("report", 2).get(0);
        assertThat(first.jobStatus()).isEqualTo(JobStatus.CANCELLED);
        assertThat(first.error())
                .startsWith("replaced by the run of a later slot; ")
                .contains("no paper");
        await().until(() -> count("forge_jobs WHERE status = 'pending' AND attempts = 1") == 1);
        assertThat(leader.crons().trigger("report")).isPresent();
        awaitRuns(3);
        assertThat(count("forge_jobs WHERE status = 'cancelled'")).isEqualTo(2);
    }

    @Test
    void catch_up_run_is_retried_before_later_slots_run() {
        work.backoff = (attempts, failure) -> Duration.ofHours(1);
        work.on(cron("report", YEARLY).misfire(Misfire.CATCH_UP, 10), context -> {
            recordRun(context);
            throw new IllegalStateException("no paper");
        });
        Member leader = startLeader(work);
        due("report", Duration.ofSeconds(9));
        await().until(() -> count("forge_jobs WHERE status = 'pending' AND attempts = 1") == 1);
        due("report", Duration.ofSeconds(6));
        awaitPass();
        assertThat(leader.crons().trigger("report")).isEmpty();
        assertThat(ledger("report", 2).get(1).reason()).contains(" retries at ");
        awaitRuns(1);
    }

    @Test
    void leader_whose_slots_are_all_occupied_logs_that_once() {
        for (int i = 0; i < 4; i++) {
            work.on(cron("long-" + i, YEARLY), this::hold);
        }
        Member leader = startLeader(work);
        leader.cronEngine().warnAfter(Duration.ofMillis(1));
        assertThat(warnings(() -> {
                    for (int i = 0; i < 4; i++) {
                        due("long-" + i);
                    }
                    awaitRuns(4);
                    reconcile();
                    reconcile();
                }))
                .hasSize(1)
                .allMatch(
                        text -> text.startsWith("Crons [long-0, long-1, long-2, long-3] have occupied all cron slots"));
    }
}
