// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

/** Crons and builds that return after their removal. */
@ClusterPostgres
class CronReturnTests extends AbstractCronTests {

    CronReturnTests(TestDatabase database) {
        super(database);
    }

    @Test
    void returning_cron_continues_after_its_last_decided_slot() {
        jdbc.sql("""
                INSERT INTO forge_cron_memories (name, expression, zone, next_fire_at)
                VALUES ('hourly', '@hourly', 'UTC', date_trunc('hour', now(), 'UTC') - interval '2 hours')
                """).update();
        startLeader(build(cron("hourly", "@hourly").misfire(Misfire.CATCH_UP, 10)));
        await().until(() -> runs.size() >= 3);
        Instant hour = Instant.ofEpochSecond(now().getEpochSecond() / 3600 * 3600);
        assertThat(runs.stream().map(Run::slot).toList())
                .containsSubsequence(hour.minusSeconds(7200), hour.minusSeconds(3600));
    }

    @Test
    void returning_cron_with_another_schedule_starts_at_its_return() {
        startLeader(jobs());
        Member two = start("two", build(cron("report", YEARLY)));
        due("report");
        awaitRuns(1);
        // The node stops before the update, because the leader restores the handler that a live node declares.
        two.stop();
        jdbc.sql(
                        "UPDATE forge_crons SET next_fire_at = now() - interval '3 hours', handler = 'none' WHERE name = 'report'")
                .update();
        reconcileUntil(() -> !names().contains("report"));
        start("three", build(cron("report", "@hourly").misfire(Misfire.CATCH_UP, 10)));
        awaitCron("report");
        assertThat(info("report").next()).isAfter(now());
        awaitPass();
        assertThat(runs).hasSize(1);
    }

    @Test
    void returning_cron_does_not_overlap_its_previous_run() {
        startLeader(jobs());
        var previous = new CopyOnWriteArrayList<Optional<Instant>>();
        TestJobs service = jobs();
        service.on(cron("report", YEARLY), context -> previous.add(context.previousSlot()));
        Member two = start("two", service);
        jdbc.sql("INSERT INTO forge_job_pauses VALUES ('report')").update();
        Instant first = due("report");
        ledger("report", 1);
        // The node leaves, its run stays pending.
        two.stop();
        reconcileUntil(() -> !names().contains("report"));
        start("three", service);
        awaitCron("report");
        due("report", Duration.ofSeconds(1));
        assertThat(ledger("report", 2).get(1).outcome()).isEqualTo(Outcome.SKIPPED);
        jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now()")
                .update();
        jdbc.sql("DELETE FROM forge_job_pauses").update();
        due("report", Duration.ZERO);
        await().until(() -> !previous.isEmpty());
        assertThat(previous).containsExactly(Optional.of(first));
    }

    @Test
    void build_that_returns_after_months_is_still_the_older_one() {
        Member witness = startLeader(jobs());
        Member old = start("old", build(cron("report", YEARLY)));
        awaitCron("report");
        start("recent", build(cron("report", "@daily")));
        await().until(() -> info("report").expression().equals("@daily"));
        old.stop();
        jdbc.sql("""
                UPDATE forge_cron_sets
                SET first_seen_at = first_seen_at - interval '200 days', last_seen_at = last_seen_at - interval '199 days'
                """).update();
        witness.cronEngine().cleanUp();
        start("old again", build(cron("report", YEARLY)));
        reconcile();
        assertThat(info("report").expression()).isEqualTo("@daily");
    }
}
