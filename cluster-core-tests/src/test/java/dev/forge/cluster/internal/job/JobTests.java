// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.util.RawValue;

/** Jobs from their first attempt to their end, on nodes in this JVM. */
@ClusterPostgres
class JobTests extends JobFixture {

    JobTests(TestDatabase database) {
        super(database);
    }

    @Test
    void job_finds_its_handler_by_payload_type_and_keeps_its_result() {
        work.on(job("order").taking(Order.class), (payload, context) -> Map.of("got", payload));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueue(new Order("anvil", 2)).id();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.result()).contains("\"got\"", "\"anvil\"", "2");
        assertThat(job.attempts()).isOne();
        assertThat(job.nodeId()).isEqualTo(member.node().id());
        assertThat(job.startedAt()).isBeforeOrEqualTo(job.finishedAt());
    }

    @Test
    void context_describes_the_job() {
        var seen = new CopyOnWriteArrayList<JobContext>();
        work.on("job", seen::add);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs()
                .enqueueNamed(
                        "job",
                        null,
                        JobOptions.defaults().withMetadata("tenant", "acme").withMaxAttempts(7))
                .id();
        member.ended(id);
        JobContext context = seen.get(0);
        assertThat(context.id()).isEqualTo(id);
        assertThat(context.name()).isEqualTo("job");
        assertThat(context.attempt()).isOne();
        assertThat(context.maxAttempts()).isEqualTo(7);
        assertThat(context.epoch()).isOne();
        assertThat(context.idempotencyKey()).isEqualTo(id.toString());
        assertThat(context.metadata()).isEqualTo(Map.of("tenant", "acme"));
        assertThat(context.nodeName()).isEqualTo("one");
        assertThat(context.stopRequested()).isFalse();
    }

    @Test
    void failed_attempt_is_repeated_until_it_succeeds() {
        work.on("job", context -> {
            if (context.attempt() < 3) {
                throw new IllegalStateException("not yet \0");
            }
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isEqualTo(3);
        assertThat(job.lastError()).contains("not yet").contains("at dev.forge.cluster");
    }

    @Test
    void last_attempt_fails_the_job_and_retry_restarts_it() {
        var broken = new AtomicInteger(3);
        work.on("job", context -> {
            if (broken.getAndDecrement() > 0) {
                throw new IllegalStateException("x".repeat(100_000));
            }
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        JobInfo failed = member.ended(id);
        assertThat(failed.status()).isEqualTo(JobStatus.FAILED);
        assertThat(failed.attempts()).isEqualTo(3);
        assertThat(failed.lastError()).hasSizeLessThan(21_000);
        assertThat(member.jobs().retry(id)).isTrue();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void permanent_failure_is_not_repeated() {
        work.on("permanent", context -> {
            throw new NonRetryableJobException("no such customer");
        });
        work.on(job("no-retry").noRetryFor(IllegalArgumentException.class), (payload, context) -> {
            throw new NumberFormatException("12x");
        });
        work.on(job("decided"), (payload, context) -> Outcome.fail("decided so"));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        for (String name : List.of("permanent", "no-retry", "decided")) {
            JobInfo job = member.ended(member.jobs().enqueueNamed(name, null).id());
            assertThat(job.status()).as(name).isEqualTo(JobStatus.FAILED);
            assertThat(job.attempts()).isOne();
            assertThat(job.lastError()).containsAnyOf("no such customer", "12x", "decided so");
        }
    }

    @Test
    void snooze_spends_no_attempt() {
        var runs = new AtomicInteger();
        work.on(job("job").attempts(1), (payload, context) -> {
            assertThat(context.attempt()).isOne();
            return runs.incrementAndGet() < 4 ? Outcome.snooze(Duration.ofMillis(20)) : Outcome.complete("done");
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(job.epoch()).isEqualTo(4);
    }

    @Test
    void job_that_exceeds_a_rate_limit_runs_later_without_a_counted_attempt() {
        var calls = new AtomicInteger();
        RateLimit limit = RateLimit.of(1, Duration.ofSeconds(1));
        work.on(job("job").attempts(1), (payload, context) -> {
            if (calls.incrementAndGet() == 1) {
                throw new RateLimitExceededException(
                        "sms", new RateLimitDecision(false, limit, 0, Duration.ofMillis(200), Duration.ofSeconds(1)));
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(calls).hasValue(2);
    }

    @Test
    void attempt_that_exceeds_its_timeout_is_interrupted_and_counted() {
        work.on(job("job").attempts(2).timeout(Duration.ofMillis(200)), (payload, context) -> {
            new CountDownLatch(1).await();
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.attempts()).isEqualTo(2);
        assertThat(job.lastError()).contains("longer than 200 ms");
    }

    @Test
    void progress_is_visible_during_the_run_and_a_checkpoint_survives_the_attempt() throws Exception {
        var reached = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            if (context.attempt() == 1) {
                assertThat(context.checkpoint(Order.class)).isEmpty();
                context.checkpoint(new Order("page", 7));
                context.progress(40, "page 7");
                reached.countDown();
                until(go);
                throw new IllegalStateException("lost my place");
            }
            assertThat(context.checkpoint(Order.class)).contains(new Order("page", 7));
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(reached);
        await().untilAsserted(() ->
                assertThat(member.jobs().find(id).orElseThrow().progress()).contains("40", "page 7"));
        go.countDown();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void metadata_that_cannot_be_read_does_not_hold_up_other_jobs() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("job");
        List<UUID> ids = IntStream.range(0, 10)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null).id())
                .toList();
        jdbc.sql("UPDATE forge_jobs SET metadata = '[\"forge.x\"]' WHERE id = ?")
                .param(ids.get(4))
                .update();
        member.jobs().resume("job");
        assertThat(ids).allMatch(id -> member.ended(id).status() == JobStatus.COMPLETED);
        assertThat(jdbc.sql("SELECT max(claim_epoch) FROM forge_jobs WHERE name = 'job'")
                        .query(Long.class)
                        .single())
                .isOne();
    }

    @Test
    void invalid_rows_fail_with_a_reason_and_other_jobs_complete() {
        work.poll = Duration.ofMillis(200);
        work.on(job("order").taking(Order.class), (payload, context) -> {
            int quantity = ((Order) payload).quantity();
            return quantity % 10 == 7 ? "nul \0" : payload;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("order");
        List<UUID> ids =
                member
                        .jobs()
                        .enqueueAll(IntStream.range(0, 60)
                                .mapToObj(i -> new Order("a", i))
                                .toList())
                        .stream()
                        .map(EnqueuedJob::id)
                        .collect(Collectors.toCollection(ArrayList::new));
        jdbc.sql("UPDATE forge_jobs SET payload = '[1, 2]' WHERE id = ?")
                .param(ids.get(3))
                .update();
        jdbc.sql("UPDATE forge_jobs SET payload = '\"text\"' WHERE id = ?")
                .param(ids.get(4))
                .update();
        jdbc.sql("UPDATE forge_jobs SET metadata = '[]', last_error = repeat('e', 1000000) WHERE id = ?")
                .param(ids.get(5))
                .update();
        jdbc.sql("UPDATE forge_jobs SET attempts = 999, recoveries = 99 WHERE id = ?")
                .param(ids.get(6))
                .update();
        member.jobs().resume("order");
        for (int i = 0; i < ids.size(); i++) {
            JobInfo job = member.ended(ids.get(i));
            boolean bad = i == 3 || i == 4 || i % 10 == 7;
            assertThat(job.status())
                    .as("%d: %s", i, job.lastError())
                    .isEqualTo(bad ? JobStatus.FAILED : JobStatus.COMPLETED);
            if (bad) {
                assertThat(job.lastError()).containsAnyOf("cannot be read as", "its result");
            }
        }
    }

    @Test
    void result_rejected_by_the_database_fails_only_its_job() {
        // Text that the codec accepts as JSON and the database rejects.
        work.on(
                job("order").taking(Order.class),
                (payload, context) -> ((Order) payload).quantity() == 5 ? new RawValue("[1,") : payload);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids =
                member
                        .jobs()
                        .enqueueAll(IntStream.range(0, 20)
                                .mapToObj(i -> new Order("a", i))
                                .toList())
                        .stream()
                        .map(EnqueuedJob::id)
                        .toList();
        for (int i = 0; i < ids.size(); i++) {
            JobInfo job = member.ended(ids.get(i));
            assertThat(job.status()).isEqualTo(i == 5 ? JobStatus.FAILED : JobStatus.COMPLETED);
        }
        assertThat(member.jobs().find(ids.get(5)).orElseThrow().lastError()).contains("the database rejected");
    }

    private static String json(Random random, int depth) {
        return switch (random.nextInt(depth > 0 ? 8 : 6)) {
            case 0 -> "null";
            case 1 -> Long.toString(random.nextLong());
            case 2 -> "1e" + random.nextInt(300);
            case 3 -> random.nextBoolean() ? "true" : "false";
            case 4 -> "\"" + "\u00e9\u4e2d \\\" \\n \\\\ ".repeat(random.nextInt(4)) + "\"";
            case 5 -> "{\"item\": \"a\", \"quantity\": %d}".formatted(random.nextInt());
            case 6 ->
                IntStream.range(0, random.nextInt(4))
                        .mapToObj(i -> json(random, depth - 1))
                        .collect(Collectors.joining(", ", "[", "]"));
            default ->
                IntStream.range(0, random.nextInt(4))
                        .mapToObj(i -> "\"k%d\": %s".formatted(i, json(random, depth - 1)))
                        .collect(Collectors.joining(", ", "{", "}"));
        };
    }

    @Test
    void engine_survives_any_json_payload() {
        work.poll = Duration.ofMillis(200);
        work.on(job("order").taking(Order.class).attempts(1), (payload, context) -> payload);
        work.on("good", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        var random = new Random(4711);
        int bad = 0;
        for (int i = 0; i < 300; i++) {
            String payload = json(random, 3);
            bad += payload.startsWith("{") ? 0 : 1;
            jdbc.sql("SELECT forge_enqueue('order', ?::jsonb)")
                    .param(payload)
                    .query((row, n) -> true)
                    .single();
            member.jobs().enqueueNamed("good", null);
        }
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE finished_at IS NULL")
                        .query(Long.class)
                        .single()
                == 0);
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'good' AND status = 'completed'")
                        .query(Long.class)
                        .single())
                .isEqualTo(300);
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'failed' AND last_error IS NOT NULL")
                        .query(Integer.class)
                        .single())
                .isGreaterThanOrEqualTo(bad / 2)
                .isPositive();
    }

    @Test
    void retention_of_zero_deletes_completed_jobs_and_keeps_failed_ones() {
        JobHandler usual = new TestJobs(database.dataSource())
                .on(job("job").taking(Order.class), (payload, context) -> {
                    if (((Order) payload).quantity() == 0) {
                        throw new NonRetryableJobException("none");
                    }
                    return null;
                })
                .handlers()
                .named("job");
        JobHandler.Limits limits = usual.limits();
        work.handlers()
                .add(new JobHandler(
                        usual.name(),
                        usual.aliases(),
                        null,
                        usual.priority(),
                        new JobHandler.Limits(
                                limits.maxAttempts(), limits.backoff(), 0, limits.noRetryFor(), null, Duration.ZERO),
                        usual.target()));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID failed = member.jobs().enqueue(new Order("a", 0)).id();
        UUID completed = member.jobs().enqueue(new Order("a", 1)).id();
        assertThat(member.ended(failed).status()).isEqualTo(JobStatus.FAILED);
        await().until(() -> member.jobs().find(completed).isEmpty());
        member.engine().cleanUp();
        assertThat(member.jobs().find(failed)).isPresent();
    }

    @Test
    void purge_that_took_too_long_continues_with_fewer_rows() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at)
                SELECT gen_random_uuid(), 'job', 'completed', now() - interval '2 days' FROM generate_series(1, 700)
                """).update();
        jdbc.sql("""
                CREATE FUNCTION limit_deletes() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF (SELECT count(*) FROM gone) > 50 THEN
                        RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';
                    END IF;
                    RETURN NULL;
                END $$
                """).update();
        jdbc.sql("CREATE TRIGGER limit_deletes AFTER DELETE ON forge_jobs REFERENCING OLD TABLE AS gone"
                        + " FOR EACH STATEMENT EXECUTE FUNCTION limit_deletes()")
                .update();
        try {
            Member member = cluster.start("one", work, UnaryOperator.identity());
            await().until(() -> member.leadership().isLeader(Leadership.LOG_COMPACTOR));
            member.engine().cleanUp();
            assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs")
                            .query(Long.class)
                            .single())
                    .isZero();
        } finally {
            jdbc.sql("DROP TRIGGER limit_deletes ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION limit_deletes").update();
        }
    }
}
