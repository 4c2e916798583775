// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.startup;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.lock.DefaultClusterLocks;
import dev.forge.cluster.internal.lock.LockKeeper;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.startup.StartupActions.Timing;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.startup.StartupCoordinator;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

@ClusterPostgres
class StartupActionTests {

    private static final Duration FOREVER = Duration.ofMinutes(10);

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    StartupActionTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void create() {
        cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    private StartupCoordinator coordinator(Member member, Duration lease) {
        return new DefaultStartupCoordinator(
                member.locks(),
                FOREVER,
                new StartupActions(
                        member.node(),
                        cluster.schema,
                        member.control(),
                        new Timing(lease, Duration.ofMillis(20), Duration.ofSeconds(30))));
    }

    private StartupCoordinator start(String name) {
        return coordinator(cluster.start(name, s -> s), FOREVER);
    }

    private List<String> completedBy(String action) {
        return jdbc.sql("SELECT version || ' ' || node_name FROM forge_startup_actions WHERE name = ? ORDER BY version")
                .param(action)
                .query(String.class)
                .list();
    }

    @Test
    void one_of_several_nodes_that_start_together_runs_the_action_and_the_others_wait() throws Exception {
        List<StartupCoordinator> nodes = List.of(start("one"), start("two"), start("three"));
        var runs = new AtomicInteger();
        var completed = new CountDownLatch(1);
        var threads = Executors.newFixedThreadPool(nodes.size());
        try {
            List<Callable<Boolean>> calls = nodes.stream()
                    .map(node -> (Callable<Boolean>) () -> {
                        boolean ran = node.once("seed", "1", () -> {
                            runs.incrementAndGet();
                            // Long enough for another node to try the action.
                            await().during(Duration.ofMillis(200)).until(() -> true);
                            completed.countDown();
                        });
                        assertThat(completed.getCount()).isZero();
                        return ran;
                    })
                    .toList();
            List<Boolean> results = new ArrayList<>();
            for (var call : threads.invokeAll(calls)) {
                results.add(call.get());
            }
            assertThat(results).containsExactlyInAnyOrder(true, false, false);
        } finally {
            threads.shutdown();
        }
        assertThat(runs).hasValue(1);
        Map<String, Object> row =
                jdbc.sql("SELECT * FROM forge_startup_actions").query().singleRow();
        assertThat(row).containsEntry("name", "seed").containsEntry("version", "1");
        assertThat(cluster.members().stream().filter(m -> m.node().id().equals(row.get("node_id"))))
                .singleElement()
                .satisfies(m -> assertThat(row)
                        .containsEntry("node_name", m.node().identity().name()));
        assertThat(jdbc.sql("SELECT completed_at >= started_at AND completed_at <= now() FROM forge_startup_actions")
                        .query(Boolean.class)
                        .single())
                .isTrue();
    }

    @Test
    void completed_action_is_not_repeated_but_a_new_version_is_run() {
        StartupCoordinator one = start("one");
        StartupCoordinator two = start("two");
        assertThat(one.once("seed", "1", () -> {})).isTrue();
        Runnable never = () -> {
            throw new AssertionError("repeated");
        };
        assertThat(one.once("seed", "1", never)).isFalse();
        assertThat(two.once("seed", "1", Duration.ZERO, never)).isFalse();
        assertThat(two.once("seed", "2", () -> {})).isTrue();
        // A restarted node of the former version runs nothing.
        assertThat(one.once("seed", "1", never)).isFalse();
        assertThat(completedBy("seed")).containsExactly("1 one", "2 two");
    }

    @Test
    void failed_action_reaches_its_caller_and_is_run_by_the_next_node() {
        StartupCoordinator one = start("one");
        assertThatIllegalStateException()
                .isThrownBy(() -> one.once("seed", "1", () -> {
                    throw new IllegalStateException("no seeds");
                }))
                .withMessage("no seeds");
        assertThat(completedBy("seed")).isEmpty();
        assertThat(start("two").once("seed", "1", Duration.ZERO, () -> {})).isTrue();
        assertThat(completedBy("seed")).containsExactly("1 two");
    }

    @Test
    void error_of_a_node_that_waits_too_long_names_the_node_that_runs_the_action() {
        StartupCoordinator one = start("one");
        StartupCoordinator two = start("two");
        one.once(
                "seed",
                "1",
                () -> assertThatExceptionOfType(ClusterStartupException.class)
                        .isThrownBy(() -> two.once("seed", "1", Duration.ofMillis(100), () -> {}))
                        .withMessageContaining("'seed' version '1'")
                        .withMessageContaining("node one")
                        .satisfies(e -> assertThat(e.action()).contains("forge.cluster.startup.wait-timeout")));
        assertThat(completedBy("seed")).containsExactly("1 one");
    }

    @Test
    void name_that_forges_a_log_line_is_printed_as_one_line() {
        StartupCoordinator one = start("one");
        StartupCoordinator two = start("two");
        jdbc.sql("UPDATE forge_nodes SET name = E'a\\n2026-01-01 ERROR forged' WHERE name = 'one'")
                .update();
        one.once(
                "seed",
                "1",
                () -> assertThatExceptionOfType(ClusterStartupException.class)
                        .isThrownBy(() -> two.once("seed", "1", Duration.ofMillis(100), () -> {}))
                        .withMessageContaining("forged")
                        .matches(e -> e.getMessage().lines().count() == 1));
    }

    @Test
    void action_runs_before_its_node_has_joined_the_cluster() {
        Member early = cluster.create("early", s -> s);
        try {
            assertThat(coordinator(early, FOREVER).once("seed", "1", () -> {})).isTrue();
            assertThat(completedBy("seed")).containsExactly("1 early");
        } finally {
            early.stop();
        }
    }

    @Test
    void lease_is_extended_while_the_action_runs() {
        // Long enough to survive a pause of the machine; extended every three seconds.
        StartupCoordinator one = coordinator(cluster.start("one", s -> s), Duration.ofSeconds(9));
        StartupCoordinator two = coordinator(cluster.start("two", s -> s), Duration.ofSeconds(9));
        assertThat(one.once("seed", "1", () -> {
                    await().until(() -> jdbc.sql("""
                                    SELECT expires_at > locked_at + interval '10 seconds' FROM forge_locks
                                    WHERE lock_name = 'once:seed'
                                    """).query(Boolean.class).single());
                    assertThatExceptionOfType(ClusterStartupException.class)
                            .isThrownBy(() -> two.once("seed", "1", Duration.ZERO, () -> {}));
                }))
                .isTrue();
        assertThat(completedBy("seed")).containsExactly("1 one");
    }

    private void expireLock() {
        jdbc.sql("UPDATE forge_locks SET expires_at = clock_timestamp() WHERE lock_name = 'once:seed'")
                .update();
    }

    @Test
    void completion_after_the_lease_has_ended_counts_if_no_node_took_over() {
        StartupCoordinator frozen = start("frozen");
        assertThat(frozen.once("seed", "1", this::expireLock)).isTrue();
        assertThat(completedBy("seed")).containsExactly("1 frozen");
        assertThat(start("next").once("seed", "1", () -> {
                    throw new AssertionError("repeated");
                }))
                .isFalse();
    }

    @Test
    void completion_after_an_outage_of_days_counts_if_no_node_took_over() {
        Member frozen = cluster.start("frozen", s -> s);
        await().until(() -> frozen.leadership().isLeader(Leadership.LOG_COMPACTOR));
        String lastHolder = "UPDATE forge_locks SET expires_at = clock_timestamp() - interval '3 days'";
        assertThat(coordinator(frozen, FOREVER).once("seed", "1", () -> {
                    jdbc.sql(lastHolder).update();
                    frozen.node().cleanUp();
                }))
                .isTrue();
        assertThat(completedBy("seed")).containsExactly("1 frozen");
        jdbc.sql(lastHolder).update();
        // The node cleans up only while it leads, and a paused machine may lose its term.
        await().untilAsserted(() -> {
            frozen.node().cleanUp();
            assertThat(jdbc.sql("SELECT count(*) FROM forge_locks")
                            .query(Long.class)
                            .single())
                    .as("locks of completed actions")
                    .isZero();
        });
    }

    @Test
    void completion_is_recorded_when_an_outage_longer_than_the_lease_has_ended() throws Exception {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (TcpProxy network = TcpProxy.to(server.getHost(), server.getPort())) {
            var through = new DriverManagerDataSource(
                    database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                    database.username(),
                    database.password());
            Member cutOff = cluster.start("cut off", through, s -> s);
            var healed = new AtomicReference<CompletableFuture<Void>>();
            assertThat(coordinator(cutOff, Duration.ofSeconds(1)).once("seed", "1", () -> {
                        network.cut();
                        healed.set(CompletableFuture.runAsync(() -> {
                            // The first attempt to record completion has failed by then.
                            await().until(() ->
                                    jdbc.sql("""
                                            SELECT clock_timestamp() > expires_at + interval '4 seconds' FROM forge_locks
                                            WHERE lock_name = 'once:seed'
                                            """).query(Boolean.class).single());
                            network.heal();
                        }));
                    }))
                    .isTrue();
            healed.get().get(60, TimeUnit.SECONDS);
            assertThat(completedBy("seed")).containsExactly("1 cut off");
            cutOff.stop();
        }
    }

    @Test
    void lease_that_ended_during_an_outage_is_renewed_while_the_action_runs() {
        StartupCoordinator frozen = coordinator(cluster.start("frozen", s -> s), Duration.ofSeconds(3));
        assertThat(frozen.once("seed", "1", () -> {
                    expireLock();
                    await().until(() -> jdbc.sql(
                                    "SELECT expires_at > clock_timestamp() FROM forge_locks WHERE lock_name = 'once:seed'")
                            .query(Boolean.class)
                            .single());
                }))
                .isTrue();
    }

    @Test
    void lease_is_first_extended_when_a_third_of_it_has_passed() {
        StartupCoordinator one = start("one");
        jdbc.sql("CREATE SEQUENCE extensions").update();
        try {
            jdbc.sql("""
                    CREATE FUNCTION count_extension() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN PERFORM nextval('extensions'); RETURN new; END $$
                    """).update();
            jdbc.sql(
                            "CREATE TRIGGER count_extension BEFORE UPDATE ON forge_locks FOR EACH ROW EXECUTE FUNCTION count_extension()")
                    .update();
            assertThat(one.once(
                            "seed",
                            "1",
                            () -> await().during(Duration.ofMillis(300))
                                    .until(() -> !jdbc.sql("SELECT is_called FROM extensions")
                                            .query(Boolean.class)
                                            .single())))
                    .isTrue();
        } finally {
            jdbc.sql("DROP FUNCTION IF EXISTS count_extension() CASCADE").update();
            jdbc.sql("DROP SEQUENCE extensions").update();
        }
    }

    @Test
    void acquired_action_belongs_to_one_node_until_it_is_released() {
        StartupCoordinator first = start("one");
        StartupCoordinator second = start("two");
        assertThat(first.tryAcquire("seed", Duration.ofMinutes(5))).isTrue();
        assertThat(second.tryAcquire("seed", Duration.ofMinutes(5))).isFalse();
        second.release("seed");
        assertThat(second.tryAcquire("seed", Duration.ofMinutes(5))).isFalse();
        first.release("seed");
        assertThat(second.tryAcquire("seed", Duration.ofMinutes(5))).isTrue();
    }

    @Test
    void node_whose_lock_another_node_took_records_nothing() {
        StartupCoordinator frozen = start("frozen");
        StartupCoordinator next = start("next");
        // The lease ends unnoticed, and another node takes over: its action fails, then completes.
        for (boolean completedElsewhere : List.of(false, true)) {
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> frozen.once("seed", "1", () -> {
                        expireLock();
                        if (completedElsewhere) {
                            assertThat(next.once("seed", "1", () -> {})).isTrue();
                        } else {
                            assertThatIllegalStateException()
                                    .isThrownBy(() -> next.once("seed", "1", () -> {
                                        throw new IllegalStateException("no seeds");
                                    }));
                        }
                    }))
                    .withMessageContaining("'seed' version '1'")
                    .withMessageContaining("another node has taken its lock");
            assertThat(completedBy("seed")).isEqualTo(completedElsewhere ? List.of("1 next") : List.of());
        }
    }

