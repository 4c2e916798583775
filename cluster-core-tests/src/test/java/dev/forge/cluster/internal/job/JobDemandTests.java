// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.tuple;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.job.operations.JobDemand.Entry;
import dev.forge.cluster.job.operations.JobDemand.Total;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The demand for workers. */
@ClusterPostgres
class JobDemandTests extends JobFixture {

    private static final Duration MINUTE = Duration.ofMinutes(1);

    JobDemandTests(TestDatabase database) {
        super(database);
    }

    private static Entry entry(JobDemand demand, String name) {
        return demand.entries().stream()
                .filter(entry -> entry.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private void rows(int count, String columns, String values) {
        jdbc.sql("INSERT INTO forge_jobs (id, %s) SELECT gen_random_uuid(), %s FROM generate_series(1, %d) AS n"
                        .formatted(columns, values, count))
                .update();
    }

    /** Adds a worker that exists as a row only, and so claims nothing. */
    private void worker(String capability, String... facts) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, worker_capabilities, executors, status, version,
                                         stale_at, dead_at)
                VALUES (:id, :key, 'w', 'h', '{worker}', ARRAY[:capability], :facts, 'active', '1', now() + interval '1 hour',
                        now() + interval '1 hour')
                """)
                .param("id", UUID.randomUUID())
                .param("key", UUID.randomUUID().toString())
                .param("capability", capability)
                .param("facts", facts)
                .update();
    }

    /** Starts a node that runs no jobs. */
    private Member reader() {
        return cluster.start(
                "reader",
                new TestJobs(database.dataSource()),
                settings -> with(settings, NodeMode.AUTO, Set.of(NodeRole.FUNCTION, NodeRole.SCHEDULER), List.of()));
    }

    private void register(String... names) {
        for (String name : names) {
            jdbc.sql("INSERT INTO forge_job_names (name) VALUES (?) ON CONFLICT DO NOTHING")
                    .param(name)
                    .update();
        }
    }

    @Test
    void running_worker_publishes_its_executors_and_jobs() throws Exception {
        var go = new CountDownLatch(1);
        work.on("slow", context -> until(go));
        work.on(job("quick").alias("former"), (payload, context) -> null);
        work.onMany(job("bulk"), 100, Duration.ofMillis(1), (payloads, contexts) -> List.of());
        Member member = cluster.start("one", work, UnaryOperator.identity());
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        for (int i = 0; i < 3; i++) {
            jobs.enqueueNamed("slow", null);
        }
        await().untilAsserted(() ->
                assertThat(entry(operations.demand(), "slow").running()).isEqualTo(1));
        JobDemand demand = operations.demand();
        assertThat(demand.entries()).extracting(Entry::name).containsExactly("bulk", "former", "quick", "slow");
        Entry slow = entry(demand, "slow");
        assertThat(slow.executor()).isEqualTo("slow");
        assertThat(slow.slots()).isEqualTo(1);
        assertThat(slow.due()).isEqualTo(new JobCount(2, true));
        assertThat(slow.startable()).isEqualTo(2);
        assertThat(slow.neededSlots(MINUTE)).isEqualTo(3);
        assertThat(slow.timeToDrain()).as("nothing has completed").isNull();
        assertThat(entry(demand, "bulk").callSize()).isEqualTo(100);
        Entry quick = entry(demand, "quick");
        assertThat(quick)
                .isEqualTo(new Entry("quick", null, "default", new JobCount(0, true), null, 0, 0, 4, 1, null, false));
        assertThat(quick.timeToDrain()).isZero();
        assertThat(demand.executors()).extracting(Total::name).containsExactly("default", "slow");
        assertThat(demand.executor("default").slots()).isEqualTo(4);
        assertThat(demand.executor("default").neededSlots(MINUTE)).isZero();
        assertThat(demand.executor("slow").neededSlots(MINUTE)).isEqualTo(3);
        assertThat(demand.executor("absent")).isEqualTo(new Total("absent", 0, List.of()));
        go.countDown();
        await().untilAsserted(() ->
                assertThat(entry(operations.demand(), "slow").due().jobs()).isZero());
        await().untilAsserted(() ->
                assertThat(entry(operations.demand(), "slow").meanDuration()).isNotNull());
    }

    @Test
    void slots_are_those_of_workers_with_the_handler_and_the_capability() {
        JobOperations operations = reader().operations();
        String route = "train\tjob-of-ml\tml\t1\tgpu";
        worker("gpu", "default\t10", "ml\t2", route);
        worker("gpu", "default\t10", "ml\t2", route);
        worker("general", "default\t7", "ml\t3", route);
        worker("general", "default\t7", "edited by hand", "default\tmany", "x\ty\tz\tmany\t");
        register("train");
        rows(5, "name, worker_capability", "'train', 'gpu'");
        rows(1, "name", "'train'");
        rows(1, "name, worker_capability", "'train', 'tpu'");
        JobDemand demand = operations.demand();
        assertThat(demand.entries())
                .extracting(
                        Entry::capability,
                        Entry::slots,
                        Entry::executor,
                        entry -> entry.due().jobs())
                .containsExactly(tuple(null, 7, "ml", 1L), tuple("gpu", 4, "ml", 5L), tuple("tpu", 0, "ml", 1L));
        assertThat(demand.executors())
                .extracting(Total::name, Total::slots, total -> total.neededSlots(MINUTE))
                .containsExactly(tuple("default", 34, 0L), tuple("ml", 7, 7L), tuple("slow", 0, 0L));
        assertThat(demand.capabilities())
                .extracting(Total::name, Total::slots, total -> total.neededSlots(MINUTE))
                .containsExactly(tuple("general", 17, 0L), tuple("gpu", 24, 5L), tuple("tpu", 0, 1L));
    }

    @Test
    void jobs_that_may_not_start_need_no_slots() {
        Member reader = reader();
        JobOperations operations = reader.operations();
        register("paused", "limited", "grouped", "gone");
        rows(9, "name", "'paused'");
        rows(9, "name", "'limited'");
        rows(2, "name, status", "'limited', 'running'");
        rows(1, "name, status", "'limited', 'claimed'");
        rows(9, "name, job_group", "'grouped', 'g'");
        rows(9, "name", "'gone'");
        rows(9, "name", "'never-known'");
        reader.jobs().pause("paused");
        operations.setLimits("limited", JobLimits.none().withConcurrency(5));
        operations.setLimits("grouped", JobLimits.none().withGroupConcurrency(2));
        JobDemand demand = operations.demand();
        assertThat(demand.entries())
                .extracting(
                        Entry::name,
                        entry -> entry.due().jobs(),
                        Entry::startable,
                        entry -> entry.neededSlots(MINUTE),
                        Entry::paused)
                .containsExactly(
                        tuple("gone", 9L, 9L, 9L, false),
                        tuple("grouped", 9L, 2L, 2L, false),
                        tuple("limited", 10L, 3L, 5L, false),
                        tuple("never-known", 9L, 0L, 0L, false),
                        tuple("paused", 9L, 0L, 0L, true));
        assertThat(demand.entries()).allMatch(entry -> entry.slots() == 0 && entry.timeToDrain() == null);
        assertThat(demand.executor("default").neededSlots(MINUTE)).isEqualTo(16);
        assertThat(demand.executor("default").timeToDrain()).as("no slots").isNull();
    }

    @Test
    void names_of_a_handler_share_its_limit() {
        JobOperations operations = reader().operations();
        worker("general", "default\t10", "new\tnew\tdefault\t1\t", "old\tnew\tdefault\t1\t");
        register("new", "old");
        rows(9, "name", "'new'");
        rows(9, "name", "'old'");
        rows(1, "name, status", "'old', 'running'");
        operations.setLimits("new", JobLimits.none().withConcurrency(4));
        assertThat(operations.demand().executor("default").neededSlots(MINUTE)).isEqualTo(4);
    }

    @Test
    void count_that_was_cut_off_is_not_exact() {
        JobOperations operations = reader().operations();
        register("many");
        rows(10_001, "name", "'many'");
        assertThat(entry(operations.demand(), "many").due()).isEqualTo(new JobCount(10_000, false));
        assertThat(operations.demand().executor("default").due()).isEqualTo(new JobCount(10_000, false));
        jdbc.sql("DELETE FROM forge_jobs WHERE id = (SELECT id FROM forge_jobs LIMIT 1)")
                .update();
        assertThat(entry(operations.demand(), "many").due()).isEqualTo(new JobCount(10_000, true));
    }

    @Test
    void capabilities_that_nobody_offers_do_not_hide_the_offered_ones() {
        JobOperations operations = reader().operations();
        worker("zgpu", "default\t10", "train\ttrain\tdefault\t1\t");
        register("train");
        rows(10_000, "name, worker_capability", "'train', 'junk-' || n");
        rows(500, "name, worker_capability", "'train', 'zgpu'");
        JobDemand demand = operations.demand();
        Total real = demand.capabilities().stream()
                .filter(total -> total.name().equals("zgpu"))
                .findFirst()
                .orElseThrow();
        assertThat(real.due()).isEqualTo(new JobCount(500, true));
        assertThat(real.neededSlots(MINUTE)).isEqualTo(500);
        assertThat(demand.executor("default").due().exact()).isFalse();
        assertThat(demand.entries())
                .as("1,000 others, the rest, and those of the worker")
                .hasSize(1_003);
        Entry rest = demand.entries().stream()
                .filter(entry -> JobDemand.OTHER.equals(entry.capability()))
                .findFirst()
                .orElseThrow();
        assertThat(rest.due()).isEqualTo(new JobCount(9_000, false));
        assertThat(rest.neededSlots(MINUTE)).isZero();
    }

    @Test
    void capability_that_a_handler_declares_is_not_hidden_while_its_workers_are_scaled_to_zero() {
        var gateway = new TestJobs(database.dataSource());
        gateway.handlers.add(new JobHandler(
                "train",
                List.of(),
                "zgpu",
                50,
                new JobHandler.Limits(3, TestJobs.AT_ONCE, 0, Set.of(), null, null),
                JobHandler.Grouping.NONE,
                new JobHandler.Target(null, null, (payload, context) -> null, "test")));
        JobOperations operations = cluster.start(
                        "reader",
                        gateway,
                        settings ->
                                with(settings, NodeMode.AUTO, Set.of(NodeRole.FUNCTION, NodeRole.SCHEDULER), List.of()))
                .operations();
        rows(2_000, "name, worker_capability", "'train', 'junk-' || n");
        rows(5, "name, worker_capability", "'train', 'zgpu'");
        assertThat(operations.demand().capabilities())
                .filteredOn(total -> total.name().equals("zgpu"))
                .extracting(total -> total.neededSlots(MINUTE))
                .containsExactly(5L);
    }

    @Test
    void groups_of_capabilities_that_nobody_offers_do_not_hide_what_may_start() {
        JobOperations operations = reader().operations();
        worker("zgpu", "default\t10", "train\ttrain\tdefault\t1\t");
        register("train");
        operations.setLimits("train", JobLimits.none().withGroupConcurrency(1));
        rows(3_000, "name, worker_capability, job_group", "'train', 'junk-' || n, 'g' || n");
        rows(200, "name, worker_capability, job_group", "'train', 'zgpu', 'g' || n");
        assertThat(operations.demand().capabilities())
                .filteredOn(total -> total.name().equals("zgpu"))
                .extracting(Total::startable)
                .containsExactly(200L);
    }

    @Test
    void known_duration_reduces_what_is_needed_and_tells_the_time_to_drain() {
        JobOperations operations = reader().operations();
        worker("general", "default\t10", "job\tjob\tdefault\t1\t");
        register("job");
        rows(100, "name", "'job'");
        rows(3, "name, status, started_at, finished_at", "'job', 'completed', now() - interval '3 seconds', now()");
        Entry entry = entry(operations.demand(), "job");
        assertThat(entry.meanDuration()).isEqualTo(Duration.ofSeconds(3));
        assertThat(entry.neededSlots(MINUTE)).isEqualTo(5);
        assertThat(entry.timeToDrain()).isEqualTo(Duration.ofSeconds(30));
        assertThat(entry.oldestDueAge()).isBetween(Duration.ZERO, Duration.ofHours(1));
    }

    // Calculations ----------------------------------------------------------------------------------------------

    private static Entry waiting(
            long due, long startable, long running, int slots, int callSize, @Nullable Duration mean) {
        return new Entry(
                "job",
                null,
                "default",
                new JobCount(due, true),
                Duration.ZERO,
                startable,
                running,
                slots,
                callSize,
                mean,
                false);
    }

    @Test
    void needed_slots_are_at_most_one_for_each_call_and_at_least_one() {
        Duration second = Duration.ofSeconds(1);
        assertThat(waiting(100, 100, 2, 4, 1, null).neededSlots(MINUTE)).isEqualTo(102);
        assertThat(waiting(100, 100, 2, 4, 1, second).neededSlots(MINUTE)).isEqualTo(2 + 2);
        assertThat(waiting(100, 100, 2, 4, 1, Duration.ofHours(1)).neededSlots(MINUTE))
                .isEqualTo(102);
        assertThat(waiting(100, 100, 0, 4, 1, Duration.ZERO).neededSlots(MINUTE))
                .isEqualTo(1);
        assertThat(waiting(100, 100, 20, 4, 10, null).neededSlots(MINUTE)).isEqualTo(2 + 10);
        assertThat(waiting(0, 0, 0, 4, 1, second).neededSlots(MINUTE)).isZero();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> waiting(1, 1, 0, 1, 1, null).neededSlots(Duration.ZERO))
                .withMessage("JobDemand.neededSlots: within (PT0S) must be longer than zero");
    }

    @Test
    void time_to_drain_uses_the_slots_that_limits_leave() {
        Duration second = Duration.ofSeconds(1);
        assertThat(waiting(100, 100, 0, 4, 1, second).timeToDrain()).isEqualTo(Duration.ofSeconds(25));
        assertThat(waiting(100, 0, 2, 4, 1, second).timeToDrain()).isEqualTo(Duration.ofSeconds(50));
        assertThat(waiting(2, 2, 0, 4, 1, second).timeToDrain()).isEqualTo(second);
        assertThat(waiting(100, 100, 0, 4, 10, second).timeToDrain()).isEqualTo(Duration.ofMillis(2_500));
        assertThat(waiting(100, 100, 0, 0, 1, second).timeToDrain()).isNull();
        assertThat(waiting(100, 100, 0, 4, 1, null).timeToDrain()).isNull();
        assertThat(waiting(100, 0, 0, 4, 1, second).timeToDrain()).isNull();
    }

    @Test
    void total_drains_when_its_slowest_entry_and_all_work_have() {
        Duration second = Duration.ofSeconds(1);
        var entries = new ArrayList<>(List.of(waiting(100, 100, 0, 4, 1, second), waiting(100, 100, 0, 4, 1, second)));
        assertThat(new Total("default", 4, entries).timeToDrain()).isEqualTo(Duration.ofSeconds(50));
        entries.add(waiting(100, 0, 1, 4, 1, second));
        assertThat(new Total("default", 4, entries).timeToDrain())
                .as("one at a time")
                .isEqualTo(Duration.ofSeconds(100));
        entries.add(waiting(9, 0, 0, 0, 1, null));
        assertThat(new Total("default", 4, entries).timeToDrain())
                .as("no handler")
                .isEqualTo(Duration.ofSeconds(100));
        entries.add(waiting(9, 0, 0, 4, 1, second));
        assertThat(new Total("default", 4, entries).timeToDrain())
                .as("a rate allows no start now")
                .isNull();
        assertThat(new Total("default", 0, List.of()).timeToDrain()).isZero();
    }
}
