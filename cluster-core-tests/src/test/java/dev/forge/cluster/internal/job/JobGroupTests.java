// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
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

/** Jobs with groups, on nodes in this JVM. */
@ClusterPostgres
class JobGroupTests extends JobFixture {

    private final Map<String, AtomicInteger> running = new ConcurrentHashMap<>();
    private final AtomicInteger most = new AtomicInteger();
    private final List<UUID> order = new CopyOnWriteArrayList<>();

    JobGroupTests(TestDatabase database) {
        super(database);
    }

    private static JobOptions in(String group) {
        return JobOptions.defaults().withGroup(group);
    }

    private Object watch(JobContext context) throws InterruptedException {
        AtomicInteger own = running.computeIfAbsent(String.valueOf(context.group()), g -> new AtomicInteger());
        most.accumulateAndGet(own.incrementAndGet(), Math::max);
        order.add(context.id());
        Thread.sleep(2);
        own.decrementAndGet();
        return null;
    }

    private void awaitAllEnded() {
        await().until(() -> database.jdbc()
                .sql("SELECT NOT EXISTS (SELECT FROM forge_jobs WHERE status IN ('pending', 'claimed', 'running'))")
                .query(Boolean.class)
                .single());
    }

    @Test
    void group_of_a_job_is_known_to_its_handler_and_to_queries() {
        work.on(job("job"), (payload, context) -> context.group());
        Member member = cluster.start("one", work, UnaryOperator.identity());

        JobInfo job =
                member.ended(member.jobs().enqueueNamed("job", null, in("acme")).id());
        assertThat(job.result()).isEqualTo("\"acme\"");
        assertThat(job.group()).isEqualTo("acme");
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).group())
                .isNull();
    }

    @Test
    void limit_of_a_group_holds_on_all_nodes_and_no_job_waits_for_a_poll() {
        work.poll = Duration.ofMinutes(1);
        work.on(
                job("job").grouped(null, JobLimits.none().withGroupConcurrency(2), false),
                (payload, context) -> watch(context));
        Member one = cluster.start("one", work, UnaryOperator.identity());
        cluster.start("two", work, UnaryOperator.identity());

        for (int i = 0; i < 300; i++) {
            one.jobs().enqueueNamed("job", null, in("g" + i % 3));
        }
        awaitAllEnded();
        assertThat(most).hasValue(2);
        assertThat(order).hasSize(300).doesNotHaveDuplicates();
    }

    @Test
    void job_that_waits_for_a_later_one_of_its_ordered_group_does_not_hold_it_up() {
        work.on(job("job").grouped(null, JobLimits.none(), true), (payload, context) -> watch(context));
        work.on("other", context -> {});
        Member one = cluster.start("one", work, UnaryOperator.identity());
        one.jobs().pause("other");
        UUID other = one.jobs().enqueueNamed("other", null).id();
        UUID waiting = one.jobs()
                .enqueueNamed("job", null, in("a").withStartAfterSuccessOf(other))
                .id();
        UUID later = one.jobs().enqueueNamed("job", null, in("a")).id();
        assertThat(one.ended(later).status()).isEqualTo(JobStatus.COMPLETED);
        one.jobs().resume("other");
        assertThat(one.ended(waiting).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void ordered_group_runs_its_jobs_in_the_order_of_enqueueing_also_after_failures() {
        var failed = ConcurrentHashMap.<UUID>newKeySet();
        work.on(job("job").grouped(null, JobLimits.none(), true), (payload, context) -> {
            if (context.attempt() == 1 && context.id().hashCode() % 5 == 0 && failed.add(context.id())) {
                throw new IllegalStateException("not yet");
            }
            return watch(context);
        });
        Member one = cluster.start("one", work, UnaryOperator.identity());
        cluster.start("two", work, UnaryOperator.identity());

        List<UUID> enqueued = IntStream.range(0, 60)
                .mapToObj(i -> one.jobs().enqueueNamed("job", null, in("a")).id())
                .toList();
        awaitAllEnded();
        assertThat(order).isEqualTo(enqueued);
        assertThat(most).hasValue(1);
    }

    @Test
    void rate_of_a_group_spreads_its_starts() {
        work.on(
                job("job")
                        .grouped(
                                null,
                                JobLimits.none().withGroupRate(new RateLimit(20, Duration.ofSeconds(1), 1)),
                                false),
                (payload, context) -> watch(context));
        Member one = cluster.start("one", work, UnaryOperator.identity());
        for (int i = 0; i < 10; i++) {
            one.jobs().enqueueNamed("job", null, in("a"));
        }
        awaitAllEnded();

        // From the enqueueing to the last start: a claim may be late, but none is early.
        assertThat(database.jdbc()
                        .sql(
                                "SELECT (extract(epoch FROM max(claimed_at) - min(created_at)) * 1000)::bigint FROM forge_jobs")
                        .query(Long.class)
                        .single())
                .isGreaterThanOrEqualTo(9 * 50);
    }

    @Test
    void group_comes_from_the_payload_whoever_enqueues() {
        work.on(
                job("order").taking(Order.class).grouped(payload -> ((Order) payload).item(), JobLimits.none(), false),
                (payload, context) -> context.group());
        Member member = cluster.start("one", work, UnaryOperator.identity());

        assertThat(member.ended(member.jobs().enqueue(new Order("anvil", 2)).id())
                        .group())
                .isEqualTo("anvil");
        assertThat(member.ended(member.jobs()
                                .enqueueNamed("order", Map.of("item", "rope", "quantity", 1))
                                .id())
                        .group())
                .isEqualTo("rope");
        UUID bySql = database.jdbc()
                .sql("SELECT forge_enqueue('order', '{\"item\": \"net\", \"quantity\": 1}')")
                .query(UUID.class)
                .single();
        JobInfo job = member.ended(bySql);
        assertThat(job.result()).isEqualTo("\"net\"");
        assertThat(job.attempts()).isOne();
    }

    @Test
    void job_whose_group_cannot_be_determined_is_rejected_or_fails() {
        work.on(
                job("order")
                        .taking(Order.class)
                        .grouped(
                                payload -> {
                                    throw new IllegalArgumentException("the group cannot be determined");
                                },
                                JobLimits.none(),
                                false),
                (payload, context) -> null);
        var reported = new ConcurrentHashMap<UUID, String>();
        work.monitor = new JobMonitor() {
            @Override
            public void failed(UUID id, String name, JobStatus status, String error) {
                reported.put(
                        id,
                        database.jdbc()
                                .sql("SELECT status FROM forge_jobs WHERE id = ?")
                                .param(id)
                                .query(String.class)
                                .single());
            }
        };
        Member member = cluster.start("one", work, UnaryOperator.identity());

        assertThatThrownBy(() -> member.jobs().enqueue(new Order("anvil", 2)))
                .isInstanceOf(JobRejectedException.class)
                .hasMessageContaining("the group cannot be determined");
        UUID bySql = database.jdbc()
                .sql("SELECT forge_enqueue('order', '{\"item\": \"net\", \"quantity\": 1}')")
                .query(UUID.class)
                .single();
        JobInfo job = member.ended(bySql);
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.lastError()).contains("the group cannot be determined");
        // It is reported when it is written, not before.
        await().untilAsserted(() -> assertThat(reported).containsEntry(bySql, "failed"));
    }

    @Test
    void explanation_names_the_limit_the_group_and_the_holders() throws InterruptedException {
        var release = new CountDownLatch(1);
        work.on(job("full").grouped(null, JobLimits.none().withGroupConcurrency(1), false), (payload, context) -> {
            release.await();
            return null;
        });
        work.on(job("ordered").grouped(null, JobLimits.none(), true), (payload, context) -> {
            release.await();
            return null;
        });
        work.on(
                job("rare").grouped(null, JobLimits.none().withGroupRate(RateLimit.of(1, Duration.ofHours(1))), false),
                (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        try {
            UUID holder = member.jobs().enqueueNamed("full", null, in("acme")).id();
            await().until(() -> member.jobs().find(holder).orElseThrow().status() == JobStatus.RUNNING);
            JobExplanation full = member.operations()
                    .explain(
                            member.jobs().enqueueNamed("full", null, in("acme")).id());
            assertThat(full.reason()).isEqualTo(JobExplanation.Reason.GROUP_FULL);
            assertThat(full.text())
                    .contains(
                            "At most 1 job of group 'acme' runs at a time. This one does: ",
                            holder.toString(),
                            "on node one (%s) since".formatted(member.node().id()));

            UUID first = member.jobs().enqueueNamed("ordered", null, in("acme")).id();
            JobExplanation later = member.operations()
                    .explain(member.jobs()
                            .enqueueNamed("ordered", null, in("acme"))
                            .id());
            assertThat(later.reason()).isEqualTo(JobExplanation.Reason.WAITING_FOR_ORDER);
            assertThat(later.text()).contains("'acme'", first.toString());

            member.ended(member.jobs().enqueueNamed("rare", null, in("acme")).id());
            JobExplanation rare = member.operations()
                    .explain(
                            member.jobs().enqueueNamed("rare", null, in("acme")).id());
            assertThat(rare.reason()).isEqualTo(JobExplanation.Reason.GROUP_RATE);
            assertThat(rare.text()).contains("'acme'", "allows the next start at");
        } finally {
            release.countDown();
        }
    }

    @Test
    void limit_of_a_name_holds_for_jobs_with_and_without_a_group() {
        work.poll = Duration.ofMinutes(1);
        var all = new AtomicInteger();
        work.on(job("job").grouped(null, JobLimits.none().withConcurrency(3), false), (payload, context) -> {
            most.accumulateAndGet(all.incrementAndGet(), Math::max);
            order.add(context.id());
            Thread.sleep(2);
            all.decrementAndGet();
            return null;
        });
        Member one = cluster.start("one", work, UnaryOperator.identity());
        cluster.start("two", work, UnaryOperator.identity());
        for (int i = 0; i < 200; i++) {
            one.jobs().enqueueNamed("job", null, i % 2 == 0 ? in("g" + i % 10) : JobOptions.defaults());
        }
        awaitAllEnded();
        assertThat(most).hasValue(3);
        assertThat(order).hasSize(200).doesNotHaveDuplicates();
    }

    @Test
    void limit_that_is_set_while_jobs_run_takes_effect_when_all_nodes_know_it() {
        work.slots = 4;
        var all = new AtomicInteger();
        var limited = new AtomicBoolean();
        var go = new CountDownLatch(1);
        work.on(job("job"), (payload, context) -> {
            all.incrementAndGet();
            go.await();
            if (limited.get()) {
                most.accumulateAndGet(all.get(), Math::max);
            }
            Thread.sleep(2);
            all.decrementAndGet();
            return null;
        });
        database.jdbc()
                .sql("INSERT INTO forge_jobs (id, name) SELECT gen_random_uuid(), 'job' FROM generate_series(1, 500)")
                .update();
        Member one = cluster.start("one", work, UnaryOperator.identity());
        cluster.start("two", work, UnaryOperator.identity());
        await().until(() -> all.get() == 2 * work.slots);
        one.operations().setLimits("job", JobLimits.none().withConcurrency(2));
        // Jobs that nodes had claimed before run first.
        go.countDown();
        await().until(() -> database.jdbc()
                        .sql("SELECT count(*) FROM forge_jobs WHERE status IN ('claimed', 'running')")
                        .query(Integer.class)
                        .single()
                <= 2);
        limited.set(true);
        awaitAllEnded();
        assertThat(most.get()).isBetween(1, 2);
    }

    @Test
    void limits_are_set_and_reset_at_run_time() {
        work.on(
                job("job").alias("former").grouped(null, JobLimits.none().withGroupConcurrency(1), false),
                (payload, context) -> watch(context));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        assertThat(member.operations().limits("job")).isEqualTo(JobLimits.none().withGroupConcurrency(1));

        JobLimits more =
                JobLimits.none().withGroupConcurrency(3).withGroupRate(RateLimit.of(100, Duration.ofMinutes(1)));
        member.operations().setLimits("former", more);
        assertThat(member.operations().limits("job")).isEqualTo(more);
        assertThat(member.operations().resetLimits("job")).isTrue();
        assertThat(member.operations().limits("former"))
                .isEqualTo(JobLimits.none().withGroupConcurrency(1));
        assertThat(member.operations().resetLimits("job")).isFalse();

        assertThatThrownBy(() -> member.operations().setLimits("unknown", more))
                .isInstanceOf(UnknownJobException.class);
        assertThatThrownBy(() -> JobLimits.none().withGroupConcurrency(0))
                .hasMessage("JobLimits: groupConcurrency (0) must be at least 1");
        assertThatThrownBy(() -> member.operations().setGroupWeight("job", "a", 0))
                .hasMessage("JobOperations.setGroupWeight: weight (0) must be between 1 and 1000");
    }

    @Test
    void group_must_be_storable() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());

        for (String group : List.of("", "a\nb", "x".repeat(501))) {
            assertThatThrownBy(() -> member.jobs().enqueueNamed("job", null, in(group)))
                    .isInstanceOf(JobRejectedException.class)
                    .hasMessageContaining("group");
        }
    }

    @Test
    void many_groups_and_jobs_without_a_group_run_side_by_side() {
        work.on(job("job").grouped(null, JobLimits.none().withGroupConcurrency(1), false), (payload, context) -> {
            order.add(context.id());
            return null;
        });
        Member one = cluster.start("one", work, UnaryOperator.identity());
        cluster.start("two", work, UnaryOperator.identity());
        for (int i = 0; i < 500; i++) {
            one.jobs().enqueueNamed("job", null, i % 2 == 0 ? in("g" + i % 100) : JobOptions.defaults());
        }
        awaitAllEnded();
        assertThat(order).hasSize(500).doesNotHaveDuplicates();
    }
}
