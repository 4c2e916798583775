// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.observe.BulkJobInterceptor;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.support.TransactionTemplate;

/** Handlers that take many jobs at a time. */
@ClusterPostgres
class BulkJobTests extends JobFixture {

    /** The time that a call waits for more jobs; the wait ends as soon as the call is full. */
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    /** A shorter time for tests in which jobs are repeated one by one. */
    private static final Duration SHORT_PATIENCE = Duration.ofMillis(500);

    private final List<List<Integer>> calls = new CopyOnWriteArrayList<>();

    BulkJobTests(TestDatabase database) {
        super(database);
        work.slots = 1;
        work.prefetch = 20;
    }

    private TestJobs.Declared index(boolean transactional) {
        TestJobs.Declared plain = job("index").taking(Integer.class);
        return transactional ? plain.in(work.transaction()) : plain;
    }

    private List<Integer> record(List<?> payloads) {
        List<Integer> numbers = payloads.stream().map(Integer.class::cast).toList();
        calls.add(numbers);
        return numbers;
    }

    private void effects(List<JobContext> contexts) {
        contexts.forEach(context -> jdbc.sql("INSERT INTO effects VALUES (?, ?)")
                .params(context.id(), context.attempt())
                .update());
    }

    private List<UUID> enqueue(Member member, int count) {
        return IntStream.range(0, count)
                .mapToObj(i -> member.jobs().enqueueNamed("index", i))
                .map(EnqueuedJob::id)
                .toList();
    }

