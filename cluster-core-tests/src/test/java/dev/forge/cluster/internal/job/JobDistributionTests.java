// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.job.enqueue.JobAnnouncements;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** Distribution of jobs to nodes, and explanations of jobs that do not run. */
@ClusterPostgres
class JobDistributionTests extends JobFixture {

    JobDistributionTests(TestDatabase database) {
        super(database);
    }

    private static void hear(Connection connection, List<String> heard) throws SQLException {
        for (PGNotification notification : connection.unwrap(PGConnection.class).getNotifications(100)) {
            heard.add(notification.getParameter());
        }
    }

    @Test
    void lone_node_announces_its_jobs_when_another_node_joins() throws Exception {
        work.on("job", context -> {});
        Member alone = cluster.start("alone", work, UnaryOperator.identity());
        await().until(alone.node().peers()::isAlone);
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute("LISTEN "
                    + jdbc.sql("SELECT channel FROM forge_settings")
                            .query(String.class)
                            .single());
            var heard = new ArrayList<String>();
            alone.ended(alone.jobs()
                    .enqueueNamed("job", null, JobOptions.defaults())
                    .id());
            alone.engine().announcements().sendAnnouncement();
            alone.engine().notifyNodes("after the announcement");
            // Notifications arrive in the order of their commits.
            await().until(() -> {
                hear(connection, heard);
                return heard.contains("after the announcement");
            });
            assertThat(heard).noneMatch(message -> message.startsWith(JobAnnouncements.PENDING_JOBS));
            cluster.start("second", copy(), UnaryOperator.identity());
            await().until(() -> {
                hear(connection, heard);
                return heard.stream().anyMatch(message -> message.startsWith(JobAnnouncements.PENDING_JOBS));
            });
        }
    }

    @Test
    void nodes_run_only_jobs_that_they_have_handlers_for() {
        var one = new TestJobs(database.dataSource()).on("a", context -> {});
        var two = new TestJobs(database.dataSource()).on(job("b").alias("old-b"), (payload, context) -> null);
        Member first = cluster.start("one", one, UnaryOperator.identity());
        Member second = cluster.start("two", two, UnaryOperator.identity());
        UUID a = second.jobs().enqueueNamed("a", null).id();
        UUID b = first.jobs().enqueueNamed("b", null).id();
        UUID old = first.jobs().enqueueNamed("old-b", null).id();
        UUID unknown = jdbc.sql("SELECT forge_enqueue('c')").query(UUID.class).single();
        assertThat(first.ended(a).nodeId()).isEqualTo(first.node().id());
        assertThat(first.ended(b).nodeId()).isEqualTo(second.node().id());
        assertThat(first.ended(old).nodeId()).isEqualTo(second.node().id());
        assertThat(first.operations().explain(unknown).reason()).isEqualTo(Reason.UNKNOWN_NAME);
    }

    @Test
    void job_waits_for_a_node_with_its_capability() {
        work.on("render", context -> {});
        Member general = cluster.start("general", work, UnaryOperator.identity());
        UUID id = general.jobs()
                .enqueueNamed("render", null, JobOptions.defaults().withCapability("gpu"))
                .id();
        await().until(() -> general.operations().explain(id).reason() == Reason.NO_CAPABLE_WORKER);
        Member gpu = cluster.start(
                "gpu", copy(), s -> with(s, NodeMode.AUTO, Set.of(NodeRole.values()), List.of("general", "gpu")));
        long joined = System.nanoTime();
        JobInfo job = gpu.ended(id);
        assertThat(job.nodeId()).isEqualTo(gpu.node().id());
        System.out.printf(
                "a GPU job ended %d ms after a GPU node had joined%n", (System.nanoTime() - joined) / 1_000_000);
    }

    @Test
    void urgent_jobs_start_first_and_old_ones_do_not_starve() throws Exception {
        var order = new CopyOnWriteArrayList<Integer>();
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 0;
        work.on("gate", context -> until(go));
        work.on(job("order").taking(Order.class), (payload, context) -> {
            order.add(((Order) payload).quantity());
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID gate = member.jobs().enqueueNamed("gate", null).id();
        await().until(() -> member.jobs().find(gate).orElseThrow().status() == JobStatus.RUNNING);
        member.jobs().enqueue(new Order("background", 0), JobOptions.defaults().withPriority(JobPriority.BACKGROUND));
        for (int i = 0; i < 40; i++) {
            member.jobs().enqueue(new Order("high", 75), JobOptions.defaults().withPriority(JobPriority.HIGH));
        }
        member.jobs().enqueue(new Order("critical", 100), JobOptions.defaults().withPriority(JobPriority.CRITICAL));
        go.countDown();
        await().until(() -> order.size() == 42);
        // This job was enqueued last. A worker without room does not search, so that its first search has seen the job.
        assertThat(order.indexOf(100)).as("%s", order).isZero();
        assertThat(order.indexOf(0)).as("%s", order).isBetween(1, 40);
    }

    @Test
    void full_executor_does_not_block_another() throws Exception {
        var go = new CountDownLatch(1);
        work.on("slow", context -> until(go));
        work.on("quick", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> slow = IntStream.range(0, 20)
                .mapToObj(i -> member.jobs().enqueueNamed("slow", null))
                .map(EnqueuedJob::id)
                .toList();
        UUID quick = member.jobs().enqueueNamed("quick", null).id();
        assertThat(member.ended(quick).status()).isEqualTo(JobStatus.COMPLETED);
        await().untilAsserted(
                        () -> assertThat(member.engine().lanes().get("slow")).containsEntry("jobs", 1));
        go.countDown();
        slow.forEach(id -> member.ended(id));
    }

    @Test
    void paused_name_waits_until_it_is_resumed() {
        work.on("job", context -> {});
        work.on("other", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("job");
        assertThat(member.operations().paused()).containsExactly("job");
        UUID id = member.jobs().enqueueNamed("job", null).id();
        member.ended(member.jobs().enqueueNamed("other", null).id());
        assertThat(member.operations().explain(id).reason()).isEqualTo(Reason.PAUSED);
        assertThat(member.jobs().resume("job")).isTrue();
        member.ended(id);
    }

    private static NodeSettings without(NodeSettings settings, NodeRole... roles) {
        var left = java.util.EnumSet.allOf(NodeRole.class);
        left.removeAll(List.of(roles));
        return with(settings, NodeMode.AUTO, left, List.of("general"));
    }

    @Test
    void explanation_states_why_a_job_does_not_run() throws Exception {
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 0;
        work.on("job", context -> until(go));
        Member enqueuer = cluster.start("enqueuer", copy(), s -> without(s, NodeRole.WORKER));
        UUID id = enqueuer.jobs()
                .enqueueNamed("job", null, JobOptions.defaults().withUniqueKey("k"))
                .id();
        assertThat(enqueuer.operations().explain(id).reason()).isEqualTo(Reason.NO_LIVE_WORKER);
        Member member = cluster.start(
                "worker",
                work,
                s -> TestNodes.withHeartbeat(
                        s,
                        TestNodes.heartbeat(Duration.ofMillis(100), Duration.ofSeconds(10), Duration.ofSeconds(15))));
        await().until(() -> member.operations().explain(id).reason() == Reason.RUNNING);
        UUID second = member.jobs()
                .enqueueNamed("job", null, JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE))
                .id();
        assertThat(member.operations().explain(second).reason()).isEqualTo(Reason.WAITING_FOR_PREDECESSOR);
        UUID third = member.jobs().enqueueNamed("job", null).id();
        await().until(() -> member.operations().explain(third).reason() == Reason.WORKERS_FULL);
        go.countDown();
        member.ended(third);
        member.ended(second);
        assertThat(member.operations().explain(id).reason()).isEqualTo(Reason.FINISHED);
    }

    @Test
    void observer_neither_runs_nor_enqueues_jobs() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        Member observer = cluster.start(
                "observer", copy(), s -> with(s, NodeMode.OBSERVER, Set.of(NodeRole.values()), List.of("general")));
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> observer.jobs().enqueueNamed("job", null))
                .withMessageContaining("forge.cluster.node.mode (observer)");
        List<UUID> ids = IntStream.range(0, 50)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .map(EnqueuedJob::id)
                .toList();
        assertThat(ids)
                .allSatisfy(id -> assertThat(member.ended(id).nodeId())
                        .isEqualTo(member.node().id()));
    }

    @Test
    void worker_that_must_be_alone_claims_nothing_beside_another() {
        work.claiming = false;
        work.on("job", context -> {});
        Member alone = cluster.start("alone", work, UnaryOperator.identity());
        assertThat(alone.ended(alone.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
        cluster.start("other", new TestJobs(database.dataSource()), UnaryOperator.identity());
        await().until(() -> alone.engine().isCrowded());
        UUID id = alone.jobs().enqueueNamed("job", null).id();
        await().during(Duration.ofMillis(500))
                .until(() -> alone.jobs().find(id).orElseThrow().status() == JobStatus.PENDING);
    }

    @Test
    void overloaded_node_uses_half_of_its_slots() {
        var cpu = new AtomicReference<>(0.2);
        work.on("job", context -> {});
        Member member = cluster.start("one", work, s -> TestNodes.withLoad(s, () -> new Load(0, 0, cpu.get(), 0.5)));
        assertThat(member.engine().lanes().get("default")).containsEntry("slots", 4);
        cpu.set(0.95);
        await().until(() -> member.engine().lanes().get("default").get("slots") == 2);
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
        cpu.set(0.2);
        await().until(() -> member.engine().lanes().get("default").get("slots") == 4);
    }
}
