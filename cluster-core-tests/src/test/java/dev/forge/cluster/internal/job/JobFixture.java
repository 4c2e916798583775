// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Fixture with a cluster of nodes in this JVM, and handlers for their jobs. */
@ClusterPostgres
public abstract class JobFixture {

    record Order(String item, int quantity) {}

    final TestDatabase database;
    public final JdbcClient jdbc;
    public final TestCluster cluster;
    public final TestJobs work;

    public JobFixture(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (job uuid, attempt int)").update();
        jdbc.sql("TRUNCATE effects").update();
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    static void until(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    }

    static NodeSettings with(NodeSettings settings, NodeMode mode, Set<NodeRole> roles, List<String> offered) {
        return TestNodes.withCapabilities(TestNodes.withRoles(TestNodes.withMode(settings, mode), roles), offered);
    }

    List<Integer> effects(UUID id) {
        return jdbc.sql("SELECT attempt FROM effects WHERE job = ?")
                .param(id)
                .query(Integer.class)
                .list();
    }

    /** Waits until renewals have extended the lease of a job by that time since its claim. */
    void renewedFor(UUID plain, Duration time) {
        await().until(() -> jdbc.sql(
                        "SELECT lease_expires_at - claimed_at > ? * interval '1 millisecond' FROM forge_jobs WHERE id = ?")
                .params(time.plus(work.lease).toMillis(), plain)
                .query((row, n) -> row.getBoolean(1))
                .single());
    }

    static void refused(org.assertj.core.api.ThrowableAssert.ThrowingCallable enqueueing, String... words) {
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(enqueueing)
                .satisfies(e -> assertThat(e.getMessage()).contains(words));
    }

    TestJobs copy() {
        var copy = new TestJobs(database.dataSource());
        work.handlers().all().forEach(copy.handlers()::add);
        return copy;
    }
}
