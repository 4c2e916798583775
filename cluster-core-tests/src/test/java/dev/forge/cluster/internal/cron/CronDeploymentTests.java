// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Reconciliation of the table with the crons that live builds declare. */
@ClusterPostgres
class CronDeploymentTests extends AbstractCronTests {

    CronDeploymentTests(TestDatabase database) {
        super(database);
    }

    @ParameterizedTest
    @CsvSource({"true", "false"})
    void rolling_deployment_adds_changes_and_removes_crons(boolean oldLeads) {
        TestJobs old = build(cron("kept", YEARLY), cron("changed", YEARLY), cron("removed", YEARLY));
        TestJobs recent = build(cron("kept", YEARLY), cron("changed", "@daily"), cron("added", YEARLY));
        Member one = startLeader(old);
        Member witness = start("witness", jobs());
        await().until(() -> names().equals(List.of("changed", "kept", "removed")));
        Member two = start("two", recent);
        await().until(() -> names().contains("added"));
        if (!oldLeads) {
            one.leadership().leave(Leadership.SCHEDULER);
            witness.leadership().leave(Leadership.SCHEDULER);
            await().until(() -> two.leadership().isLeader(Leadership.SCHEDULER));
        }
        reconcile();
        assertThat(names()).containsExactly("added", "changed", "kept", "removed");
        assertThat(info("changed").expression()).isEqualTo("@daily");
        // A node of the old build that starts beside the new one changes nothing.
        Member again = start("one again", old);
        one.stop();
        reconcile();
        assertThat(names()).containsExactly("added", "changed", "kept", "removed");
        assertThat(info("changed").expression()).isEqualTo("@daily");
        // The last node of the old build leaves.
        again.stop();
        witness.leadership().join(Leadership.SCHEDULER);
        reconcileUntil(() -> !names().contains("removed"));
        assertThat(names()).containsExactly("added", "changed", "kept");
        two.stop();
        reconcileUntil(() -> names().isEmpty());
    }

    @Test
    void services_that_share_a_schema_run_their_own_crons() {
        startLeader("orders", build(cron("orders-report", YEARLY)), UnaryOperator.identity());
        start("billing", build(cron("billing-report", YEARLY)));
        awaitCron("billing-report");
        reconcile();
        assertThat(names()).containsExactly("billing-report", "orders-report");
        due("orders-report");
        due("billing-report");
        awaitRuns(2);
        assertThat(runs)
                .extracting(Run::cron, Run::node)
                .containsExactlyInAnyOrder(tuple("orders-report", "orders"), tuple("billing-report", "billing"));
    }

    @Test
    void lasting_difference_between_builds_is_logged_once() {
        Member leader = startLeader("orders", build(cron("clean-up", "@hourly")), UnaryOperator.identity());
        leader.cronEngine().warnAfter(Duration.ofMillis(1));
        awaitCron("clean-up");
        assertThat(warnings(() -> {
                    start("billing", build(cron("clean-up", "@daily"), cron("other", YEARLY)));
                    await().until(() -> info("clean-up").expression().equals("@daily"));
                    reconcile();
                    reconcile();
                }))
                .containsOnlyOnce(
                        "Crons [clean-up]: live builds have declared them differently for 0 s; the newest build counts."
                                + " If these are different applications, give the crons different names.");
    }

    @Test
    void jitter_that_reaches_the_next_slot_is_logged() {
        assertThat(warnings(() -> {
                    startLeader(build(
                            cron("wide", "@hourly").jitter(Duration.ofHours(2)),
                            cron("narrow", "@hourly").jitter(Duration.ofMinutes(1))));
                    awaitCron("wide");
                }))
                .hasSize(1)
                .allMatch(text -> text.startsWith("Cron wide: jitter of 7200000 ms reaches the next slot"));
    }

    @Test
    void paused_orphan_stays_until_it_is_resumed() {
        Member one = startLeader(jobs());
        Member two = start("two", build(cron("report", YEARLY)));
        awaitCron("report");
        one.crons().pause("report");
        two.stop();
        reconcile();
        assertThat(names()).containsExactly("report");
        one.crons().resume("report");
        // Resuming notifies the leader, which removes the orphan.
        await().until(() -> names().isEmpty());
    }

    @Test
    void no_cron_is_removed_while_the_declarations_of_a_node_are_missing() {
        Member one = startLeader(jobs());
        Member two = start("two", build(cron("report", YEARLY)));
        awaitCron("report");
        jdbc.sql("UPDATE forge_nodes SET info = info || '{\"crons\": \"unheard of\"}' WHERE name = 'two'")
                .update();
        for (int i = 0; i < 4; i++) {
            one.cronEngine().removeOrphansAfter(Duration.ofMillis(1));
            one.cronEngine().heard(CronEngine.CRONS_CHANGED);
            awaitPass();
        }
        assertThat(names()).containsExactly("report");
        two.stop();
        reconcileUntil(() -> names().isEmpty());
    }

    @Test
    void unreadable_declarations_change_no_cron_and_do_not_keep_others_from_firing() {
        startLeader(build(cron("report", YEARLY)));
        awaitCron("report");
        assertThat(warnings(() -> {
                    // As written by a newer version that has one more target.
                    jdbc.sql("""
                            UPDATE forge_cron_sets SET definitions = jsonb_set(definitions, '{0,target}', '"everyone"')
                            """).update();
                    for (int i = 0; i < 3; i++) {
                        cluster.members().get(0).cronEngine().heard(CronEngine.CRONS_CHANGED);
                        awaitPass();
                    }
                }))
                .hasSize(1)
                .allMatch(text -> text.startsWith("Crons: definitions could not be brought in line"));
        due("report");
        awaitRuns(1);
        assertThat(info("report").target()).isEqualTo(CronTarget.LEADER);
    }

