// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.internal.TableReads;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import org.junit.jupiter.api.Test;

/** Outcomes of slots in the ledger, and their retention. */
@ClusterPostgres
class CronLedgerTests extends AbstractCronTests {

    CronLedgerTests(TestDatabase database) {
        super(database);
    }

    @Test
    void slot_in_the_ledger_does_not_run_again() {
        work.on(cron("report", YEARLY), this::recordRun);
        startLeader(work);
        awaitCron("report");
        Instant slot = Instant.ofEpochSecond(now().getEpochSecond() - 5);
        jdbc.sql("INSERT INTO forge_cron_runs (cron, slot, outcome, reason) VALUES ('report', ?, 'skipped', 'by hand')")
                .param(slot.atOffset(ZoneOffset.UTC))
                .update();
        due("report", slot);
        await().until(() -> info("report").next().isAfter(now()));
        assertThat(ledger("report", 1).get(0).reason()).isEqualTo("by hand");
        assertThat(count("forge_jobs")).isZero();
    }

    @Test
    void slot_older_than_the_retention_of_the_ledger_runs() {
        work.ledger = Duration.ofMillis(1);
        work.on(cron("report", YEARLY), this::recordRun);
        startLeader(work);
        Instant slot = due("report", Duration.ofDays(8));
        awaitRuns(1);
        assertThat(runs.get(0).slot()).isEqualTo(slot);
        assertThat(slots(ledger("report", 1))).containsExactly(slot);
    }

    @Test
    void last_run_is_reported_behind_slots_that_did_not_run() {
        work.on(cron("report", YEARLY), context -> {
            throw new NonRetryableJobException("no paper");
        });
        Member leader = startLeader(work);
        Instant ran = due("report", Duration.ofSeconds(9));
        await().until(() -> ledger("report").stream().anyMatch(row -> row.jobStatus() == JobStatus.FAILED));
        leader.crons().pause("report");
        Instant skipped = due("report");
        ledger("report", 2);
        CronRun last = info("report").lastRun();
        assertThat(last.slot()).isEqualTo(ran);
        assertThat(last.jobStatus()).isEqualTo(JobStatus.FAILED);
        assertThat(last.error()).contains("no paper");
        assertThat(last.attempts()).isOne();
        assertThat(last.finishedAt()).isNotNull();
        assertThat(info("report").latest().slot()).isEqualTo(skipped);
    }

    @Test
    void outcome_of_a_run_outlives_its_job() {
        work.on(cron("report", YEARLY), context -> {
            throw new NonRetryableJobException("no paper");
        });
        Member leader = startLeader(work);
        due("report", Duration.ofSeconds(9));
        await().until(() -> ledger("report").stream().anyMatch(row -> row.jobStatus() == JobStatus.FAILED));
        CronRun before = info("report").lastRun();
        // A job of the application with similar metadata must not interfere.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, metadata)
                VALUES (gen_random_uuid(), 'other', 'failed', '{"cron": "report", "slot": "at noon"}')
                """).update();
        assertThat(jdbc.sql("DELETE FROM forge_jobs WHERE status = 'failed'").update())
                .isEqualTo(2);
        assertThat(leader.jobs().find(before.job())).isEmpty();
        assertThat(info("report").lastRun()).isEqualTo(before);
    }

    @Test
    void ledger_and_sets_are_purged_after_their_retention() {
        work.ledger = Duration.ofDays(2);
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        await().until(() -> leader.leadership().isLeader(Leadership.LOG_COMPACTOR));
        awaitCron("report");
        jdbc.sql("""
                INSERT INTO forge_cron_runs (cron, slot, outcome, fired_at)
                SELECT 'report', now() - n * interval '1 second', 'ran', now() - interval '49 hours'
                FROM generate_series(1, 6000) AS n
                UNION ALL SELECT 'report', now(), 'ran', now() - interval '47 hours'
                """).update();
        jdbc.sql("UPDATE forge_cron_sets SET last_seen_at = now() - interval '366 days'")
                .update();
        jdbc.sql("INSERT INTO forge_cron_memories SELECT n, '-', 'UTC', NULL, NULL, NULL, now() - n * interval '1 day'"
                        + " FROM generate_series(364, 366) AS n")
                .update();
        jdbc.sql("""
                INSERT INTO forge_cron_sets (digest, definitions, last_seen_at)
                VALUES ('old', '[]', now() - interval '366 days'), ('recent', '[]', now() - interval '364 days')
                """).update();
        leader.cronEngine().cleanUp();
        assertThat(count("forge_cron_runs")).isOne();
        assertThat(count("forge_cron_memories")).isOne();
        assertThat(jdbc.sql("SELECT digest FROM forge_cron_sets ORDER BY last_seen_at")
                        .query(String.class)
                        .list())
                .hasSize(2)
                .startsWith("recent");
    }

    @Test
    void purge_reads_only_slots_that_it_deletes() {
        jdbc.sql("""
                INSERT INTO forge_cron_runs (cron, slot, outcome, fired_at)
                SELECT 'report', now() + n * interval '1 second', 'skipped',
                       now() - CASE WHEN n <= 100 THEN interval '8 days' ELSE interval '1 day' END
                FROM generate_series(1, 20000) AS n
                """).update();
        jdbc.sql("VACUUM ANALYZE forge_cron_runs").update();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        long read = TableReads.during(
                database,
                "forge_cron_runs",
                source -> assertThat(new CronSlotStore(schema, source).purge(Duration.ofDays(7), 1_000))
                        .isEqualTo(100));
        assertThat(read).isLessThan(1_000);
    }

    /** The statements of the guide. */
    @Test
    void slots_that_were_decided_before_the_clock_was_set_back_run_again_after_the_statements_of_the_guide() {
        work.on(cron("tick", SECONDLY).overlapping(), this::recordRun);
        startLeader(work);
        await().until(() -> !runs.isEmpty());
        jdbc.sql("UPDATE forge_crons SET next_fire_at = next_fire_at + interval '1 hour' WHERE name = 'tick'")
                .update();
        jdbc.sql("""
                INSERT INTO forge_cron_runs (cron, slot, outcome)
                SELECT 'tick', date_trunc('second', now()) + s * interval '1 second', 'ran' FROM generate_series(1, 3600) AS s
                ON CONFLICT DO NOTHING
                """).update();
        jdbc.sql("DELETE FROM forge_cron_runs WHERE slot > now()").update();
        jdbc.sql("UPDATE forge_crons SET next_fire_at = NULL WHERE next_fire_at > now()")
                .update();
        int before = runs.size();
        await().until(() -> runs.size() > before + 2);
    }
}
