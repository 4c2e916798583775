// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The order in which a node starts jobs while it has a backlog. */
@ClusterPostgres
class ClaimOrderTests {

    private static final Duration LONG = Duration.ofMinutes(5);

    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestJobs work;
    private final AtomicInteger backlogStarts = new AtomicInteger();

    ClaimOrderTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private static void until(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    }

    private Member start() {
        return cluster.start("one", work, UnaryOperator.identity());
    }

    /** Inserts jobs of many names, each with many priorities below CRITICAL. */
    private int backlog(int names, int priorities, int jobsPerQueue) {
        for (int i = 0; i < names; i++) {
            work.on("backlog-" + i, context -> backlogStarts.incrementAndGet());
        }
        return insertBacklog(names, priorities, jobsPerQueue);
    }

    private int insertBacklog(int names, int priorities, int jobsPerQueue) {
        return jdbc.sql("""
                INSERT INTO forge_jobs (id, name, priority, body_bytes)
                SELECT gen_random_uuid(), 'backlog-' || n, p, 4
                FROM generate_series(0, :names - 1) AS n, generate_series(1, :priorities) AS p,
                     generate_series(1, :jobs) AS j
                """)
                .param("names", names)
                .param("priorities", priorities)
                .param("jobs", jobsPerQueue)
                .update();
    }

    /** A job that measures how long it waits. */
    private final class Probe {
        final String name;
        final AtomicLong enqueued = new AtomicLong();
        final AtomicInteger startedBefore = new AtomicInteger();
        final CopyOnWriteArrayList<Integer> overtakers = new CopyOnWriteArrayList<>();
        final CopyOnWriteArrayList<Long> millis = new CopyOnWriteArrayList<>();

        Probe(String name) {
            this.name = name;
            work.on(name, context -> {
                millis.add((System.nanoTime() - enqueued.get()) / 1_000_000);
                overtakers.add(backlogStarts.get() - startedBefore.get());
            });
        }

        void enqueue(Member member, JobPriority priority) {
            startedBefore.set(backlogStarts.get());
            enqueued.set(System.nanoTime());
            member.jobs().enqueueNamed(name, null, JobOptions.defaults().withPriority(priority));
        }
    }

    /** Repeatedly enqueues an urgent job, and a job for another executor, while the node works on the backlog. */
    private List<Long> probe(int names, int priorities, int jobsPerQueue, int times) {
        var urgent = new Probe("urgent");
        // The name selects the executor.
        var other = new Probe("slow-other");
        int backlog = backlog(names, priorities, jobsPerQueue);
        Member member = start();
        for (int i = 1; i <= times; i++) {
            int begun = backlog * i / (times * 2 + 2);
            await().atMost(LONG).pollInterval(Duration.ofMillis(1)).until(() -> backlogStarts.get() > begun);
            urgent.enqueue(member, JobPriority.CRITICAL);
            other.enqueue(member, JobPriority.LOW);
            int answered = i;
            await().atMost(LONG)
                    .pollInterval(Duration.ofMillis(1))
                    .until(() -> urgent.millis.size() == answered && other.millis.size() == answered);
        }
        System.out.printf(
                "%d jobs in %d queues: a CRITICAL job starts after %s ms and %s others, one of another executor after %s ms and %s others%n",
                backlog, names * priorities, urgent.millis, urgent.overtakers, other.millis, other.overtakers);
        assertThat(urgent.overtakers).allSatisfy(others -> assertThat(others).isLessThan(backlog / 3));
        assertThat(other.overtakers).allSatisfy(others -> assertThat(others).isLessThan(backlog / 3));
        var all = new ArrayList<>(urgent.millis);
        all.addAll(other.millis);
        return all;
    }

    @Test
    void urgent_job_and_other_executor_do_not_wait_for_the_backlog() {
        probe(50, 4, 150, 1);
    }

    @Test
    @Tag("soak")
    void urgent_job_and_other_executor_start_within_200_ms_beside_800_queues() {
        assertThat(probe(200, 4, 100, 10))
                .allSatisfy(millis -> assertThat(millis).isLessThan(200));
    }

    @Test
    @Tag("soak")
    void urgent_job_and_other_executor_start_within_200_ms_beside_20000_queues() {
        assertThat(probe(200, 99, 4, 10))
                .allSatisfy(millis -> assertThat(millis).isLessThan(200));
    }

