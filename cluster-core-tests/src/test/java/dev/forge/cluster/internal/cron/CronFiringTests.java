// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Firing of due slots: exactly once, by misfire policy, in batches. */
@ClusterPostgres
class CronFiringTests extends AbstractCronTests {

    CronFiringTests(TestDatabase database) {
        super(database);
    }

    @Test
    void slot_has_one_ledger_row_and_one_run_in_a_cluster_of_three_nodes() {
        work.on(cron("tick", SECONDLY).overlapping(), this::recordRun);
        Member leader = startLeader(work);
        start("two", work);
        start("three", work);
        await().until(() -> ledger("tick").size() >= 3);
        leader.crons().pause("tick");
        List<CronRun> rows = ran("tick");
        await().until(() -> runs.size() == started(rows).size());
        assertConsecutive(rows);
        assertThat(rows).allMatch(row -> row.term() == cluster.term(Leadership.SCHEDULER));
        assertThat(rows).allMatch(row -> row.job() != null && row.reason() == null);
        assertThat(runs.stream().map(Run::slot).sorted()).isEqualTo(slots(started(rows)));
        assertThat(runs).allMatch(run -> run.node().equals("one"));
        await().until(() -> started(ran("tick")).stream().allMatch(row -> row.jobStatus() == JobStatus.COMPLETED));
    }

    /** Inserts a runtime cron with that many due slots and an incompressible payload of one megabyte. */
    private void makeLargeAndDue(String name, int slots) {
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, handler, target, misfire, overlap, catch_up_limit, declared, payload,
                                         next_fire_at)
                SELECT :name, '* * * * * *', 'mail', 'any-worker', 'catch-up', 'allow', :slots, false,
                       jsonb_build_object('text', string_agg(md5(:name || i), '')),
                       date_trunc('second', clock_timestamp()) - (:slots - 1) * interval '1 second'
                FROM generate_series(1, 31250) AS i
                """).param("name", name).param("slots", slots).update();
    }

    @Test
    void runs_with_large_payloads_are_enqueued_a_few_megabytes_at_a_time() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        jdbc.sql("CREATE TABLE enqueued (bytes bigint)").update();
        jdbc.sql("""
                CREATE FUNCTION measure() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    INSERT INTO enqueued SELECT sum(pg_column_size(payload)) FROM added;
                    RETURN NULL;
                END $$
                """).update();
        jdbc.sql("""
                CREATE TRIGGER measure AFTER INSERT ON forge_jobs REFERENCING NEW TABLE AS added
                FOR EACH STATEMENT EXECUTE FUNCTION measure()
                """).update();
        try {
            new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
                makeLargeAndDue("catching-up", 7);
                for (int i = 0; i < 7; i++) {
                    makeLargeAndDue("large-" + i, 1);
                }
            });
            fireSoon(leader);
            await().until(() -> ran("catching-up").size() >= 7 && count("forge_crons WHERE last_job_id IS NULL") == 0);
        } finally {
            jdbc.sql("DROP FUNCTION measure() CASCADE").update();
        }
        assertConsecutive(ran("catching-up"));
        assertThat(jdbc.sql("SELECT max(bytes) FROM enqueued").query(Long.class).single())
                .as("bytes in one statement with a timeout of five seconds")
                .isLessThan(5_000_000);
    }

    @Test
    void outage_over_two_slots_causes_none_one_or_two_runs_by_misfire_policy() {
        work.ledger = Duration.ofDays(3 * 366);
        for (Misfire misfire : List.of(Misfire.SKIP, Misfire.FIRE_ONCE, Misfire.CATCH_UP)) {
            work.on(cron(misfire.name(), YEARLY).misfire(misfire, 10), this::recordRun);
        }
        startLeader(work);
        int year = now().atOffset(ZoneOffset.UTC).getYear();
        List<Instant> slots = List.of(newYear(year - 1), newYear(year));
        Map.of(Misfire.SKIP, 0, Misfire.FIRE_ONCE, 1, Misfire.CATCH_UP, 2).forEach((misfire, expected) -> {
            String cron = misfire.name();
            due(cron, slots.get(0));
            assertThat(slots(ledger(cron, 2))).isEqualTo(slots);
            assertThat(info(cron).next()).isEqualTo(newYear(year + 1));
            // The latest slots run.
            assertThat(slots(ran(cron))).isEqualTo(slots.subList(2 - expected, 2));
        });
        awaitRuns(3);
        // The oldest slot runs first.
        assertThat(runs.stream()
                        .filter(run -> run.cron().equals("CATCH_UP"))
                        .map(Run::slot)
                        .toList())
                .isEqualTo(slots);
    }

    @Test
    void thousand_due_crons_fire_in_a_few_batches() {
        Member leader = startLeader(work);
        jdbc.sql("INSERT INTO forge_job_pauses VALUES ('report')").update();
        work.on(cron("report", YEARLY).anyWorker(null), this::recordRun);
        start("two", work);
        awaitCron("report");
        jdbc.sql("""
                INSERT INTO forge_crons (name, handler, expression, target, declared, next_fire_at)
                SELECT 'cron ' || n, 'report', '@yearly', 'any-worker', false, now() - interval '1 second'
                FROM generate_series(1, 1000) AS n
                """).update();
        long begin = System.nanoTime();
        fireSoon(leader);
        await().pollInterval(Duration.ofMillis(5)).until(() -> count("forge_cron_runs") == 1000);
        System.out.printf("1000 crons fired in %d ms%n", (System.nanoTime() - begin) / 1_000_000);
        assertThat(count("forge_jobs")).isEqualTo(1000);
        assertThat(jdbc.sql("SELECT count(DISTINCT xmin::text) FROM forge_cron_runs")
                        .query(Long.class)
                        .single())
                .isLessThanOrEqualTo(3);
        assertThat(count("forge_crons WHERE next_fire_at <= now()")).isZero();
    }

    @Test
    void jitter_delays_runs_at_random() {
        work.on(cron("report", YEARLY).jitter(Duration.ofHours(1)).overlapping(), this::recordRun);
        startLeader(work);
        awaitCron("report");
        for (int i = 0; i < 5; i++) {
            due("report", Duration.ofSeconds(20 - i));
            ledger("report", i + 1);
        }
        List<Long> delays = jdbc.sql("""
                SELECT (extract(epoch FROM j.scheduled_at - r.fired_at) * 1000)::bigint
                FROM forge_cron_runs r JOIN forge_jobs j ON j.id = r.job_id
                """).query(Long.class).list();
        assertThat(delays).hasSize(5).allMatch(delay -> delay >= -1000 && delay <= 3_601_000);
        // The probability that all five delays are below a minute is one in a billion.
        assertThat(delays).anyMatch(delay -> delay > 60_000).doesNotHaveDuplicates();
    }
}
