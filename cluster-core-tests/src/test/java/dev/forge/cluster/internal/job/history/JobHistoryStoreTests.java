// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.history.JobHistoryCounters.Batch;
import dev.forge.cluster.internal.job.history.JobHistoryStore.Sample;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobHistory;
import dev.forge.cluster.job.operations.JobHistory.Point;
import dev.forge.cluster.job.operations.JobHistoryQuery;
import dev.forge.cluster.job.operations.JobSummary;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The table of the history. */
@ClusterPostgres
class JobHistoryStoreTests {

    private static final Duration DAY = Duration.ofDays(1);

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final JobHistoryStore store;
    private final JobHistoryReports reports;
    private final JobHistoryCounters counters = new JobHistoryCounters();

    JobHistoryStoreTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        this.store = new JobHistoryStore(schema, database.dataSource());
        this.reports = new JobHistoryReports(schema, database.dataSource());
    }

    @BeforeEach
    void clear() {
        database.clear();
    }

    private void write() {
        Batch batch = counters.unwritten();
        assertThat(store.add(batch.rows())).isInstanceOf(JobHistoryStore.Written.class);
        counters.written(batch);
    }

    private void ran(String name, Duration waited, Duration ran) {
        counters.started(name, waited);
        counters.ended(name, Kind.COMPLETED, ran.toNanos());
    }

    /** Moves the rows of the present into the past. */
    private void age(Duration age) {
        jdbc.sql("""
                UPDATE forge_job_history SET slot = date_bin('1 minute', now() - ? * interval '1 second', '2000-01-01')
                WHERE slot > now() - interval '5 minutes'
                """).param(age.toSeconds()).update();
    }

    private long rows(int minutes) {
        return jdbc.sql("SELECT count(*) FROM forge_job_history WHERE minutes = ?")
                .param(minutes)
                .query(Long.class)
                .single();
    }

    private static Point total(JobHistory history) {
        return history.points().stream()
                .filter(point -> point.ended() > 0 || point.retried() > 0)
                .findFirst()
                .orElseThrow();
    }

    @Test
    void roll_up_keeps_sums_and_percentiles() {
        for (int minute = 0; minute < 25; minute++) {
            for (int i = 0; i <= minute; i++) {
                ran("mail", Duration.ofMillis(20 + i), Duration.ofMillis(5L * (minute + 1)));
                ran("report", Duration.ofMillis(1), Duration.ofSeconds(minute));
            }
            counters.ended("mail", Kind.RETRIED, 7);
            counters.failed(UUID.randomUUID(), "mail", JobStatus.FAILED, "boom");
            write();
            store.sample(List.of(
                    new Sample("", minute, Duration.ofSeconds(minute), 2),
                    new Sample("mail", minute, Duration.ofSeconds(minute), 1)));
            age(Duration.ofHours(7).plusMinutes(minute));
        }
        assertThat(rows(1)).isEqualTo(75);
        List<JobSummary> before = reports.summaries(DAY);
        assertThat(before).hasSize(2);
        assertThat(before.get(0).completed()).isEqualTo(325);
        assertThat(before.get(0).failed()).isEqualTo(25);
        // In several statements, which share slots of ten minutes.
        while (store.rollUp(10) > 0) {
            assertThat(reports.summaries(DAY)).isEqualTo(before);
        }
        assertThat(rows(1)).isZero();
        assertThat(rows(10)).isBetween(9L, 12L);
        assertThat(jdbc.sql(
                                "SELECT max(due) || ' ' || max(oldest_due_millis) || ' ' || max(running) FROM forge_job_history"
                                        + " WHERE name = 'mail'")
                        .query(String.class)
                        .single())
                .isEqualTo("24 24000 1");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_job_history WHERE extract(epoch FROM slot)::bigint % 600 <> 0")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void minutes_of_the_last_six_hours_are_kept() {
        ran("mail", Duration.ZERO, Duration.ZERO);
        write();
        // The minute may change before the history is read.
        age(Duration.ofHours(6).minusMinutes(2));
        assertThat(store.rollUp(100)).isZero();
        assertThat(rows(1)).isEqualTo(2);
        List<Point> points =
                reports.read(JobHistoryQuery.last(Duration.ofHours(6))).points();
        assertThat(points.get(0).completed() + points.get(1).completed()).isOne();
    }

    @Test
    void rows_are_deleted_after_their_retention() {
        jdbc.sql("""
                INSERT INTO forge_job_history (name, slot, minutes, completed)
                SELECT 'mail', now() - n * interval '1 day', 10, 1 FROM generate_series(1, 10) AS n
                """).update();
        assertThat(store.purge(Duration.ofDays(7).plusHours(1), 2)).isEqualTo(2);
        assertThat(store.purge(Duration.ofDays(7).plusHours(1), 2)).isOne();
        assertThat(rows(10)).isEqualTo(7);
    }

    @Test
    void names_in_any_order_do_not_deadlock_and_add_up() throws InterruptedException {
        Runnable writes = () -> {
            var own = new JobHistoryCounters();
            for (int i = 0; i < 50; i++) {
                for (int n = 0; n < 20; n++) {
                    own.ended("name-" + n, Kind.COMPLETED, n * 1_000_000L);
                }
                Batch batch = own.unwritten();
                store.add(batch.rows());
                own.written(batch);
            }
        };
        var other = new Thread(writes);
        other.start();
        writes.run();
        other.join();
        assertThat(reports.summaries(DAY)).hasSize(20).allMatch(one -> one.completed() == 100);
        assertThat(total(reports.read(JobHistoryQuery.last(Duration.ofMinutes(1))))
                        .completed())
                .isPositive();
    }

    @Test
    void large_numbers_do_not_overflow() {
        jdbc.sql("""
                INSERT INTO forge_job_history (name, slot, minutes, waits)
                VALUES ('mail', date_bin('1 minute', now(), '2000-01-01'), 1, '{2147483647}')
                """).update();
        counters.started("mail", Duration.ZERO);
        write();
        assertThat(jdbc.sql("SELECT max(waits[1]) FROM forge_job_history")
                        .query(Long.class)
                        .single())
                .isEqualTo(Integer.MAX_VALUE);
    }

    // Reading -----------------------------------------------------------------------------------------------

    @ParameterizedTest
    @CsvSource({
        "PT1M, PT1M, 1",
        "PT1H, PT1M, 60",
        "PT6H, PT1M, 360",
        "PT6H1M, PT10M, 37",
        "PT24H, PT10M, 144",
        "PT60H, PT10M, 360",
        "PT168H, PT30M, 336",
        "PT2160H, PT6H, 360"
    })
    void step_follows_from_the_range(Duration range, Duration step, int points) {
        JobHistory history = reports.read(JobHistoryQuery.last(range));
        assertThat(history.step()).isEqualTo(step);
        assertThat(history.points()).hasSize(points);
        assertThat(history.points().get(0).at().getEpochSecond() % step.toSeconds())
                .isZero();
        assertThat(history.points())
                .allMatch(point -> point.backlog() == null && point.waiting() == null && point.completed() == 0);
    }

    @Test
    void history_knows_since_when_anything_is_recorded() {
        assertThat(reports.read(JobHistoryQuery.last(Duration.ofHours(1))).since())
                .isNull();
        jdbc.sql("""
                INSERT INTO forge_job_history (name, slot, minutes, completed)
                VALUES ('', '2026-01-01 00:00:00Z', 10, 1), ('', '2026-01-02 00:00:00Z', 10, 1)
                """).update();
        assertThat(reports.read(JobHistoryQuery.last(Duration.ofHours(1)).withName("mail"))
                        .since())
                .isEqualTo(Instant.parse("2026-01-01T00:00:00Z"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"PT59S", "PT2161H"})
    void range_outside_of_its_bounds_is_refused(Duration range) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> JobHistoryQuery.last(range))
                .withMessageContaining("JobHistoryQuery.last: range (%s) must be between", range);
    }

    @Test
    void history_of_one_name_contains_no_other_jobs() {
        ran("mail", Duration.ofMillis(100), Duration.ofSeconds(2));
        ran("report", Duration.ofSeconds(10), Duration.ofSeconds(20));
        ran("report", Duration.ofSeconds(10), Duration.ofSeconds(20));
        write();
        Point mail =
                total(reports.read(JobHistoryQuery.last(Duration.ofHours(1)).withName("mail")));
        assertThat(mail.completed()).isOne();
        assertThat(mail.waiting()).isNotNull();
        assertThat(mail.waiting().p50()).isBetween(Duration.ofMillis(80), Duration.ofMillis(130));
        assertThat(mail.running()).isNotNull();
        assertThat(mail.running().p95()).isBetween(Duration.ofMillis(1_600), Duration.ofMillis(2_900));
        Point all = total(reports.read(JobHistoryQuery.last(Duration.ofHours(1))));
        assertThat(all.completed()).isEqualTo(3);
        assertThat(all.running()).isNotNull();
        assertThat(all.running().p50()).isGreaterThan(Duration.ofSeconds(15));
    }

    @Test
    void summaries_have_the_busiest_names_and_their_rates() {
        jdbc.sql("""
                INSERT INTO forge_job_history (name, slot, minutes, completed, failed, retried)
                SELECT 'name-' || n, date_bin('1 minute', now(), '2000-01-01'), 1, n, 1, 1 FROM generate_series(1, 250) AS n
                """).update();
        List<JobSummary> summaries = reports.summaries(Duration.ofHours(1));
        assertThat(summaries).hasSize(JobHistoryReports.MOST_NAMES);
        assertThat(summaries)
                .extracting(JobSummary::name)
                .contains("name-250", "name-51")
                .doesNotContain("name-50");
        JobSummary one = reports.summaries(Duration.ofHours(1), List.of("name-3", "none"))
                .get(0);
        assertThat(one.completedPerMinute()).isEqualTo(0.05);
        assertThat(one.failureRatio()).isEqualTo(0.25);
        assertThat(one.failedAttemptRatio()).isEqualTo(0.4);
        assertThat(one.running()).isNull();
        assertThat(reports.failing(Duration.ofHours(1), 2, 0.5, 10))
                .extracting(JobHistoryReports.Failing::name)
                .containsExactly("name-1", "name-2");
    }
}
