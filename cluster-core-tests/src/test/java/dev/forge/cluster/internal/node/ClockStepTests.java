// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** A server whose clock is set forward or back: the search path of the nodes has a replacement of clock_timestamp(). */
@ClusterPostgres
class ClockStepTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final TestCluster cluster;

    ClockStepTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private String job(String name) {
        return jdbc.sql("SELECT status || ' ' || recoveries FROM forge_jobs WHERE name = ?")
                .param(name)
                .query(String.class)
                .single();
    }

    /** Returns connections whose clock is ahead of that of the server. */
    private DataSource stepping(String ahead) {
        jdbc.sql("DROP SCHEMA IF EXISTS stepping CASCADE").update();
        jdbc.sql("CREATE SCHEMA stepping").update();
        jdbc.sql("CREATE TABLE stepping.step AS SELECT interval '%s' AS ahead".formatted(ahead))
                .update();
        jdbc.sql("""
                CREATE FUNCTION stepping.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
                AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM stepping.step'
                """).update();
        return new DriverManagerDataSource(
                database.url() + (database.url().contains("?") ? "&" : "?")
                        + "currentSchema=stepping,pg_catalog,public",
                database.username(),
                database.password());
    }

    @Test
    void step_of_the_clock_takes_no_job_from_a_live_node() {
        DataSource direct = stepping("0");
        var release = new CountDownLatch(1);
        var work = new TestJobs(database.dataSource())
                .on(
                        "long",
                        context ->
                                assertThat(release.await(5, TimeUnit.MINUTES)).isTrue());
        work.heartbeat = Duration.ofMillis(500);
        // A gap of three sweeps restarts the grace period; a shorter pause of this machine ends within that period.
        work.sweep = Duration.ofSeconds(1);
        work.grace = Duration.ofSeconds(5);
        Member one = cluster.start("one", direct, work, UnaryOperator.identity());
        UUID id = one.jobs().enqueueNamed("long", null).id();
        await().until(() -> job("long").startsWith("running"));
        // The sweeper takes jobs whose lease has ended, once the grace period after its start is over.
        UUID other = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                VALUES (?, 'other', 'other', 'host', '{worker}', 'active', '1', now() + interval '1 hour',
                        now() + interval '2 hours')
                """).param(other).update();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, claimed_at, lease_expires_at)
                VALUES (gen_random_uuid(), 'overdue', 'running', ?, 1, now() - interval '2 minutes', now() - interval '1 minute')
                """).param(other).update();
        await().until(() -> job("overdue").equals("pending 1"));
        jdbc.sql("UPDATE stepping.step SET ahead = interval '10 minutes'").update();
        await().until(() -> jdbc.sql(
                        "SELECT lease_expires_at > now() + interval '9 minutes' FROM forge_jobs WHERE name = 'long'")
                .query(Boolean.class)
                .single());
        await().during(Duration.ofSeconds(7)).until(() -> job("long").equals("running 0"));
        release.countDown();
        assertThat(one.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void step_back_that_only_this_node_has_seen_holds_up_no_due_job() {
        DataSource direct = stepping("10 minutes");
        var work = new TestJobs(database.dataSource()).on("job", context -> {});
        work.sweep = Duration.ofMillis(100);
        Member one = cluster.start("one", direct, work, UnaryOperator.identity());
        // The sweeper has seen the clock when it has taken a job from a node that does not exist.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, claimed_at, lease_expires_at)
                VALUES (gen_random_uuid(), 'lost', 'running', gen_random_uuid(), 1, now(), now())
                """).update();
        await().until(() -> job("lost").equals("pending 1"));
        UUID due = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, created_at, scheduled_at)
                VALUES (?, 'job', now() + interval '9 minutes', now() + interval '9 minutes')
                """).param(due).update();
        jdbc.sql("UPDATE stepping.step SET ahead = interval '0'").update();
        assertThat(one.ended(due).status()).isEqualTo(JobStatus.COMPLETED);
    }
}