    private static void assertCompletedAtFirstAttempt(JobInfo job) {
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void jobs_are_handled_by_one_call_with_a_result_each(boolean transactional) {
        work.onMany(index(transactional), 10, PATIENCE, (payloads, contexts) -> {
            effects(contexts);
            return record(payloads).stream().map(number -> number * 2).toList();
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 10);
        for (int i = 0; i < 10; i++) {
            JobInfo job = member.ended(ids.get(i));
            assertCompletedAtFirstAttempt(job);
            assertThat(job.result()).isEqualTo(String.valueOf(i * 2));
            assertThat(effects(ids.get(i))).containsExactly(1);
        }
        assertThat(calls)
                .as("calls")
                .containsExactly(IntStream.range(0, 10).boxed().toList());
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void bad_job_fails_alone(boolean transactional) {
        work.onMany(index(transactional), 5, SHORT_PATIENCE, (payloads, contexts) -> {
            effects(contexts);
            if (record(payloads).contains(3)) {
                throw new IllegalStateException("three");
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 5);
        for (int i = 0; i < 5; i++) {
            JobInfo job = member.ended(ids.get(i));
            if (i == 3) {
                assertThat(job.status()).isEqualTo(JobStatus.FAILED);
                assertThat(job.attempts()).isEqualTo(3);
                assertThat(job.lastError()).contains("three");
            } else {
                assertCompletedAtFirstAttempt(job);
            }
            if (transactional) {
                assertThat(effects(ids.get(i))).as("committed effects").hasSize(i == 3 ? 0 : 1);
            }
        }
        assertThat(calls.stream().filter(call -> call.contains(3) && call.size() > 1))
                .as("calls that failed because of the bad job")
                .hasSize(1);
    }

    @Test
    void outcome_of_each_job_counts() {
        var retried = new AtomicBoolean();
        work.onMany(index(false), 4, SHORT_PATIENCE, (payloads, contexts) -> {
            var outcomes = new ArrayList<Object>();
            for (Integer number : record(payloads)) {
                outcomes.add(
                        switch (number) {
                            case 1 -> Outcome.fail("one");
                            case 2 ->
                                retried.getAndSet(true) ? "two" : Outcome.retryAfter(Duration.ofMillis(1), "again");
                            default -> number;
                        });
            }
            return outcomes;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 4);
        assertThat(member.ended(ids.get(0)).result()).isEqualTo("0");
        assertThat(member.ended(ids.get(1)).status()).isEqualTo(JobStatus.FAILED);
        assertThat(member.ended(ids.get(2)).result()).isEqualTo("\"two\"");
        assertThat(member.ended(ids.get(2)).attempts()).isEqualTo(2);
        assertThat(member.ended(ids.get(3)).result()).isEqualTo("3");
    }

    @Test
    void payload_that_cannot_be_read_fails_its_job_only() {
        work.onMany(index(false), 3, PATIENCE, (payloads, contexts) -> {
            record(payloads);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID first = enqueue(member, 1).get(0);
        UUID bad = jdbc.sql("SELECT forge_enqueue('index', '\"none\"')")
                .query(UUID.class)
                .single();
        UUID last = enqueue(member, 1).get(0);
        assertCompletedAtFirstAttempt(member.ended(first));
        assertCompletedAtFirstAttempt(member.ended(last));
        assertThat(member.ended(bad).lastError()).contains("its payload cannot be read as java.lang.Integer");
        assertThat(calls).as("calls").containsExactly(List.of(0, 0));
    }

    record Entry(int number) {
        Entry {
            if (number == 1) {
                throw new NoClassDefFoundError("com/example/Missing");
            }
        }
    }

    @Test
    void payload_whose_class_cannot_be_loaded_fails_its_job_only() {
        work.onMany(job("index").taking(Entry.class).attempts(1), 3, PATIENCE, (payloads, contexts) -> {
            calls.add(payloads.stream().map(entry -> ((Entry) entry).number()).toList());
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = IntStream.range(0, 3)
                .mapToObj(i -> jdbc.sql("SELECT forge_enqueue('index', ?::jsonb)")
                        .param("{\"number\": %d}".formatted(i))
                        .query(UUID.class)
                        .single())
                .toList();
        member.engine().announce(JobPriority.NORMAL);
        assertCompletedAtFirstAttempt(member.ended(ids.get(0)));
        assertThat(member.ended(ids.get(1)).lastError()).contains("com/example/Missing");
        assertCompletedAtFirstAttempt(member.ended(ids.get(2)));
        assertThat(calls).as("calls").containsExactly(List.of(0, 2));
    }

    @Test
    void call_whose_transaction_is_marked_for_rollback_lets_the_jobs_run_one_by_one() {
        var inner = new TransactionTemplate(work.transaction().manager());
        work.onMany(index(true), 3, SHORT_PATIENCE, (payloads, contexts) -> {
            effects(contexts);
            if (record(payloads).contains(1)) {
                // Like a service whose exception the handler catches.
                inner.executeWithoutResult(TransactionStatus::setRollbackOnly);
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 3);
        assertCompletedAtFirstAttempt(member.ended(ids.get(0)));
        assertCompletedAtFirstAttempt(member.ended(ids.get(2)));
        JobInfo bad = member.ended(ids.get(1));
        assertThat(bad.status()).isEqualTo(JobStatus.FAILED);
        assertThat(bad.attempts()).isEqualTo(3);
        assertThat(effects(ids.get(1))).isEmpty();
        assertThat(calls.stream().filter(call -> call.size() > 1))
                .as("common calls")
                .hasSize(1);
    }

    @Test
    void claim_lost_midway_rolls_back_its_job_only() throws Exception {
        var inside = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.onMany(index(true), 3, PATIENCE, (payloads, contexts) -> {
            effects(contexts);
            if (payloads.size() == 3) {
                inside.countDown();
                until(go);
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 3);
        until(inside);
        jdbc.sql("UPDATE forge_jobs SET claim_epoch = claim_epoch + 1, status = 'cancelled' WHERE id = ?")
                .param(ids.get(1))
                .update();
        go.countDown();
        assertCompletedAtFirstAttempt(member.ended(ids.get(0)));
        assertCompletedAtFirstAttempt(member.ended(ids.get(2)));
        assertThat(effects(ids.get(0))).containsExactly(1);
        assertThat(effects(ids.get(1))).isEmpty();
        assertThat(effects(ids.get(2))).containsExactly(1);
        assertThat(member.jobs().find(ids.get(1)).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
    }

    @Test
    void drain_returns_all_jobs_of_a_call_without_counting_the_attempt() throws Exception {
        var inside = new CountDownLatch(1);
        work.onMany(index(false), 3, PATIENCE, (payloads, contexts) -> {
            inside.countDown();
            new CountDownLatch(1).await();
            return null;
        });
        Member member =
                cluster.start("one", work, settings -> TestNodes.withDrainTimeout(settings, Duration.ofMillis(100)));
        List<UUID> ids = enqueue(member, 3);
        until(inside);
        member.node().stop();
        ids.forEach(id -> {
            JobInfo job = member.jobs().find(id).orElseThrow();
            assertThat(job.status()).isEqualTo(JobStatus.PENDING);
            assertThat(job.attempts()).isZero();
        });
    }

    @Test
    void timeout_of_a_call_lets_the_jobs_run_one_by_one() {
        work.onMany(
                job("index").taking(Integer.class).timeout(Duration.ofMillis(200)),
                3,
                PATIENCE,
                (payloads, contexts) -> {
                    if (record(payloads).size() > 1) {
                        new CountDownLatch(1).await();
                    }
                    return null;
                });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        enqueue(member, 3).forEach(id -> assertCompletedAtFirstAttempt(member.ended(id)));
        assertThat(calls).containsExactly(List.of(0, 1, 2), List.of(0), List.of(1), List.of(2));
    }

    @Test
    void call_does_not_wait_longer_than_its_patience_and_unique_keys_hold() {
        work.onMany(index(false), 100, Duration.ofMillis(50), (payloads, contexts) -> {
            record(payloads);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobOptions key = JobOptions.defaults().withUniqueKey("k");
        EnqueuedJob first = member.jobs().enqueueNamed("index", 1, key);
        member.ended(first.id());
        EnqueuedJob second = member.jobs().enqueueNamed("index", 2, key);
        assertThat(second.created()).isTrue();
        member.ended(second.id());
        await().until(() -> calls.equals(List.of(List.of(1), List.of(2))));
    }

    @Test
    void calls_are_full_although_the_handler_is_slow_and_occupy_one_slot_each() throws Exception {
        work.slots = 2;
        work.prefetch = null;
        var go = new CountDownLatch(1);
        var inside = new CountDownLatch(1);
        work.onMany(index(false), 50, Duration.ZERO, (payloads, contexts) -> {
            record(payloads);
            inside.countDown();
            go.await();
            return null;
        });
        work.on(job("other"), (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        enqueue(member, 1);
        until(inside);
        EnqueuedJob other = member.jobs().enqueueNamed("other", null);
        assertThat(member.ended(other.id()).status()).isEqualTo(JobStatus.COMPLETED);
        member.jobs().enqueueAll(IntStream.range(0, 200).boxed().toList());
        await().until(() -> calls.size() == 2);
        go.countDown();
        await().until(() -> calls.stream().mapToInt(List::size).sum() == 201);
        assertThat(calls).extracting(List::size).containsExactly(1, 50, 50, 50, 50);
    }

    @Test
    void call_is_filled_although_a_more_urgent_job_waits_for_its_slot() throws Exception {
        work.onMany(index(false), 3, PATIENCE, (payloads, contexts) -> {
            record(payloads);
            return null;
        });
        work.on(
                job("urgent").in(work.transaction(TransactionDefinition.ISOLATION_REPEATABLE_READ)),
                (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        enqueue(member, 1);
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status <> 'pending'")
                        .query(Integer.class)
                        .single()
                == 1);
        EnqueuedJob urgent =
                member.jobs().enqueueNamed("urgent", null, JobOptions.defaults().withPriority(JobPriority.CRITICAL));
        enqueue(member, 2);
        assertThat(member.ended(urgent.id()).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(calls).extracting(List::size).containsExactly(3);
    }

    @Test
    void interceptor_of_single_jobs_surrounds_each_job_alone() {
        Map<Thread, UUID> current = new ConcurrentHashMap<>();
        work.interceptors = List.of((job, handler) -> {
            current.put(Thread.currentThread(), job.id());
            try {
                return handler.proceed();
            } finally {
                current.remove(Thread.currentThread());
            }
        });
        var strangers = new CopyOnWriteArrayList<UUID>();
        work.onMany(index(true), 5, PATIENCE, (payloads, contexts) -> {
            record(payloads);
            contexts.stream()
                    .map(JobContext::id)
                    .filter(id -> !id.equals(current.get(Thread.currentThread())))
                    .forEach(strangers::add);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        enqueue(member, 5).forEach(id -> assertCompletedAtFirstAttempt(member.ended(id)));
        assertThat(calls).extracting(List::size).containsOnly(1);
        assertThat(strangers).as("jobs that ran in the context of another job").isEmpty();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void interceptor_of_many_jobs_surrounds_their_call_once_and_may_change_the_results(boolean fails) {
        var together = new CopyOnWriteArrayList<Integer>();
        work.interceptors = List.of(new BulkJobInterceptor() {
            @Override
            public Object intercept(JobContext job, Handler handler) throws Throwable {
                return handler.proceed();
            }

            @Override
            public Object interceptAll(List<JobContext> jobs, Handler handler) throws Throwable {
                together.add(jobs.size());
                List<?> results = (List<?>) handler.proceed();
                if (fails) {
                    throw new IllegalStateException("after the handler");
                }
                return results.stream().map(result -> result + "!").toList();
            }
        });
        work.onMany(index(true), 5, PATIENCE, (payloads, contexts) -> record(payloads));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 5);
        for (int i = 0; i < 5; i++) {
            JobInfo job = member.ended(ids.get(i));
            assertCompletedAtFirstAttempt(job);
            assertThat(job.result()).isEqualTo(fails ? String.valueOf(i) : "\"%d!\"".formatted(i));
        }
        assertThat(together).containsExactly(5);
    }

    @Test
    void jobs_that_wait_to_run_one_by_one_are_marked_as_running() throws Exception {
        var occupied = new CountDownLatch(1);
        var vacate = new CountDownLatch(1);
        var alone = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on("other", context -> {
            occupied.countDown();
            until(vacate);
        });
        work.onMany(index(false), 3, PATIENCE, (payloads, contexts) -> {
            if (payloads.size() > 1) {
                throw new IllegalStateException("only one by one");
            }
            alone.countDown();
            until(go);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().enqueueNamed("other", null);
        until(occupied);
        List<UUID> ids = enqueue(member, 3);
        await().until(() ->
                ids.stream().allMatch(id -> member.jobs().find(id).orElseThrow().status() == JobStatus.CLAIMED));
        vacate.countDown();
        until(alone);
        try {
            // Otherwise the sweeper would take them after forge.cluster.job.claim-start-timeout.
            await().until(() -> ids.stream()
                    .allMatch(id -> member.jobs().find(id).orElseThrow().status() == JobStatus.RUNNING));
        } finally {
            go.countDown();
        }
        ids.forEach(id -> assertCompletedAtFirstAttempt(member.ended(id)));
    }

    @Test
    void drain_returns_jobs_that_wait_to_run_one_by_one() throws Exception {
        var inside = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.onMany(index(false), 3, PATIENCE, (payloads, contexts) -> {
            if (payloads.size() > 1) {
                throw new IllegalStateException("only one by one");
            }
            record(payloads);
            inside.countDown();
            until(go);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 3);
        until(inside);
        var stop = new Thread(member.node()::stop);
        stop.start();
        for (UUID waiting : ids.subList(1, 3)) {
            await().until(() -> member.jobs().find(waiting).orElseThrow().status() == JobStatus.PENDING);
            assertThat(member.jobs().find(waiting).orElseThrow().attempts()).isZero();
        }
        go.countDown();
        stop.join();
        assertThat(calls).containsExactly(List.of(0));
        assertCompletedAtFirstAttempt(member.jobs().find(ids.get(0)).orElseThrow());
    }

    @Test
    void transaction_that_cannot_begin_returns_all_jobs_at_once() {
        var begins = new AtomicInteger();
        JobHandler.Transaction real = work.transaction();
        var manager = new JdbcTransactionManager(database.dataSource()) {
            @Override
            protected void doBegin(Object transaction, TransactionDefinition definition) {
                if (begins.getAndIncrement() == 0) {
                    throw new CannotCreateTransactionException(
                            "no connection", new SQLTransientConnectionException("request timed out"));
                }
                super.doBegin(transaction, definition);
            }
        };
        work.onMany(
                job("index").taking(Integer.class).in(new JobHandler.Transaction(manager, real.definition())),
                5,
                PATIENCE,
                (payloads, contexts) -> record(payloads));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        enqueue(member, 5).forEach(id -> assertCompletedAtFirstAttempt(member.ended(id)));
        assertThat(calls).extracting(List::size).containsExactly(5);
        assertThat(begins).hasValue(2);
    }

    @Test
    void job_whose_commit_ends_the_session_fails_alone() {
        jdbc.sql("""
                CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    PERFORM pg_terminate_backend(pg_backend_pid());
                    RETURN NULL;
                END $$
                """).update();
        jdbc.sql("""
                CREATE CONSTRAINT TRIGGER end_session AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW WHEN (current_setting('test.bad', true) = 'yes') EXECUTE FUNCTION end_session()
                """).update();
        work.onMany(index(true), 3, SHORT_PATIENCE, (payloads, contexts) -> {
            if (record(payloads).contains(1)) {
                jdbc.sql("SELECT set_config('test.bad', 'yes', true)")
                        .query(String.class)
                        .single();
            }
            effects(contexts);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 3);
        assertThat(member.ended(ids.get(1)).status()).isEqualTo(JobStatus.FAILED);
        assertThat(effects(ids.get(1))).isEmpty();
        for (UUID good : List.of(ids.get(0), ids.get(2))) {
            assertThat(member.ended(good).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(effects(good)).containsExactly(2);
        }
        assertThat(calls.stream().filter(call -> call.size() > 1))
                .as("common calls")
                .hasSize(1);
    }

    @Test
    void result_that_cannot_be_stored_fails_its_job_only() {
        work.onMany(
                index(false),
                3,
                PATIENCE,
                (payloads, contexts) -> record(payloads).stream()
                        .map(number -> number == 1 ? "x".repeat(20_000_000) : (Object) number)
                        .toList());
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = enqueue(member, 3);
        assertCompletedAtFirstAttempt(member.ended(ids.get(0)));
        assertThat(member.ended(ids.get(1)).status()).isEqualTo(JobStatus.FAILED);
        assertCompletedAtFirstAttempt(member.ended(ids.get(2)));
        assertThat(calls).as("calls").containsExactly(List.of(0, 1, 2));
    }
}
