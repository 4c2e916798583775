// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.Page;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Crons that are created, changed and deleted at run time. */
@ClusterPostgres
class CronRuntimeChangeTests extends AbstractCronTests {

    CronRuntimeChangeTests(TestDatabase database) {
        super(database);
    }

    record Order(String item, int quantity) {}

    @Test
    void delayed_run_is_cancelled_when_its_cron_is_deleted_or_paused() {
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        for (String name : List.of("paused", "deleted")) {
            leader.crons()
                    .create(CronDefinition.cron(name, YEARLY)
                            .withHandler("report")
                            .withJitter(Duration.ofDays(1)));
            due(name);
            ledger(name, 1);
        }
        leader.crons().pause("paused");
        leader.crons().delete("deleted");
        assertThat(count("forge_jobs WHERE status = 'cancelled' AND last_error LIKE 'cron % before the run started'"))
                .isEqualTo(2);
    }

    @Test
    void changes_join_the_transaction_of_the_caller() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        inTransactionThatRollsBack(
                () -> leader.crons().create(CronDefinition.cron("c", YEARLY).withHandler("mail")));
        assertThat(leader.crons().find("c")).isEmpty();
        leader.crons().create(CronDefinition.cron("c", YEARLY).withHandler("mail"));
        inTransactionThatRollsBack(() -> {
            leader.crons().pause("c");
            leader.crons().change(CronDefinition.cron("c", "@daily").withHandler("mail"));
        });
        assertThat(info("c").expression()).isEqualTo(YEARLY);
        assertThat(info("c").paused()).isFalse();
        inTransactionThatRollsBack(() -> leader.crons().delete("c"));
        assertThat(leader.crons().find("c")).isPresent();
    }

    @Test
    void runtime_cron_passes_its_payload_to_the_job() {
        var got = new CopyOnWriteArrayList<Object>();
        work.on(job("mail").taking(Order.class), (payload, context) -> {
            got.add(payload);
            got.add(context.metadata().get("cron"));
            got.add(context.maxAttempts());
            return null;
        });
        startLeader(jobs());
        Member two = cluster.start("two", work, without(NodeRole.SCHEDULER));
        two.crons()
                .create(CronDefinition.cron("mail-berlin", "0 6 * * MON-FRI")
                        .withZone(ZoneId.of("Europe/Berlin"))
                        .withHandler("mail")
                        .withMaxAttempts(7)
                        .withPayload(new Order("anvil", 2)));
        CronInfo made = info("mail-berlin");
        assertThat(made.declared()).isFalse();
        assertThat(made.runnable()).isTrue();
        assertThat(made.handler()).isEqualTo("mail");
        assertThat(made.zone()).isEqualTo("Europe/Berlin");
        assertThat(made.target()).isEqualTo(CronTarget.ANY_WORKER);
        assertThat(made.misfire()).isEqualTo(Misfire.FIRE_ONCE);
        assertThat(made.catchUpLimit()).isEqualTo(10);
        assertThat(made.next())
                .isEqualTo(CronSchedule.of("0 6 * * MON-FRI", "Europe/Berlin").next(now()));
        due("mail-berlin");
        await().until(() -> got.size() == 3);
        assertThat(got).containsExactly(new Order("anvil", 2), "mail-berlin", 7);
        assertThat(two.crons().delete("mail-berlin")).isTrue();
        assertThat(two.crons().delete("mail-berlin")).isFalse();
        assertThat(two.crons().find("mail-berlin")).isEmpty();
        assertThat(two.crons().list(10).items()).isEmpty();
    }

    @Test
    void crons_are_listed_page_by_page() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        for (String name : List.of("a", "b", "c")) {
            leader.crons().create(CronDefinition.cron(name, YEARLY).withHandler("mail"));
        }
        leader.crons().trigger("c");
        Page<CronInfo> first = leader.crons().list(2);
        assertThat(first.items()).extracting(CronInfo::name).containsExactly("a", "b");
        Page<CronInfo> rest = leader.crons().list(2, first.next());
        assertThat(rest.items()).extracting(CronInfo::name).containsExactly("c");
        assertThat(rest.items().get(0).lastRun()).isNotNull();
        assertThat(rest.next()).isNull();
        leader.crons().trigger("c");
        Page<CronRun> latest = leader.crons().runs("c", 1);
        Page<CronRun> older = leader.crons().runs("c", 1, latest.next());
        assertThat(older.items())
                .singleElement()
                .satisfies(run ->
                        assertThat(run.slot()).isBefore(latest.items().get(0).slot()));
        assertThat(leader.crons().runs("c", 1, older.next()).items()).isEmpty();
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> leader.crons().list(1_001))
                .withMessage("Crons.list: limit (1001) must be between 1 and 1000");
    }

    @Test
    void runs_have_the_priority_timeout_and_retention_of_the_definition() {
        work.on(job("mail"), (payload, context) -> {
            new CountDownLatch(1).await();
            return null;
        });
        Member leader = startLeader(work);
        leader.crons()
                .create(CronDefinition.cron("mail-urgent", YEARLY)
                        .withHandler("mail")
                        .withMaxAttempts(1)
                        .withPriority(JobPriority.CRITICAL)
                        .withTimeout(Duration.ofMillis(200))
                        .withRetention(Duration.ofDays(3)));
        UUID run = leader.crons().trigger("mail-urgent").orElseThrow();
        JobInfo ended = leader.ended(run);
        assertThat(ended.status()).isEqualTo(JobStatus.FAILED);
        assertThat(ended.priority()).isEqualTo(JobPriority.CRITICAL.value());
        assertThat(ended.lastError()).contains("longer than 200 ms");
        assertThat(database.jdbc()
                        .sql("SELECT retention = interval '3 days' FROM forge_jobs WHERE id = ?")
                        .param(run)
                        .query(Boolean.class)
                        .single())
                .isTrue();
    }

    @Test
    void default_target_is_that_of_the_cron_method() {
        work.on(cron("anywhere", "-").anyWorker("gpu"), this::hold);
        work.on(cron("led", "-"), this::hold);
        Member leader = startLeader(work);
        leader.crons().create(CronDefinition.cron("a", YEARLY).withHandler("anywhere"));
        leader.crons().create(CronDefinition.cron("b", YEARLY).withHandler("led"));
        assertThat(info("a").target()).isEqualTo(CronTarget.ANY_WORKER);
        assertThat(info("a").capability()).isEqualTo("gpu");
        assertThat(info("b").target()).isEqualTo(CronTarget.LEADER);
        assertThatExceptionOfType(CronRejectedException.class)
                .isThrownBy(() -> leader.crons()
                        .create(CronDefinition.cron("c", YEARLY)
                                .withHandler("led")
                                .withCapability("gpu")))
                .withMessageContaining("capability 'gpu' has no effect");
    }

    @Test
    void cron_method_reads_the_payload_of_a_runtime_cron() {
        var got = new CopyOnWriteArrayList<Optional<Order>>();
        work.on(cron("report", YEARLY), context -> got.add(context.payload(Order.class)));
        Member leader = startLeader(work);
        awaitCron("report");
        leader.crons()
                .create(CronDefinition.cron("berlin", YEARLY)
                        .withHandler("report")
                        .withPayload(new Order("anvil", 2)));
        leader.crons().trigger("berlin");
        await().until(() -> got.size() == 1);
        leader.crons().trigger("report");
        await().until(() -> got.size() == 2);
        assertThat(got).containsExactly(Optional.of(new Order("anvil", 2)), Optional.empty());
    }

    @Test
    void interval_is_stored_in_iso_form() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        leader.crons().create(CronDefinition.cron("c", " @every 90s ").withHandler("mail"));
        assertThat(info("c").expression()).isEqualTo("@every PT1M30S");
    }

    @Test
    void recreated_cron_does_not_overlap_the_run_of_the_deleted_one() {
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        CronDefinition mine = CronDefinition.cron("mine", YEARLY).withHandler("report");
        leader.crons().create(mine);
        Instant ran = due("mine");
        awaitRuns(1);
        leader.crons().delete("mine");
        leader.crons().create(mine);
        assertThat(leader.crons().trigger("mine")).isEmpty();
        // A deleted cron starts anew: its next slot is in the future.
        assertThat(info("mine").next()).isAfter(now());
        assertThat(jdbc.sql("SELECT last_fire_at FROM forge_crons WHERE name = 'mine'")
                        .query(OffsetDateTime.class)
                        .single()
                        .toInstant())
                .isEqualTo(ran);
    }

    @Test
    void cron_created_by_any_node_fires_in_time() {
        work.on(job("mail"), (payload, context) -> {
            runs.add(new Run(context.metadata().get("cron"), context.nodeName(), context.scheduledAt(), 0));
            return null;
        });
        startLeader(work);
        Member two = start("two", work);
        two.crons().create(CronDefinition.every("tick", Duration.ofSeconds(1)).withHandler("mail"));
        await().until(() -> !runs.isEmpty());
        assertThat(two.crons().delete("tick")).isTrue();
    }

    @Test
    void waiting_slots_are_missed_when_the_schedule_changes_and_kept_when_the_payload_changes() {
        work.ledger = Duration.ofDays(3 * 366);
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        CronDefinition definition = CronDefinition.cron("mine", YEARLY)
                .withHandler("report")
                .withMisfire(Misfire.CATCH_UP)
                .withPayload(Map.of("version", 1));
        awaitCron("report");
        leader.crons().create(definition);
        int year = now().atOffset(ZoneOffset.UTC).getYear();
        due("mine", newYear(year - 2));
        awaitRuns(1);
        // Two slots wait for the first one. They stay due while the schedule is unchanged.
        leader.crons().change(definition.withPayload(Map.of("version", 2)));
        assertThat(info("mine").next()).isEqualTo(newYear(year - 1));
        leader.crons().change(CronDefinition.cron("mine", "@monthly").withHandler("report"));
        assertThat(info("mine").next())
                .isEqualTo(CronSchedule.of("@monthly", "UTC").next(now()));
        List<CronRun> rows = ledger("mine", 3);
        assertThat(slots(rows)).containsExactly(newYear(year - 2), newYear(year - 1), newYear(year));
        assertThat(rows.subList(1, 3))
                .allMatch(row -> row.outcome() == Outcome.MISSED && "schedule changed".equals(row.reason()));
        assertThat(info("mine").target()).isEqualTo(CronTarget.LEADER);
    }

    @Test
    void due_slot_is_decided_under_the_old_schedule_when_the_schedule_changes() {
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        leader.crons().create(CronDefinition.cron("mine", YEARLY).withHandler("report"));
        Instant slot = changeWhileDue(leader, CronDefinition.cron("mine", "@monthly"), "report");
        assertThat(info("mine").next())
                .isEqualTo(CronSchedule.of("@monthly", "UTC").next(now()));
        CronRun row = ledger("mine", 1).get(0);
        assertThat(row.slot()).isEqualTo(slot);
        assertThat(row.outcome()).as(row.reason()).isEqualTo(Outcome.RAN);
        awaitRuns(1);
        assertThat(runs.get(0).slot()).isEqualTo(slot);
    }

    @Test
    void due_slot_of_a_paused_cron_is_skipped_when_the_schedule_changes() {
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        leader.crons().create(CronDefinition.cron("mine", YEARLY).withHandler("report"));
        leader.crons().pause("mine");
        changeWhileDue(leader, CronDefinition.cron("mine", "@monthly"), "report");
        CronRun row = ledger("mine", 1).get(0);
        assertThat(row.outcome()).as(row.reason()).isEqualTo(Outcome.SKIPPED);
        assertThat(row.reason()).isEqualTo("paused");
    }

    /**
     * Changes a cron right after its slot became due, in a transaction that began before the slot. Returns the slot. The
     * transaction keeps the row locked, so that the leader cannot decide the slot before the change.
     */
    private Instant changeWhileDue(Member member, CronDefinition changed, String handler) {
        Instant slot = Instant.ofEpochSecond(now().getEpochSecond() + 2);
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            jdbc.sql("UPDATE forge_crons SET next_fire_at = ? WHERE name = ?")
                    .params(slot.atOffset(ZoneOffset.UTC), changed.name())
                    .update();
            jdbc.sql("SELECT pg_sleep_until(?)")
                    .param(slot.atOffset(ZoneOffset.UTC))
                    .query((row, n) -> true)
                    .single();
            member.crons().change(changed.withHandler(handler));
        });
        return slot;
    }
}