    @Test
    void completion_whose_response_was_lost_can_be_recorded_again() {
        var locks = new LockStore(cluster.schema, database.dataSource());
        var actions = new StartupActionStore(cluster.schema, database.dataSource());
        long token = locks.take("once:seed", UUID.randomUUID(), FOREVER).orElseThrow();
        assertThat(actions.complete("seed", "1", "one", "once:seed", token)).isTrue();
        assertThat(actions.complete("seed", "1", "one", "once:seed", token)).isTrue();
        assertThat(completedBy("seed")).containsExactly("1 one");
    }

    @Test
    void node_that_may_not_change_the_cluster_runs_no_action_but_may_find_it_completed() {
        Member observer = cluster.start("observer", s -> TestNodes.withMode(s, NodeMode.OBSERVER));
        StartupCoordinator watching = coordinator(observer, FOREVER);
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> watching.once("seed", "1", () -> {}));
        start("one").once("seed", "1", () -> {});
        assertThat(watching.once("seed", "1", () -> {})).isFalse();
    }

    @Test
    void name_and_version_are_required() {
        StartupCoordinator one = start("one");
        assertThatIllegalArgumentException().isThrownBy(() -> one.once(" ", "1", () -> {}));
        assertThatIllegalArgumentException().isThrownBy(() -> one.once("seed", "", () -> {}));
        assertThatIllegalArgumentException().isThrownBy(() -> one.once("seed", "1", Duration.ofSeconds(-1), () -> {}));
    }

    @Test
    void another_node_takes_over_from_one_that_was_killed() {
        StartupCoordinator next = start("next");
        try (AppProcess owner = AppProcess.of(Owner.class).database(database).start()) {
            owner.awaitLog("action begun", Duration.ofSeconds(60));
            owner.kill();
            // The lease would last for ten minutes, but the node was declared dead.
            assertThat(next.once("seed", "1", () -> {})).isTrue();
        }
        assertThat(completedBy("seed")).containsExactly("1 next");
    }

    /** A node in another process that never completes its action. */
    static final class Owner {

        public static void main(String[] arguments) {
            var source = new DriverManagerDataSource(
                    System.getenv("SPRING_DATASOURCE_URL"),
                    System.getenv("SPRING_DATASOURCE_USERNAME"),
                    System.getenv("SPRING_DATASOURCE_PASSWORD"));
            Schema schema = Schema.open(source, SchemaMode.VALIDATE, "public");
            var scheduler = new ThreadPoolTaskScheduler();
            scheduler.setPoolSize(3);
            scheduler.initialize();
            var control = new ControlConnections(source, Pooler.NONE, 2, Duration.ofSeconds(2));
            var node = new Node(
                    TestNodes.candidate(),
                    new Node.Resources(
                            schema,
                            source,
                            control,
                            new NodeStore(schema, control),
                            () -> new NodeIdentity("killed", "killed"),
                            new Audit(schema, Optional::empty, audited -> {})),
                    Node.Drive.by(scheduler),
                    event -> {});
            node.start();
            new DefaultStartupCoordinator(
                            new DefaultClusterLocks(
                                    node,
                                    new LockStore(schema, control),
                                    new LockKeeper(new LockStore(schema, control), FOREVER, node::nanos),
                                    new CallerTransaction(control)),
                            FOREVER,
                            new StartupActions(
                                    node, schema, control, new Timing(FOREVER, Duration.ofMillis(20), FOREVER)))
                    .once("seed", "1", () -> {
                        System.out.println("action begun");
                        await().forever().until(() -> false);
                    });
        }
    }
}