    @Test
    void slots_without_a_handler_are_missed_when_a_build_changes_the_schedule() {
        TestJobs old = build(cron("report", YEARLY), cron("broken", YEARLY));
        old.ledger = Duration.ofDays(3 * 366);
        Member leader = startLeader(old);
        awaitCron("report");
        awaitReconciled(1);
        jdbc.sql("UPDATE forge_crons SET handler = 'unknown', expression = '@yearly' WHERE name = 'report'")
                .update();
        jdbc.sql("UPDATE forge_crons SET handler = 'unknown', expression = 'broken' WHERE name = 'broken'")
                .update();
        int year = now().atOffset(ZoneOffset.UTC).getYear();
        due("report", newYear(year - 1));
        due("broken", newYear(year));
        start("two", build(cron("report", "@monthly"), cron("broken", "@monthly")));
        await().until(() -> info("report").expression().equals("@monthly"));
        assertThat(info("broken").expression()).isEqualTo("@monthly");
        List<CronRun> rows = ledger("report", 2);
        assertThat(slots(rows)).containsExactly(newYear(year - 1), newYear(year));
        assertThat(rows).allMatch(row -> row.outcome() == Outcome.MISSED && "schedule changed".equals(row.reason()));
        assertThat(info("report").next())
                .isEqualTo(CronSchedule.of("@monthly", "UTC").next(now()));
        assertThat(leader.crons().find("broken").orElseThrow().next()).isAfter(now());
    }

    @Test
    void due_slot_is_decided_under_the_old_schedule_when_a_build_changes_the_schedule() throws Exception {
        startLeader(build(cron("report", YEARLY)));
        awaitCron("report");
        Instant slot = Instant.ofEpochSecond(now().getEpochSecond() - 1);
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            // While the row is locked, the leader neither fires the cron nor changes it.
            connection
                    .createStatement()
                    .execute("UPDATE forge_crons SET next_fire_at = '%s' WHERE name = 'report'".formatted(slot));
            start("two", build(cron("report", "@monthly"), cron("other", YEARLY)));
            awaitCron("other");
            connection.commit();
        }
        await().until(() -> info("report").expression().equals("@monthly"));
        assertThat(ledger("report", 1).get(0).outcome()).isEqualTo(Outcome.RAN);
        awaitRuns(1);
        assertThat(runs.get(0).slot()).isEqualTo(slot);
    }

    @Test
    void slot_that_becomes_due_during_the_reconciliation_is_decided_under_the_old_schedule() throws Exception {
        Member leader = startLeader(build(cron("report", YEARLY)));
        leader.cronEngine().removeOrphansAfter(Duration.ofMillis(1));
        awaitCron("report");
        Instant slot = Instant.ofEpochSecond(now().getEpochSecond() - 1);
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            // The leader leaves "report" unchanged, and its removal of "orphan" waits: by then it has read all crons.
            connection.createStatement().execute("SELECT FROM forge_crons WHERE name = 'report' FOR UPDATE");
            connection
                    .createStatement()
                    .execute("INSERT INTO forge_cron_memories (name, expression, zone) VALUES ('orphan', '-', 'UTC')");
            jdbc.sql("INSERT INTO forge_crons (name, expression, declared) VALUES ('orphan', '-', true)")
                    .update();
            start("two", build(cron("report", "@monthly")));
            await().until(() -> {
                leader.cronEngine().heard(CronEngine.CRONS_CHANGED);
                return count("pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%forge_cron_memories%'"
                                + " AND datname = current_database()")
                        > 0;
            });
            connection
                    .createStatement()
                    .execute("UPDATE forge_crons SET next_fire_at = '%s' WHERE name = 'report'".formatted(slot));
            connection.commit();
        }
        await().until(() -> info("report").expression().equals("@monthly"));
        assertThat(slots(ledger("report", 1))).containsExactly(slot);
        awaitRuns(1);
    }

    @Test
    void runtime_cron_takes_precedence_over_a_declared_one_of_the_same_name() {
        work.on("mail", context -> {});
        Member one = startLeader(work);
        one.crons().create(CronDefinition.cron("report", "@daily").withHandler("mail"));
        start("two", build(cron("report", YEARLY), cron("other", YEARLY)));
        awaitCron("other");
        assertThat(info("report").declared()).isFalse();
        assertThat(info("report").expression()).isEqualTo("@daily");
        one.crons().delete("report");
        reconcileUntil(
                () -> one.crons().find("report").filter(CronInfo::declared).isPresent());
    }

    @Test
    void declared_options_are_stored_in_the_row() {
        Member leader = startLeader(build(cron("report", "0 6 * * *")
                .anyWorker("gpu")
                .misfire(Misfire.CATCH_UP, 7)
                .jitter(Duration.ofSeconds(3))));
        awaitCron("report");
        CronInfo info = leader.crons().find("report").orElseThrow();
        assertThat(info)
                .isEqualTo(new CronInfo(
                        "report",
                        true,
                        "report",
                        "0 6 * * *",
                        "UTC",
                        CronTarget.ANY_WORKER,
                        "gpu",
                        Misfire.CATCH_UP,
                        7,
                        Overlap.SKIP,
                        Duration.ofSeconds(3),
                        null,
                        false,
                        CronSchedule.of("0 6 * * *", "UTC").next(now()),
                        true,
                        null,
                        null,
                        null));
    }
}
