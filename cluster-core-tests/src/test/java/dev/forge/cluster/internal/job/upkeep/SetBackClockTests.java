// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.upkeep;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.internal.job.JobFixture;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.UUID;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** A database whose clock was set back by an hour: rows that were written before lie in the future. */
@ClusterPostgres
class SetBackClockTests extends JobFixture {

    private final ListAppender<ILoggingEvent> log = new ListAppender<>();

    SetBackClockTests(TestDatabase database) {
        super(database);
        work.sweep = Duration.ofMillis(100);
        work.on("job", context -> {});
    }

    @BeforeEach
    void recordLog() {
        log.start();
        logger().addAppender(log);
    }

    @AfterEach
    void forgetLog() {
        logger().detachAppender(log);
    }

    private static Logger logger() {
        return (Logger) LoggerFactory.getLogger(SetBackClock.class);
    }

    private void history(String slot) {
        jdbc.sql("INSERT INTO forge_job_history (name, slot, minutes) VALUES ('', %s, 1)".formatted(slot))
                .update();
    }

    /** Inserts a pending job; returns its id. */
    private UUID job(String created, String claimed, String scheduled) {
        UUID id = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, created_at, claimed_at, scheduled_at, attempts, claim_epoch)
                VALUES (?, 'job', %1$s, %2$s, %3$s, CASE WHEN %2$s IS NULL THEN 0 ELSE 1 END, 1)
                """.formatted(created, claimed, scheduled)).param(id).update();
        return id;
    }

    private Duration untilDue(UUID id) {
        return Duration.ofMillis(jdbc.sql(
                        "SELECT (extract(epoch FROM scheduled_at - now()) * 1000)::bigint FROM forge_jobs WHERE id = ?")
                .param(id)
                .query(Long.class)
                .single());
    }

    private long warnings() {
        return log.list.stream()
                .filter(event -> event.getFormattedMessage().contains("clock was set back"))
                .filter(event -> event.getLevel() == ch.qos.logback.classic.Level.WARN)
                .count();
    }

    @Test
    void jobs_that_were_due_before_the_step_run() {
        history("now() + interval '59 minutes'");
        UUID immediate = job("now() + interval '1 hour'", "NULL", "now() + interval '1 hour'");
        UUID delayed = job("now() + interval '30 minutes'", "NULL", "now() + interval '40 minutes'");
        UUID retried =
                job("now() - interval '1 day'", "now() + interval '50 minutes'", "now() + interval '55 minutes'");
        Member member = cluster.start("one", work, UnaryOperator.identity());
        assertThat(member.ended(immediate).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.ended(delayed).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.ended(retried).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(warnings()).isOne();
    }

    @Test
    void later_retry_keeps_its_pause_and_other_times_are_left_alone() {
        history("now() + interval '59 minutes'");
        UUID marker = job("now() + interval '1 hour'", "NULL", "now() + interval '1 hour'");
        UUID retried = job("now() - interval '1 day'", "now() + interval '1 hour'", "now() + interval '90 minutes'");
        UUID chosen = job("now() + interval '50 minutes'", "NULL", "now() + interval '5 hours'");
        UUID before = job("now() - interval '1 day'", "NULL", "now() + interval '30 minutes'");
        UUID after = job("now()", "NULL", "now() + interval '30 minutes'");
        UUID retriedAfter = job("now() + interval '1 hour'", "now()", "now() + interval '20 minutes'");
        Member member = cluster.start("one", work, UnaryOperator.identity());
        assertThat(member.ended(marker).status()).isEqualTo(JobStatus.COMPLETED);
        await().until(() -> untilDue(retried).toMinutes() <= 30);
        assertThat(untilDue(retried)).isGreaterThan(Duration.ofMinutes(10));
        assertThat(untilDue(chosen)).isGreaterThan(Duration.ofMinutes(250));
        assertThat(untilDue(before)).isGreaterThan(Duration.ofMinutes(10));
        assertThat(untilDue(after)).isGreaterThan(Duration.ofMinutes(10));
        assertThat(untilDue(retriedAfter)).isGreaterThan(Duration.ofMinutes(5));
    }

    @Test
    void right_clock_moves_nothing_and_logs_nothing() {
        history("date_bin('1 minute', now(), '2000-01-01 00:00:00+00')");
        UUID later = job("now() + interval '1 hour'", "NULL", "now() + interval '1 hour'");
        UUID due = job("now()", "NULL", "now()");
        Member member = cluster.start("one", work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        assertThat(member.ended(due).status()).isEqualTo(JobStatus.COMPLETED);
        member.engine().sweep();
        assertThat(untilDue(later)).isGreaterThan(Duration.ofMinutes(30));
        assertThat(warnings()).isZero();
    }

    @Test
    void clock_is_behind_only_by_more_than_clocks_drift() {
        Instant now = Instant.parse("2026-11-19T12:00:00Z");
        assertThat(JobScheduleStore.isBehind(now, now.plus(JobScheduleStore.STEP)))
                .isFalse();
        assertThat(JobScheduleStore.isBehind(
                        now, now.plus(JobScheduleStore.STEP).plusMillis(1)))
                .isTrue();
        assertThat(new JobScheduleStore.DatabaseTime(now, now.plusSeconds(90)).behind())
                .isEqualTo(Duration.ofSeconds(90));
        assertThat(new JobScheduleStore.DatabaseTime(now, Instant.EPOCH).behind())
                .isZero();
    }
}
