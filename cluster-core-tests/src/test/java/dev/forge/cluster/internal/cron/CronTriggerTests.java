// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Runs that are started with {@code Crons.trigger}. */
@ClusterPostgres
class CronTriggerTests extends AbstractCronTests {

    CronTriggerTests(TestDatabase database) {
        super(database);
    }

    @Test
    void trigger_runs_a_paused_cron_from_any_node() {
        work.on(cron("report", YEARLY), this::recordRun);
        startLeader(work);
        Member two = start("two", work);
        awaitCron("report");
        two.crons().pause("report");
        Instant next = info("report").next();
        UUID job = two.crons().trigger("report").orElseThrow();
        awaitRuns(1);
        CronRun row = ledger("report", 1).get(0);
        assertThat(row.outcome()).isEqualTo(Outcome.RAN);
        assertThat(row.reason()).isEqualTo("triggered");
        assertThat(row.job()).isEqualTo(job);
        assertThat(row.term()).isNull();
        assertThat(runs.get(0).slot()).isEqualTo(row.slot());
        assertThat(info("report").next()).isEqualTo(next);
    }

    @Test
    void trigger_respects_the_overlap_policy() {
        work.on(cron("report", YEARLY), this::hold);
        work.on(cron("beside", YEARLY).overlapping(), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        UUID first = leader.crons().trigger("report").orElseThrow();
        assertThat(leader.crons().trigger("report")).isEmpty();
        CronRun skipped = ledger("report", 2).get(1);
        assertThat(skipped.outcome()).isEqualTo(Outcome.SKIPPED);
        assertThat(skipped.reason()).startsWith("triggered, but job " + first);
        due("report");
        await().until(() -> ledger("report").size() == 3);
        assertThat(ran("report")).hasSize(1);
        assertThat(leader.crons().trigger("beside")).isPresent();
        assertThat(leader.crons().trigger("beside")).isPresent();
        awaitRuns(3);
    }

    @Test
    void concurrent_trigger_sees_the_run_of_the_first() throws Exception {
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        var second = new AtomicReference<Optional<UUID>>();
        var thread = new Thread(() -> second.set(leader.crons().trigger("report")));
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            assertThat(leader.crons().trigger("report")).isPresent();
            thread.start();
            await().until(() ->
                    count("pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%forge_crons%'") > 0);
        });
        thread.join();
        assertThat(second.get()).isEmpty();
        awaitRuns(1);
    }

    @Test
    void trigger_sees_the_run_that_the_leader_enqueues_concurrently() throws Exception {
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        jdbc.sql("CREATE SEQUENCE slowed").update();
        jdbc.sql("""
                CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF NEW.term IS NOT NULL THEN
                        PERFORM nextval('slowed');
                        PERFORM pg_sleep(1);
                    END IF;
                    RETURN NEW;
                END $$
                """).update();
        jdbc.sql("CREATE TRIGGER slow BEFORE INSERT ON forge_cron_runs FOR EACH ROW EXECUTE FUNCTION slow()")
                .update();
        try {
            due("report");
            await().until(() -> jdbc.sql("SELECT is_called FROM slowed")
                    .query(Boolean.class)
                    .single());
            Optional<UUID> triggered = leader.crons().trigger("report");
            // If the leader's connection timed out because this machine stood still, the leader sees the triggered run.
            List<CronRun> rows = ledger("report", 2);
            assertThat(ran("report"))
                    .singleElement()
                    .satisfies(
                            row -> assertThat("triggered".equals(row.reason())).isEqualTo(triggered.isPresent()));
            assertThat(rows).filteredOn(row -> row.outcome() == Outcome.SKIPPED).hasSize(1);
        } finally {
            jdbc.sql("DROP FUNCTION slow() CASCADE").update();
            jdbc.sql("DROP SEQUENCE slowed").update();
        }
        awaitRuns(1);
    }

    @Test
    void trigger_joins_the_transaction_of_the_caller() {
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        inTransactionThatRollsBack(
                () -> assertThat(leader.crons().trigger("report")).isPresent());
        assertThat(count("forge_jobs")).isZero();
        assertThat(count("forge_cron_runs")).isZero();
        // The run starts after the commit.
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            assertThat(leader.crons().trigger("report")).isPresent();
            assertThat(runs).isEmpty();
        });
        awaitRuns(1);
    }
}
