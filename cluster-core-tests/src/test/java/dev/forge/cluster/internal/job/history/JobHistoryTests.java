// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.operations.JobHistory;
import dev.forge.cluster.job.operations.JobHistoryQuery;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** What nodes write about the jobs that they run. */
@ClusterPostgres
class JobHistoryTests {

    private static final String INSERT = "INSERT INTO \"public\".forge_job_history";

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final TestCluster cluster;

    JobHistoryTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private TestJobs jobs() {
        var jobs = new TestJobs(database.dataSource());
        jobs.monitor = new JobHistoryCounters();
        return jobs;
    }

    private JobHistoryKeeper history(Member member) {
        return cluster.histories.get(member.node());
    }

    private long sum(String column, String name) {
        return jdbc.sql("SELECT coalesce(sum(%s), 0)::bigint FROM forge_job_history WHERE name = ?".formatted(column))
                .param(name)
                .query(Long.class)
                .single();
    }

    private long counted(String buckets, String name) {
        return jdbc.sql("SELECT coalesce(sum(n), 0)::bigint FROM forge_job_history, unnest(%s) AS n WHERE name = ?"
                        .formatted(buckets))
                .param(name)
                .query(Long.class)
                .single();
    }

    private void enqueue(Member member, String name, int jobs) {
        for (int i = 0; i < jobs; i++) {
            member.jobs().enqueueNamed(name, null);
        }
    }

    private void awaitNoJobs() {
        await().until(() ->
                jdbc.sql("SELECT count(*) FROM forge_jobs").query(Long.class).single() == 0);
    }

    // Sums --------------------------------------------------------------------------------------------------

    private TestJobs purging() {
        TestJobs jobs = jobs();
        jobs.retention = Duration.ZERO;
        return jobs.on("mail", context -> {}).on(job("booked").in(jobs.transaction()), (payload, context) -> null);
    }

    @Test
    void jobs_that_are_purged_at_once_are_counted_once_by_two_nodes_and_across_a_restart() {
        Member one = cluster.start("one", purging(), UnaryOperator.identity());
        Member two = cluster.start("two", purging(), UnaryOperator.identity());
        enqueue(one, "mail", 200);
        enqueue(two, "booked", 50);
        awaitNoJobs();
        history(one).flush();
        two.stop();
        Member again = cluster.start("two", purging(), UnaryOperator.identity());
        enqueue(again, "mail", 100);
        awaitNoJobs();
        one.stop();
        again.stop();
        assertThat(sum("completed", "mail")).isEqualTo(300);
        assertThat(sum("completed", "booked")).isEqualTo(50);
        assertThat(sum("completed", "")).isEqualTo(350);
        assertThat(sum("failed + retried + recovered", "")).isZero();
        assertThat(counted("waits", "")).isEqualTo(350);
        assertThat(counted("runs", "mail")).isEqualTo(300);
    }

