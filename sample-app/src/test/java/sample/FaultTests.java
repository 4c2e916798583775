// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import survival.WrongClock;

/** Measures how the cluster reacts when nodes are killed, frozen and stopped. */
@ClusterPostgres(migrated = false)
class FaultTests {

    private static final Duration START = Duration.ofMinutes(5);

    private TestDatabase database;
    private final List<AppProcess> processes = new ArrayList<>();

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("faults");
    }

    @AfterEach
    void drop() {
        processes.forEach(AppProcess::close);
        database.close();
    }

    private AppProcess start(String name, String... properties) {
        AppProcess.Builder builder = AppProcess.of(SampleApplication.class)
                .database(database)
                .property("forge.cluster.node.name", name)
                .property("spring.datasource.hikari.maximum-pool-size", 2)
                .property("server.tomcat.threads.max", 4);
        for (String property : properties) {
            String[] pair = property.split("=", 2);
            builder.property(pair[0], pair[1]);
        }
        AppProcess process = builder.start();
        processes.add(process);
        return process;
    }

    private void stop(AppProcess dead) {
        processes.remove(dead);
        dead.close();
    }

    private void restart(AppProcess dead, String name, String... properties) {
        stop(dead);
        start(name, properties).awaitReady(START);
    }

    private String leader() {
        return database.jdbc()
                .sql(
                        "SELECT n.name FROM forge_leaders l JOIN forge_nodes n ON n.id = l.node_id WHERE l.role = 'scheduler'")
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("");
    }

    private AppProcess process(String name) {
        return processes.stream()
                .filter(process -> process.log().contains("node '" + name + "'"))
                .findFirst()
                .orElseThrow();
    }

    private long term() {
        return database.jdbc()
                .sql("SELECT coalesce(max(current_term), 0) FROM forge_leaders WHERE role = 'scheduler'")
                .query(Long.class)
                .single();
    }

    private String status(String name) {
        return database.jdbc()
                .sql("SELECT status FROM forge_nodes WHERE name = ? ORDER BY started_at DESC LIMIT 1")
                .param(name)
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("absent");
    }

    /** Returns the milliseconds until the condition holds. */
    private static long millisUntil(BooleanSupplier condition, Duration patience) {
        return millisUntil(condition, System.nanoTime(), patience);
    }

    private static long millisUntil(BooleanSupplier condition, long start, Duration patience) {
        await().pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(5))
                .atMost(patience)
                .until(condition::getAsBoolean);
        return (System.nanoTime() - start) / 1_000_000;
    }

    private static long median(List<Long> figures) {
        Collections.sort(figures);
        return figures.get(figures.size() / 2);
    }

    private void killLeaders(int rounds, Limits limits) {
        start("a");
        start("b");
        if (rounds > 1) {
            start("c");
        }
        processes.forEach(process -> process.awaitReady(START));
        var elected = new ArrayList<Long>();
        var declared = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            await().until(() -> !leader().isEmpty());
            // Reads the term first: if another node begins the next term meanwhile, the wait below ends at once.
            long term = term();
            String name = await().until(this::leader, leading -> !leading.isEmpty());
            AppProcess victim = process(name);
            long start = System.nanoTime();
            victim.kill();
            elected.add(millisUntil(() -> term() > term, start, Duration.ofMinutes(1)));
            declared.add(millisUntil(() -> status(name).equals("dead"), start, Duration.ofMinutes(1)));
            stop(victim);
            // Each round needs a leader and a follower.
            if (processes.size() < rounds - round) {
                start(name).awaitReady(START);
            }
        }
        System.out.printf(
                "kill -9 of the leader, %d times: new term after p50 %d ms, max %d ms; declared dead after p50 %d ms, max %d ms%n",
                rounds, median(elected), Collections.max(elected), median(declared), Collections.max(declared));
        if (limits == Limits.ASSERTED) {
            assertThat(median(elected)).isLessThanOrEqualTo(500);
            assertThat(Collections.max(elected)).isLessThanOrEqualTo(1_500);
            assertThat(median(declared)).isLessThanOrEqualTo(1_500);
        }
    }

    /**
     * Whether time limits are asserted. The soak run asserts them; the default suite only prints the figures, because the
     * machine may be busy.
     */
    private enum Limits {
        PRINTED,
        ASSERTED
    }

    @Test
    void killed_leader_is_followed_and_declared_dead() {
        killLeaders(1, Limits.PRINTED);
    }

    @Test
    @Tag("soak")
    void ten_killed_leaders() {
        killLeaders(10, Limits.ASSERTED);
    }

    private void killFollowers(int rounds) {
        List<String> names = List.of("a", "b", "c");
        names.forEach(name -> start(name));
        processes.forEach(process -> process.awaitReady(START));
        await().until(() -> !leader().isEmpty());
        String leader = leader();
        List<String> followers =
                names.stream().filter(name -> !name.equals(leader)).toList();
        var declared = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            String name = followers.get(round % followers.size());
            AppProcess victim = process(name);
            long start = System.nanoTime();
            victim.kill();
            declared.add(millisUntil(() -> status(name).equals("dead"), start, Duration.ofSeconds(10)));
            restart(victim, name);
        }
        assertThat(leader()).isEqualTo(leader);
        System.out.printf(
                "kill -9 of a follower, %d times: declared dead after p50 %d ms, max %d ms%n",
                rounds, median(declared), Collections.max(declared));
        assertThat(median(declared)).isLessThanOrEqualTo(1_500);
    }

    @Test
    @Tag("soak")
    void ten_killed_followers() {
        killFollowers(10);
    }

    /** A leader that loses its session may win the next term itself; its log shows that it resigned before. */
    @Test
    @Tag("soak")
    void ten_leaders_whose_session_is_terminated() {
        start("a");
        start("b");
        processes.forEach(process -> process.awaitReady(START));
        var stopped = new ArrayList<Long>();
        for (int round = 0; round < 10; round++) {
            await().until(() -> !leader().isEmpty());
            AppProcess victim = process(leader());
            long term = term();
            String end = "scheduler=%d}".formatted(term);
            await().until(() -> victim.log().contains(end));
            long start = System.nanoTime();
            database.jdbc()
                    .sql("SELECT pg_terminate_backend(backend_pid) FROM forge_leader_leases WHERE role = 'scheduler'")
                    .query()
                    .listOfRows();
            stopped.add(millisUntil(
                    () -> victim.log().lines().anyMatch(line -> line.contains("No longer leads") && line.contains(end)),
                    start,
                    Duration.ofSeconds(10)));
            await().until(() -> term() > term);
        }
        System.out.printf(
                "pg_terminate_backend of the leader's session, 10 times: it stopped leading after p50 %d ms, max %d ms%n",
                median(stopped), Collections.max(stopped));
        assertThat(Collections.max(stopped)).isLessThanOrEqualTo(500);
    }

    private void freezeAndThaw(int rounds) {
        start("a");
        start("b");
        processes.forEach(process -> process.awaitReady(START));
        var followed = new ArrayList<Long>();
        var stepped = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            await().until(() -> !leader().isEmpty());
            String name = leader();
            AppProcess victim = process(name);
            long term = term();
            victim.freeze();
            followed.add(millisUntil(() -> term() > term, Duration.ofSeconds(15)));
            victim.thaw();
            stepped.add(millisUntil(
                    () -> victim.get("/actuator/forgecluster").body().contains("\"leads\":[]"),
                    Duration.ofSeconds(10)));
            await().until(() -> status(name).equals("active"));
        }
        System.out.printf(
                "SIGSTOP of the leader, %d times: successor after p50 %d ms, max %d ms; follower after SIGCONT p50 %d ms, max %d ms%n",
                rounds, median(followed), Collections.max(followed), median(stepped), Collections.max(stepped));
        assertThat(Collections.max(followed)).isLessThanOrEqualTo(6_000);
        assertThat(Collections.max(stepped)).isLessThanOrEqualTo(1_000);
    }

    @Test
    @Tag("soak")
    void frozen_leader_is_replaced_after_its_lease_and_knows_it_when_it_resumes() {
        freezeAndThaw(1);
    }

    @Test
    @Tag("soak")
    void ten_frozen_leaders() {
        freezeAndThaw(10);
    }

    private void handOver(int rounds, long limit) {
        start("a");
        start("b");
        processes.forEach(process -> process.awaitReady(START));
        var handovers = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            await().until(() -> !leader().isEmpty());
            String name = leader();
            AppProcess leaving = process(name);
            long term = term();
            leaving.terminate();
            // The leader releases the row and the lock, then notifies: the next term begins right after that.
            await().pollInterval(Duration.ofMillis(2)).until(() -> !leader().equals(name));
            handovers.add(millisUntil(() -> term() > term, Duration.ofSeconds(5)));
            leaving.awaitExit(Duration.ofSeconds(20));
            assertThat(status(name)).isEqualTo("absent");
            restart(leaving, name);
        }
        System.out.printf(
                "SIGTERM of the leader, %d times: new term after its release p50 %d ms, max %d ms%n",
                rounds, median(handovers), Collections.max(handovers));
        assertThat(Collections.max(handovers)).isLessThanOrEqualTo(limit);
    }

    @Test
    @Tag("soak")
    void stopping_leader_hands_over_at_once() {
        handOver(1, 500);
    }

    @Test
    @Tag("soak")
    void ten_handovers() {
        handOver(10, 200);
    }

    @Test
    @Tag("soak")
    void node_whose_clock_is_five_minutes_ahead_neither_dies_nor_kills() {
        start("right");
        AppProcess ahead = WrongClock.ahead(AppProcess.of(SampleApplication.class)
                        .database(database)
                        .property("forge.cluster.node.name", "ahead"))
                .start();
        processes.add(ahead);
        processes.forEach(process -> process.awaitReady(START));
        String ids = "SELECT string_agg(id::text || ' ' || status, ',' ORDER BY name) FROM forge_nodes";
        String before = database.jdbc().sql(ids).query(String.class).single();
        long beats = database.jdbc()
                .sql("SELECT min(beats) FROM forge_nodes")
                .query(Long.class)
                .single();
        // Waits long enough for a node to be declared dead if clocks mattered.
        await().until(() -> database.jdbc()
                        .sql("SELECT min(beats) FROM forge_nodes")
                        .query(Long.class)
                        .single()
                > beats + 4);
        assertThat(database.jdbc().sql(ids).query(String.class).single()).isEqualTo(before);
        System.out.println("a clock five minutes ahead: " + before + ", unchanged after four heartbeats of each");
    }

    private void killWithoutLivenessLocks(int rounds) {
        String[] slow = {
            "forge.cluster.detection.liveness-lock=false",
            "forge.cluster.heartbeat.interval=1s",
            "forge.cluster.heartbeat.stale-threshold=2s",
            "forge.cluster.heartbeat.dead-threshold=3s"
        };
        start("a", slow);
        start("b", slow);
        processes.forEach(process -> process.awaitReady(START));
        var declared = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            String name = round % 2 == 0 ? "a" : "b";
            AppProcess victim = process(name);
            long start = System.nanoTime();
            victim.kill();
            declared.add(millisUntil(() -> status(name).equals("dead"), start, Duration.ofSeconds(10)));
            if (round + 1 < rounds) {
                restart(victim, name, slow);
            }
        }
        System.out.printf(
                "kill -9 without liveness locks, dead-threshold 3 s, %d times: declared dead after p50 %d ms, max %d ms%n",
                rounds, median(declared), Collections.max(declared));
        assertThat(declared).allSatisfy(millis -> assertThat(millis).isBetween(1_500L, 5_000L));
    }

    @Test
    @Tag("soak")
    void node_without_liveness_locks_is_declared_dead_after_missing_heartbeats() {
        killWithoutLivenessLocks(1);
    }

    @Test
    @Tag("soak")
    void ten_nodes_without_liveness_locks() {
        killWithoutLivenessLocks(10);
    }

    @Test
    @Tag("soak")
    void restarted_node_reuses_the_key_of_its_killed_predecessor() {
        AppProcess first = start("a", "forge.cluster.node.id=same");
        first.awaitReady(START);
        start("b").awaitReady(START);
        first.kill();
        start("a", "forge.cluster.node.id=same").awaitReady(START);
        assertThat(status("a")).isEqualTo("active");
    }

    @Test
    @Tag("soak")
    void unelected_leader_node_exits_with_an_error() {
        start("a").awaitReady(START);
        await().until(() -> leader().equals("a"));
        AppProcess boss = start("boss", "forge.cluster.node.mode=leader");
        assertThat(boss.awaitExit(START)).isNotZero();
        assertThat(boss.log()).contains("forge.cluster.node.mode (leader)");
    }

    @Test
    void readiness_falls_without_the_database_and_liveness_does_not() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (var network = TcpProxy.to(server.getHost(), server.getPort())) {
            AppProcess node = start(
                    "a",
                    "spring.datasource.url="
                            + database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"));
            node.awaitReady(START);
            network.cut();
            long fell = millisUntil(
                    () -> node.get("/actuator/health/readiness").statusCode() == 503, Duration.ofMinutes(1));
            assertThat(node.get("/actuator/health/liveness").statusCode()).isEqualTo(200);
            network.heal();
            long rose = millisUntil(
                    () -> node.get("/actuator/health/readiness").statusCode() == 200, Duration.ofMinutes(1));
            System.out.printf(
                    "database cut off: readiness 503 after %d ms, 200 again %d ms after its return%n", fell, rose);
        }
    }
}