    @Test
    void urgent_job_overtakes_prefetched_jobs() throws Exception {
        var order = new CopyOnWriteArrayList<String>();
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 40;
        work.on("first", context -> until(go));
        work.on("usual", context -> order.add("usual"));
        work.on("urgent", context -> order.add("urgent"));
        Member member = start();
        member.jobs().enqueueNamed("first", null);
        await().until(() -> member.engine().load() == 1);
        IntStream.range(0, 5).forEach(i -> member.jobs().enqueueNamed("usual", null));
        await().until(() -> member.engine().load() == 6);
        member.jobs().enqueueNamed("urgent", null, JobOptions.defaults().withPriority(JobPriority.CRITICAL));
        await().until(() -> member.engine().load() == 7);
        go.countDown();
        await().until(() -> order.size() == 6);
        assertThat(order.get(0)).isEqualTo("urgent");
    }

    @Test
    void prefetched_job_of_low_priority_starts_beside_endless_urgent_ones() throws Exception {
        var urgentStarts = new AtomicInteger();
        var before = new CopyOnWriteArrayList<Integer>();
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 100;
        work.on("first", context -> until(go));
        work.on("urgent", context -> urgentStarts.incrementAndGet());
        work.on("low", context -> before.add(urgentStarts.get()));
        Member member = start();
        member.jobs().enqueueNamed("first", null);
        await().until(() -> member.engine().load() == 1);
        member.jobs().enqueueNamed("low", null, JobOptions.defaults().withPriority(JobPriority.LOW));
        await().until(() -> member.engine().load() == 2);
        JobOptions critical = JobOptions.defaults().withPriority(JobPriority.CRITICAL);
        IntStream.range(0, 40).forEach(i -> member.jobs().enqueueNamed("urgent", null, critical));
        await().until(() -> member.engine().load() == 42);
        go.countDown();
        await().until(() -> before.size() == 1);
        assertThat(before.get(0)).as("urgent jobs that started first").isLessThan(20);
    }

    @Test
    void urgent_transactional_job_does_not_wait_for_the_backlog() {
        var overtakers = new CopyOnWriteArrayList<Integer>();
        var before = new AtomicInteger();
        work.on(job("urgent").in(work.transaction()), (payload, context) -> {
            overtakers.add(backlogStarts.get() - before.get());
            return null;
        });
        int backlog = backlog(1, 1, 30_000);
        Member member = start();
        await().atMost(LONG).pollInterval(Duration.ofMillis(1)).until(() -> backlogStarts.get() > 1_000);
        before.set(backlogStarts.get());
        member.jobs().enqueueNamed("urgent", null, JobOptions.defaults().withPriority(JobPriority.CRITICAL));
        await().atMost(LONG).until(() -> !overtakers.isEmpty());
        assertThat(overtakers.get(0)).isLessThan(backlog / 3);
    }

    @Test
    void prefetched_jobs_are_returned_when_their_executor_has_become_slow() {
        var slow = new AtomicBoolean();
        var turns = new Semaphore(0);
        var order = new CopyOnWriteArrayList<String>();
        work.slots = 2;
        work.on("backlog-0", context -> {
            backlogStarts.incrementAndGet();
            if (slow.get()) {
                order.add("usual");
                turns.acquire();
            }
        });
        work.on("urgent", context -> order.add("urgent"));
        insertBacklog(1, 1, 20_000);
        Member member = start();
        try {
            await().atMost(LONG).pollInterval(Duration.ofMillis(1)).until(() -> backlogStarts.get() > 3_000);
            slow.set(true);
            await().until(() -> order.size() == 2);
            // Jobs that are prefetched now would wait for the two slow ones: they must be available to other nodes.
            await().until(() -> held() == 2);
            member.jobs().enqueueNamed("urgent", null, JobOptions.defaults().withPriority(JobPriority.CRITICAL));
            turns.release();
            await().until(() -> order.size() > 2);
            assertThat(order).startsWith("usual", "usual", "urgent");
            assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE attempts + recoveries > 1 OR attempts > 1")
                            .query(Long.class)
                            .single())
                    .isZero();
        } finally {
            slow.set(false);
            turns.release(1_000);
        }
    }

    private long held() {
        return jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status IN ('claimed', 'running')")
                .query(Long.class)
                .single();
    }
}
