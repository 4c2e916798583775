// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.daemon.TestDaemons.daemon;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.daemon.TestDaemons;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Verifies that nodes continue although the logging library throws, for example because the disk is full. */
@ClusterPostgres
class LoggerFailureTests {

    private final JdbcClient jdbc;
    private final TestDaemons daemons;
    private final TestCluster cluster;
    private final TestJobs work;

    /** Selects the loggers that throw. */
    private volatile Predicate<String> broken = name -> false;

    private final ThrowingLoggers loggers = new ThrowingLoggers(name -> broken.test(name));

    LoggerFailureTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.daemons = new TestDaemons(database);
        this.cluster = daemons.cluster;
        this.work = new TestJobs(database.dataSource());
    }

    @AfterEach
    void close() {
        loggers.close();
        daemons.close();
    }

    private void awaitThrowing(String logger) {
        await().until(() -> loggers.thrown.contains(logger));
    }

    @Test
    void claimer_survives_a_logger_that_throws() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        broken = "Claimer"::equals;
        jdbc.sql("ALTER TABLE forge_job_pauses RENAME TO hidden").update();
        UUID id;
        try {
            id = member.jobs().enqueueNamed("job", null).id();
            awaitThrowing("Claimer");
        } finally {
            jdbc.sql("ALTER TABLE hidden RENAME TO forge_job_pauses").update();
        }
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void finisher_survives_a_logger_that_throws() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        jdbc.sql("""
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$
                """).update();
        jdbc.sql("""
                CREATE TRIGGER refuse BEFORE UPDATE OF status ON forge_jobs FOR EACH ROW
                WHEN (NEW.status = 'completed') EXECUTE FUNCTION refuse()
                """).update();
        UUID id;
        try {
            broken = "Finisher"::equals;
            id = member.jobs().enqueueNamed("job", null).id();
            awaitThrowing("Finisher");
        } finally {
            jdbc.sql("DROP FUNCTION refuse CASCADE").update();
        }
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        await().until(() -> member.engine().load() == 0);
    }

    @Test
    void session_survives_a_logger_that_throws_and_leads_again() {
        Member member = cluster.start("one", work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        long term = cluster.term(Leadership.SCHEDULER);
        broken = "Elector"::equals;
        jdbc.sql("SELECT pg_terminate_backend(backend_pid) FROM forge_leader_leases WHERE role = ?")
                .param(Leadership.SCHEDULER)
                .query((row, n) -> true)
                .list();
        awaitThrowing("Elector");
        await().until(() ->
                cluster.term(Leadership.SCHEDULER) > term && member.leadership().isLeader(Leadership.SCHEDULER));
    }

    @Test
    void node_that_was_declared_dead_joins_again_although_its_logger_throws() {
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID former = member.node().id();
        broken = "Node"::equals;
        jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE id = ?")
                .param(former)
                .update();
        awaitThrowing("Node");
        await().until(() -> !former.equals(member.node().id()));
    }

    /** An exception whose getCause throws. */
    private static final class Unanswerable extends IllegalStateException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }

        @Override
        public synchronized Throwable getCause() {
            throw new IllegalStateException("no cause");
        }
    }

    @Test
    void daemon_starts_and_restarts_although_its_logger_throws() {
        var calls = new AtomicInteger();
        broken = "DaemonSupervisor"::equals;
        daemons.start("one", daemon("feed").running(context -> {
            if (calls.incrementAndGet() < 3) {
                throw new Unanswerable();
            }
            context.awaitStop(Duration.ofMinutes(1));
        }));
        awaitThrowing("DaemonSupervisor");
        await().until(() -> calls.get() >= 3);
    }

    @Test
    void jobs_fail_retry_and_complete_although_every_logger_throws() {
        broken = name -> true;
        work.on("flaky", context -> {
            if (context.attempt() < 3) {
                throw new Unanswerable();
            }
        });
        work.on("failing", context -> {
            throw new Unanswerable();
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID flaky = member.jobs().enqueueNamed("flaky", null).id();
        UUID failing = member.jobs().enqueueNamed("failing", null).id();
        assertThat(member.ended(flaky).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.ended(flaky).attempts()).isEqualTo(3);
        assertThat(member.ended(failing).attempts()).isEqualTo(3);
        assertThat(loggers.thrown).contains("EndDecisions");
    }
}