    @Test
    void failed_jobs_failed_attempts_and_recoveries_are_counted_apart() {
        TestJobs jobs = jobs();
        jobs.on(job("broken").attempts(3), (payload, context) -> {
            throw new IllegalStateException("boom");
        });
        var calls = new AtomicInteger();
        jobs.on(
                job("later"),
                (payload, context) -> calls.incrementAndGet() == 1 ? Outcome.snooze(Duration.ofMillis(1)) : null);
        jobs.on("rescued", context -> {});
        Member member = cluster.start("one", jobs, UnaryOperator.identity());
        member.ended(member.jobs().enqueueNamed("broken", null).id());
        member.ended(member.jobs().enqueueNamed("later", null).id());
        UUID crashed = cluster.insertNode("crashed", 123, "10 minutes", "15 minutes");
        UUID held = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, claimed_at, started_at, lease_expires_at, attempts)
                VALUES (?, 'rescued', 'running', ?, 1, now(), now(), now() + interval '1 hour', 1)
                """).params(held, crashed).update();
        member.ended(held);
        history(member).flush();
        assertThat(sum("failed", "broken")).isOne();
        assertThat(sum("retried", "broken")).isEqualTo(2);
        assertThat(sum("completed", "broken")).isZero();
        assertThat(counted("runs", "broken")).isEqualTo(3);
        assertThat(sum("completed", "later")).isOne();
        assertThat(counted("runs", "later")).isOne();
        assertThat(counted("waits", "later")).isEqualTo(2);
        await().untilAsserted(() -> {
            history(member).flush();
            assertThat(sum("recovered", "rescued")).isOne();
            assertThat(sum("completed", "rescued")).isOne();
        });
    }

    @Test
    void jobs_of_a_call_for_many_are_counted_one_by_one() {
        TestJobs jobs = jobs();
        jobs.onMany(job("bulk"), 10, Duration.ofMillis(50), (payloads, contexts) -> null);
        Member member = cluster.start("one", jobs, UnaryOperator.identity());
        enqueue(member, "bulk", 25);
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'completed'")
                        .query(Long.class)
                        .single()
                == 25);
        member.stop();
        assertThat(sum("completed", "bulk")).isEqualTo(25);
        assertThat(counted("runs", "bulk")).isEqualTo(25);
    }

    // Statements --------------------------------------------------------------------------------------------

    /** When the response to the commit of a batch is lost. */
    private enum Loss {
        BEFORE_THE_COMMIT,
        AFTER_THE_COMMIT
    }

    /** Counts the statements that add to the history, and may cut the connection at the next commit of one. */
    private final class Watched extends DelegatingDataSource {

        private final AtomicInteger inserts = new AtomicInteger();
        private final AtomicReference<Loss> next = new AtomicReference<>();

        Watched() {
            super(database.newSessions());
        }

        @Override
        public Connection getConnection() throws SQLException {
            Connection real = super.getConnection();
            boolean[] inserting = {false};
            return (Connection) Proxy.newProxyInstance(
                    Connection.class.getClassLoader(),
                    new Class<?>[] {Connection.class},
                    (proxy, method, arguments) -> {
                        if (method.getName().equals("prepareStatement")) {
                            inserting[0] = arguments[0].toString().startsWith(INSERT)
                                    && arguments[0].toString().contains("pg_current_xact_id");
                            inserts.addAndGet(inserting[0] ? 1 : 0);
                        }
                        Loss loss = method.getName().equals("commit") && inserting[0] ? next.getAndSet(null) : null;
                        try {
                            Object result = loss == Loss.BEFORE_THE_COMMIT ? null : method.invoke(real, arguments);
                            if (loss != null) {
                                real.abort(Runnable::run);
                                throw new SQLException("somebody pulled the cable", "08006");
                            }
                            return result;
                        } catch (InvocationTargetException e) {
                            throw e.getCause();
                        }
                    });
        }
    }

    @Test
    void jobs_send_no_statement_of_their_own() {
        var watched = new Watched();
        TestJobs jobs = jobs();
        jobs.on("mail", context -> {});
        Member member = cluster.start("one", watched, jobs, UnaryOperator.identity());
        long began = System.nanoTime();
        enqueue(member, "mail", 500);
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'completed'")
                        .query(Long.class)
                        .single()
                == 500);
        history(member).flush();
        long intervals = Duration.ofNanos(System.nanoTime() - began).toSeconds() / 10;
        assertThat(watched.inserts.get()).isBetween(1, (int) intervals + 3);
        await().until(() -> member.engine().load() == 0);
        history(member).flush();
        int before = watched.inserts.get();
        history(member).flush();
        assertThat(watched.inserts.get()).isEqualTo(before);
        assertThat(sum("completed", "mail")).isEqualTo(500);
    }

    @ParameterizedTest
    @EnumSource
    void batch_whose_response_was_lost_counts_once(Loss loss) {
        var watched = new Watched();
        TestJobs jobs = jobs();
        jobs.on("mail", context -> {});
        Member member = cluster.start("one", watched, jobs, UnaryOperator.identity());
        watched.next.set(loss);
        member.ended(member.jobs().enqueueNamed("mail", null).id());
        await().until(() -> member.engine().load() == 0);
        // The loop may have come first.
        history(member).flush();
        await().until(() -> watched.next.get() == null);
        member.ended(member.jobs().enqueueNamed("mail", null).id());
        await().untilAsserted(() -> {
            history(member).flush();
            assertThat(sum("completed", "mail")).isEqualTo(2);
        });
        history(member).flush();
        assertThat(sum("completed", "mail")).isEqualTo(2);
        assertThat(counted("runs", "")).isEqualTo(2);
    }

    // The leader --------------------------------------------------------------------------------------------

    private Member leader(TestJobs jobs) {
        Member member = cluster.start("one", jobs, UnaryOperator.identity());
        await().until(() -> member.node().elector().isLeader(Leadership.METRICS_AGGREGATOR));
        return member;
    }

    @Test
    void leader_samples_the_backlog_of_each_name_and_of_all() {
        TestJobs jobs = jobs();
        jobs.on("mail", context -> {});
        Member member = leader(jobs);
        member.jobs().pause("mail");
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, scheduled_at)
                SELECT gen_random_uuid(), CASE WHEN n <= 3 THEN 'mail' ELSE 'ghost' END, now() - interval '1 hour'
                FROM generate_series(1, 5) AS n
                """).update();
        jdbc.sql("DELETE FROM forge_job_history").update();
        await().untilAsserted(() -> {
            history(member).aggregate();
            JobHistory all = member.operations().history(JobHistoryQuery.last(Duration.ofMinutes(5)));
            assertThat(all.points())
                    .filteredOn(point -> point.backlog() != null)
                    .anySatisfy(point -> {
                        assertThat(point.backlog().due()).isEqualTo(5);
                        assertThat(point.backlog().oldestDueAge()).isGreaterThanOrEqualTo(Duration.ofMinutes(59));
                        assertThat(point.backlog().running()).isZero();
                    });
        });
        JobHistory one = member.operations()
                .history(JobHistoryQuery.last(Duration.ofMinutes(5)).withName("mail"));
        assertThat(one.points())
                .anyMatch(point -> point.backlog() != null && point.backlog().due() == 3);
        JobHistory unknown = member.operations()
                .history(JobHistoryQuery.last(Duration.ofMinutes(5)).withName("none"));
        assertThat(unknown.points())
                .anyMatch(point -> point.backlog() != null && point.backlog().due() == 0);
    }

    @Test
    void leader_whose_term_is_over_writes_nothing() {
        // No node stands for election, so nothing but this test makes a pass.
        Member member = cluster.start(
                "one", jobs(), settings -> TestNodes.withRoles(settings, Set.of(NodeRole.WORKER, NodeRole.FUNCTION)));
        UUID self = member.node().id();
        long term = 7;
        jdbc.sql("INSERT INTO forge_leaders (role, node_id, current_term) VALUES ('metrics_aggregator', ?, ?)")
                .params(self, term)
                .update();
        jdbc.sql("""
                INSERT INTO forge_job_history (name, slot, minutes, completed)
                VALUES ('old', date_bin('1 minute', now() - interval '8 hours', '2000-01-01'), 1, 1),
                       ('older', date_bin('10 minutes', now() - interval '8 days', '2000-01-01'), 10, 1)
                """).update();
        history(member).aggregate(self, term - 1);
        history(member).aggregate(UUID.randomUUID(), term);
        assertThat(jdbc.sql("SELECT name || minutes FROM forge_job_history ORDER BY 1")
                        .query(String.class)
                        .list())
                .containsExactly("old1", "older10");
        history(member).aggregate(self, term);
        assertThat(jdbc.sql("SELECT name || minutes FROM forge_job_history WHERE name <> '' ORDER BY 1")
                        .query(String.class)
                        .list())
                .containsExactly("old10");
        assertThat(sum("CASE WHEN due IS NOT NULL THEN 1 END", "")).isPositive();
    }

    @Test
    void samples_of_names_beyond_the_bound_are_added_up() {
        TestJobs jobs = jobs();
        Member member = leader(jobs);
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, scheduled_at)
                SELECT gen_random_uuid(), 'name-' || n, now() - interval '1 minute' FROM generate_series(1, 250) AS n
                """).update();
        List<JobHistoryStore.Sample> samples = history(member).samples();
        assertThat(samples).hasSize(JobHistoryCounters.MOST_NAMES + 2);
        assertThat(samples)
                .filteredOn(one -> one.name().equals(JobHistoryCounters.OTHER_NAMES))
                .extracting(JobHistoryStore.Sample::due)
                .containsExactly(50L);
        assertThat(samples)
                .filteredOn(one -> one.name().isEmpty())
                .extracting(JobHistoryStore.Sample::due)
                .containsExactly(250L);
    }
}
