// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.NotLeaderException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;

/** The context of a run: slots, term and fenced writes. */
@ClusterPostgres
class CronContextTests extends AbstractCronTests {

    CronContextTests(TestDatabase database) {
        super(database);
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (cron text, slot timestamptz)")
                .update();
        jdbc.sql("TRUNCATE effects").update();
    }

    @Test
    void cron_that_was_enqueued_with_sql_does_not_run() {
        var runs = new AtomicInteger();
        work.on(cron("report", YEARLY), context -> runs.incrementAndGet());
        Member leader = startLeader(work);
        awaitCron("report");
        UUID id = jdbc.sql("SELECT forge_enqueue('report')").query(UUID.class).single();
        assertThat(leader.ended(id).status()).isEqualTo(JobStatus.FAILED);
        assertThat(leader.jobs().find(id).orElseThrow().lastError())
                .contains("'report' is a cron, which only the scheduler may enqueue; Crons.trigger runs it now");
        assertThat(runs).hasValue(0);
        UUID triggered = leader.crons().trigger("report").orElseThrow();
        assertThat(leader.ended(triggered).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(runs).hasValue(1);
    }

    @Test
    void context_has_the_slot_and_the_previous_slot() {
        var seen = new CopyOnWriteArrayList<List<Object>>();
        work.on(cron("report", YEARLY), context -> {
            seen.add(List.of(
                    context.name(),
                    context.slot(),
                    context.previousSlot(),
                    context.attempt(),
                    context.term(),
                    MDC.get("forge.cron.name"),
                    MDC.get("forge.cron.slot"),
                    context.firedAt()));
            if (context.attempt() == 1) {
                throw new IllegalStateException("once more");
            }
        });
        startLeader(work);
        Instant first = due("report", Duration.ofSeconds(9));
        await().until(() -> seen.size() == 2);
        await().until(() -> ledger("report").get(0).jobStatus() == JobStatus.COMPLETED);
        Instant second = due("report", Duration.ofSeconds(3));
        await().until(() -> seen.size() == 4);
        long term = cluster.term(Leadership.SCHEDULER);
        Object none = Optional.empty();
        assertThat(seen.stream().map(values -> values.subList(0, 7)))
                .containsExactly(
                        List.of("report", first, none, 1, term, "report", first.toString()),
                        List.of("report", first, none, 2, term, "report", first.toString()),
                        List.of("report", second, Optional.of(first), 1, term, "report", second.toString()),
                        List.of("report", second, Optional.of(first), 2, term, "report", second.toString()));
        List<Instant> fired =
                ledger("report", 2).stream().map(CronRun::decidedAt).toList();
        // One transaction writes the ledger row and then the job.
        assertThat((Instant) seen.get(0).get(7))
                .isBetween(fired.get(0), fired.get(0).plusSeconds(60));
        assertThat(seen.get(1).get(7)).isEqualTo(seen.get(0).get(7));
        assertThat((Instant) seen.get(2).get(7))
                .isBetween(fired.get(1), fired.get(1).plusSeconds(60));
    }

    private void write(CronContext context) {
        jdbc.sql("INSERT INTO effects VALUES (?, ?)")
                .params(context.name(), context.slot().atOffset(ZoneOffset.UTC))
                .update();
    }

    /** Runs a statement on another thread, outside of the caller's transaction. */
    private void elsewhere(String sql) {
        var thread = new Thread(() -> database.jdbc().sql(sql).update());
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void fencedWhile(TestJobs.Cron cron, Runnable meanwhile, AtomicReference<Throwable> failure) {
        work.on(cron, context -> {
            try {
                context.fenced(() -> {
                    write(context);
                    meanwhile.run();
                });
                runs.add(new Run(context.name(), context.job().nodeName(), context.slot(), context.term()));
            } catch (RuntimeException e) {
                failure.set(e);
                throw new NonRetryableJobException("over", e);
            }
        });
        startLeader(work);
        due(cron.definition().name());
        await().until(() -> failure.get() != null || !runs.isEmpty());
    }

    @Test
    void fenced_write_of_a_run_commits() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(cron("report", YEARLY), () -> {}, failure);
        assertThat(failure.get()).isNull();
        assertThat(count("effects")).isOne();
    }

    @Test
    void fenced_write_fails_when_another_node_has_claimed_the_run() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(
                cron("report", YEARLY),
                () -> elsewhere("UPDATE forge_jobs SET claim_epoch = claim_epoch + 1"),
                failure);
        assertThat(failure.get())
                .isInstanceOf(ClaimLostException.class)
                .hasMessageContaining("Another node runs the slot");
        assertThat(count("effects")).isZero();
    }

    @Test
    void fenced_write_fails_when_the_term_is_over() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(
                cron("report", YEARLY),
                () -> elsewhere("UPDATE forge_leaders SET current_term = current_term + 1"),
                failure);
        assertThat(failure.get()).isInstanceOf(NotLeaderException.class);
        assertThat(count("effects")).isZero();
    }

    @Test
    void fenced_write_of_an_any_worker_cron_needs_no_term() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(
                cron("report", YEARLY).anyWorker(null),
                () -> elsewhere("UPDATE forge_leaders SET current_term = current_term + 1"),
                failure);
        assertThat(failure.get()).isNull();
        assertThat(count("effects")).isOne();
    }

    @Test
    void fenced_write_fails_when_leadership_was_lost_before_the_run_started() {
        var failure = new AtomicReference<Throwable>();
        var leader = new AtomicReference<Member>();
        work.on(
                cron("report", YEARLY),
                job -> {
                    leader.get().leadership().leave(Leadership.SCHEDULER);
                    await().until(() -> !leader.get().leadership().isLeader(Leadership.SCHEDULER));
                },
                context -> {
                    try {
                        context.fenced(() -> write(context));
                        recordRun(context);
                    } catch (RuntimeException e) {
                        failure.set(e);
                        throw new NonRetryableJobException("over", e);
                    }
                });
        leader.set(startLeader(work));
        due("report");
        await().until(() -> failure.get() != null || !runs.isEmpty());
        assertThat(failure.get()).isInstanceOf(NotLeaderException.class);
        assertThat(count("effects")).isZero();
    }

    @Test
    void transactional_run_and_its_fenced_write_commit_together() {
        work.on(cron("report", YEARLY).in(work.transaction()), context -> {
            context.fenced(() -> write(context));
            if (context.attempt() == 1) {
                throw new IllegalStateException("rolled back");
            }
            recordRun(context);
        });
        startLeader(work);
        due("report");
        awaitRuns(1);
        await().until(() -> ledger("report").get(0).jobStatus() == JobStatus.COMPLETED);
        assertThat(count("effects")).isOne();
    }
}
