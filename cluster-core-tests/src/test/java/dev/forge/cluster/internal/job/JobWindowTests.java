// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Jobs with a window or a debounce, and many jobs with options of their own, through the API. */
@ClusterPostgres
class JobWindowTests extends JobFixture {

    private static final JobOptions KEYED = JobOptions.defaults().withUniqueKey("k");
    private static final JobOptions HOURLY = KEYED.withUniqueFor(Duration.ofHours(1));

    JobWindowTests(TestDatabase database) {
        super(database);
    }

    private DefaultJobs start() {
        work.on(job("order").taking(Order.class), (payload, context) -> null);
        return cluster.start("one", work, UnaryOperator.identity()).jobs();
    }

    private TransactionTemplate transaction(int isolation) {
        var template = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        template.setIsolationLevel(isolation);
        return template;
    }

    private long count(String table) {
        return jdbc.sql("SELECT count(*) FROM " + table).query(Long.class).single();
    }

    @Test
    void invalid_window_or_debounce_is_rejected_with_the_reason() {
        DefaultJobs jobs = start();
        var order = new Order("a", 1);
        JobOptions none = JobOptions.defaults();
        Duration second = Duration.ofSeconds(1);
        refused(() -> jobs.enqueue(order, none.withUniqueFor(second)), "'order'", "unique for PT1S needs a unique key");
        refused(() -> jobs.enqueue(order, none.withDebounce(second, second)), "debounce of PT1S needs a unique key");
        JobOptions debounced = KEYED.withDebounce(second, second);
        refused(() -> jobs.enqueue(order, debounced.withUniqueFor(second)), "exclude each other");
        refused(() -> jobs.enqueue(order, debounced.withDelay(second)), "excludes a delay and a time");
        refused(() -> jobs.enqueue(order, debounced.withTime(Instant.EPOCH)), "excludes a delay and a time");
        refused(() -> jobs.enqueueAll(List.of(order), none.withUniqueFor(second)), "needs a unique key");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> jobs.enqueueAll(List.of(order), o -> null))
                .withMessageContaining("options of payloads[0]");
        assertThat(count("forge_jobs")).isZero();
        assertThat(count("forge_job_windows")).isZero();
    }

    @Test
    void options_keep_key_window_and_debounce_in_any_order() {
        JobOptions options = JobOptions.defaults()
                .withUniqueFor(Duration.ofHours(1))
                .withDebounce(Duration.ofSeconds(1), Duration.ofSeconds(2))
                .withUniqueKey("k", UniquePolicy.REPLACE)
                .withMaxAttempts(2)
                .withGroup("g")
                .withMetadata("a", "b");
        assertThat(options.uniqueKey()).isEqualTo("k");
        assertThat(options.uniquePolicy()).isEqualTo(UniquePolicy.REPLACE);
        assertThat(options.uniqueFor()).isEqualTo(Duration.ofHours(1));
        assertThat(options.debounceDelay()).isEqualTo(Duration.ofSeconds(1));
        assertThat(options.debounceMax()).isEqualTo(Duration.ofSeconds(2));
    }

    @Test
    void second_call_in_the_window_returns_the_job_that_has_ended() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        EnqueuedJob first = member.jobs().enqueueNamed("job", null, HOURLY);
        assertThat(first.created()).isTrue();
        member.ended(first.id());
        assertThat(member.jobs().enqueueNamed("job", null, HOURLY)).isEqualTo(new EnqueuedJob(first.id(), false));
        // Calls without a window do not obey one.
        assertThat(member.jobs().enqueueNamed("job", null, KEYED).created()).isTrue();
    }

    @Test
    void cancelled_job_ends_its_window() {
        DefaultJobs jobs = start();
        UUID first = jobs.enqueue(new Order("a", 1), HOURLY.withDelay(Duration.ofHours(1)))
                .id();
        assertThat(jobs.cancel(first)).isTrue();
        assertThat(jobs.enqueue(new Order("a", 1), HOURLY).created()).isTrue();
    }

    @Test
    void rolled_back_call_leaves_neither_job_nor_window() {
        DefaultJobs jobs = start();
        transaction(TransactionDefinition.ISOLATION_DEFAULT).executeWithoutResult(status -> {
            jobs.enqueue(new Order("a", 1), HOURLY);
            status.setRollbackOnly();
        });
        assertThat(count("forge_job_windows")).isZero();
        assertThat(jobs.enqueue(new Order("a", 1), HOURLY).created()).isTrue();
    }

    @Test
    void debounced_job_starts_after_the_last_call_with_its_payload() {
        var seen = new CopyOnWriteArrayList<Integer>();
        work.poll = Duration.ofMinutes(1);
        work.on(job("order").taking(Order.class), (payload, context) -> seen.add(((Order) payload).quantity()));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        DefaultJobs jobs = member.jobs();
        JobOperations operations = member.operations();
        JobOptions later = KEYED.withDebounce(Duration.ofHours(1), Duration.ofHours(2));
        UUID id = jobs.enqueue(new Order("a", 1), later).id();
        assertThat(operations.explain(id).reason()).isEqualTo(Reason.NOT_DUE);
        JobOptions soon = KEYED.withDebounce(Duration.ofMillis(50), Duration.ofHours(2));
        assertThat(jobs.enqueue(new Order("a", 2), soon)).isEqualTo(new EnqueuedJob(id, false));
        await().untilAsserted(() -> assertThat(seen).containsExactly(2));
    }

    @Test
    void job_debounced_while_it_runs_runs_once_more() {
        var seen = new CopyOnWriteArrayList<Integer>();
        var enqueued = new CompletableFuture<Void>();
        work.on(job("order").taking(Order.class), (payload, context) -> {
            seen.add(((Order) payload).quantity());
            enqueued.join();
            return null;
        });
        DefaultJobs jobs = cluster.start("one", work, UnaryOperator.identity()).jobs();
        JobOptions options = KEYED.withDebounce(Duration.ofMillis(1), Duration.ofHours(1));
        jobs.enqueue(new Order("a", 1), options);
        await().until(() -> seen.size() == 1);
        EnqueuedJob second = jobs.enqueue(new Order("a", 2), options);
        assertThat(second.created()).isTrue();
        assertThat(jobs.enqueue(new Order("a", 3), options)).isEqualTo(new EnqueuedJob(second.id(), false));
        enqueued.complete(null);
        await().untilAsserted(() -> assertThat(seen).containsExactly(1, 3));
    }

    // Isolation levels --------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(ints = {TransactionDefinition.ISOLATION_REPEATABLE_READ, TransactionDefinition.ISOLATION_SERIALIZABLE})
    void window_that_was_opened_after_the_snapshot_is_a_serialization_failure(int isolation) {
        DefaultJobs jobs = start();
        var first = new ArrayList<UUID>();
        assertThatExceptionOfType(ConcurrencyFailureException.class)
                .isThrownBy(() -> transaction(isolation).executeWithoutResult(status -> {
                    count("forge_jobs");
                    // On another thread, and so in another transaction. Only the window is left of the job.
                    CompletableFuture.runAsync(() -> {
                                first.add(
                                        jobs.enqueue(new Order("a", 1), HOURLY).id());
                                await().until(() ->
                                        jobs.find(first.get(0)).orElseThrow().status() == JobStatus.COMPLETED);
                                jdbc.sql("DELETE FROM forge_jobs").update();
                            })
                            .join();
                    jobs.enqueue(new Order("a", 1), HOURLY);
                }));
        EnqueuedJob second = transaction(isolation).execute(status -> jobs.enqueue(new Order("a", 1), HOURLY));
        assertThat(second).isEqualTo(new EnqueuedJob(first.get(0), false));
    }

    @ParameterizedTest
    @ValueSource(
            ints = {
                TransactionDefinition.ISOLATION_READ_COMMITTED,
                TransactionDefinition.ISOLATION_REPEATABLE_READ,
                TransactionDefinition.ISOLATION_SERIALIZABLE
            })
    void concurrent_transactions_of_any_level_get_one_job(int isolation) throws Exception {
        DefaultJobs jobs = start();
        var threads = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 10; round++) {
                JobOptions options = HOURLY.withUniqueKey("k" + round);
                Callable<UUID> caller = () -> {
                    while (true) {
                        try {
                            return transaction(isolation).execute(status -> {
                                count("forge_jobs");
                                return jobs.enqueue(new Order("a", 1), options).id();
                            });
                        } catch (ConcurrencyFailureException e) {
                            assertThat(isolation).isNotEqualTo(TransactionDefinition.ISOLATION_READ_COMMITTED);
                        }
                    }
                };
                var ids = new HashSet<UUID>();
                for (Future<UUID> id : threads.invokeAll(Collections.nCopies(4, caller))) {
                    ids.add(id.get());
                }
                assertThat(ids).hasSize(1);
            }
        } finally {
            threads.shutdownNow();
        }
        assertThat(count("forge_jobs")).isEqualTo(10);
    }

    // Many at once ------------------------------------------------------------------------------------------

    @Test
    void each_payload_has_its_own_options() {
        DefaultJobs jobs = start();
        jobs.pause("order");
        UUID existing = jobs.enqueue(new Order("b", 0), JobOptions.defaults().withUniqueKey("b"))
                .id();
        List<Order> orders = List.of(
                new Order("plain", 1), new Order("b", 2), new Order("a", 3), new Order("later", 4), new Order("a", 5));
        Function<Order, JobOptions> options = order -> switch (order.item()) {
            case "plain" -> JobOptions.defaults();
            case "later" -> JobOptions.defaults().withDelay(Duration.ofHours(1)).withMetadata("m", "later");
            default -> JobOptions.defaults().withUniqueKey(order.item()).withUniqueFor(Duration.ofHours(1));
        };
        List<EnqueuedJob> result = jobs.enqueueAll(orders, options);
        assertThat(result).extracting(EnqueuedJob::created).containsExactly(true, false, true, true, false);
        assertThat(result.get(1).id()).isEqualTo(existing);
        assertThat(result.get(4).id()).isEqualTo(result.get(2).id());
        for (int i : new int[] {0, 2, 3}) {
            assertThat(jobs.find(result.get(i).id()).orElseThrow().payload())
                    .contains("" + orders.get(i).quantity());
        }
        var later = jobs.find(result.get(3).id()).orElseThrow();
        assertThat(later.metadata()).containsEntry("m", "later");
        assertThat(later.scheduledAt()).isAfter(later.createdAt().plusSeconds(1_800));
        assertThat(jobs.find(result.get(0).id()).orElseThrow().metadata()).doesNotContainKey("m");
    }

    @Test
    void failed_bulk_call_enqueues_nothing() {
        DefaultJobs jobs = start();
        List<Order> orders = List.of(new Order("a", 1), new Order("b", 2));
        refused(
                () -> jobs.enqueueAll(
                        orders,
                        order -> order.quantity() == 1
                                ? HOURLY
                                : JobOptions.defaults().withUniqueKey("@http/x/1")),
                "use another key");
        assertThat(count("forge_jobs")).isZero();
        assertThat(count("forge_job_windows")).isZero();
    }

    @Test
    void bulk_calls_with_keys_in_opposite_orders_do_not_deadlock() throws Exception {
        DefaultJobs jobs = start();
        jobs.pause("order");
        List<Order> orders =
                IntStream.range(0, 200).mapToObj(i -> new Order("k" + i, i)).toList();
        List<Order> reversed = new ArrayList<>(orders);
        Collections.reverse(reversed);
        var threads = Executors.newFixedThreadPool(2);
        try {
            for (int round = 0; round < 4; round++) {
                int n = round;
                Function<Order, JobOptions> options = order -> n % 2 == 0
                        ? JobOptions.defaults().withUniqueKey(n + order.item()).withUniqueFor(Duration.ofHours(1))
                        : JobOptions.defaults()
                                .withUniqueKey((n - 1) + order.item())
                                .withDebounce(Duration.ofHours(1), Duration.ofHours(2));
                var ids = new HashSet<UUID>();
                List<Callable<List<EnqueuedJob>>> calls =
                        List.of(() -> jobs.enqueueAll(orders, options), () -> jobs.enqueueAll(reversed, options));
                for (Future<List<EnqueuedJob>> result : threads.invokeAll(calls)) {
                    result.get().forEach(job -> ids.add(job.id()));
                }
                assertThat(ids).hasSize(200);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void bulk_call_larger_than_a_batch_is_all_or_nothing_and_keeps_its_order() {
        DefaultJobs jobs = start();
        jobs.pause("order");
        List<Order> orders = IntStream.range(0, 1_500)
                .mapToObj(i -> new Order("o", 1_500 - i))
                .toList();
        List<EnqueuedJob> result = jobs.enqueueAll(
                orders,
                order -> JobOptions.defaults()
                        .withUniqueKey(order.quantity(), UniquePolicy.REPLACE)
                        .withUniqueFor(Duration.ofHours(1)));
        assertThat(result).hasSize(1_500).allMatch(EnqueuedJob::created);
        for (int i : new int[] {0, 999, 1_000, 1_499}) {
            assertThat(jobs.find(result.get(i).id()).orElseThrow().uniqueKey()).isEqualTo("" + (1_500 - i));
        }
        assertThat(count("forge_job_windows")).isEqualTo(1_500);
    }
}
