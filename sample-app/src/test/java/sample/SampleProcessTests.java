// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;

/** Checks several nodes of the sample, and what only a process of its own shows. */
@ClusterPostgres(migrated = false)
class SampleProcessTests {

    private static final Duration START = Duration.ofMinutes(5);
    private static final Duration STOP = Duration.ofMinutes(2);

    private TestDatabase database;

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("sample");
    }

    @AfterEach
    void drop() {
        database.close();
    }

    private AppProcess.Builder node(String name) {
        return AppProcess.of(SampleApplication.class)
                .database(database)
                .property("forge.cluster.node.name", name)
                .property("forge.cluster.heartbeat.interval", "200ms");
    }

    private List<String> nodes() {
        return database.jdbc()
                .sql("SELECT name FROM forge_nodes ORDER BY name")
                .query((row, n) -> row.getString(1))
                .list();
    }

    private long beats(String name) {
        return database.jdbc()
                .sql("SELECT beats FROM forge_nodes WHERE name = ?")
                .param(name)
                .query(Long.class)
                .single();
    }

    private void awaitBeats(String name, int number) {
        long before = beats(name);
        await().until(() -> beats(name) > before + number);
    }

    @Test
    void two_instances_start_at_once_on_one_empty_database_and_are_one_cluster() {
        try (AppProcess one = node("one").start();
                AppProcess two = node("two").start()) {
            one.awaitReady(START);
            two.awaitReady(START);
            assertThat(one.port()).isNotEqualTo(two.port());
            assertThat(nodes()).containsExactly("one", "two");

            String order = orderId(one.post("/orders", "{\"item\": \"anvil\", \"quantity\": 1}")
                    .body());
            assertThat(two.get("/orders").body()).contains(order);

            // A frozen node sends no heartbeats, and continues when it is resumed.
            two.freeze();
            // The server may still execute the last statement of the frozen node.
            awaitBeats("one", 2);
            long frozenAt = beats("two");
            awaitBeats("one", 3);
            assertThat(beats("two")).isEqualTo(frozenAt);
            two.thaw();
            await().until(() -> beats("two") > frozenAt);

            // A stopped node deregisters; a killed one cannot.
            two.terminate();
            assertThat(two.awaitExit(STOP)).isEqualTo(143);
            assertThat(nodes()).containsExactly("one");
            one.kill();
            assertThat(nodes()).containsExactly("one");
        }
        await().until(() -> database.sessions().isEmpty());
    }

    @Test
    @ExtendWith(OutputCaptureExtension.class)
    void four_hundred_requests_to_three_nodes_are_admitted_as_if_there_were_one(CapturedOutput output)
            throws Exception {
        // In one process: limits depend on nodes.
        try (var one = nodeOfThisProcess("one");
                var two = nodeOfThisProcess("two");
                var three = nodeOfThisProcess("three")) {
            var all = List.of(one, two, three);
            burst("/global-quote", all, 100, 1, output);
            // Each node admits a hundred requests per client address.
            burst("/quote", all, 300, 3, output);
        }
    }

    private ConfigurableApplicationContext nodeOfThisProcess(String name) {
        return new SpringApplicationBuilder(SampleApplication.class)
                .run(
                        "--server.port=0",
                        "--server.address=127.0.0.1",
                        "--spring.datasource.url=" + database.url(),
                        "--spring.datasource.username=" + database.username(),
                        "--spring.datasource.password=" + database.password(),
                        "--forge.cluster.node.name=" + name);
    }

    private static void burst(
            String path,
            List<ConfigurableApplicationContext> nodes,
            int least,
            int nodesThatCount,
            CapturedOutput output)
            throws Exception {
        var threads = Executors.newFixedThreadPool(12);
        HttpClient http = HttpClient.newHttpClient();
        List<HttpRequest> requests = nodes.stream()
                .map(node -> node.getEnvironment().getRequiredProperty("local.server.port"))
                .map(port -> HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                        .build())
                .toList();
        List<Callable<Integer>> calls = IntStream.range(0, 400)
                .<Callable<Integer>>mapToObj(i ->
                        () -> http.send(requests.get(i % requests.size()), BodyHandlers.discarding())
                                .statusCode())
                .toList();
        long begin = System.nanoTime();
        int admitted = 0;
        for (Future<Integer> call : threads.invokeAll(calls)) {
            assertThat(call.get()).isIn(200, 429);
            admitted += call.get() == 200 ? 1 : 0;
        }
        threads.shutdown();
        double seconds = (System.nanoTime() - begin) / 1e9;
        // Each node decides alone while the database is too slow, for example after a pause of the machine.
        boolean alone = output.getAll().contains("shared buckets are unreachable");
        int most = (alone ? nodes.size() : nodesThatCount) * (100 + (int) Math.ceil(seconds * 100 / 60));
        System.out.printf(
                "%s: %d of 400 requests to 3 nodes admitted in %.1f s (%d to %d)%n",
                path, admitted, seconds, least, most);
        assertThat(admitted).isBetween(least, most);
    }

    @Test
    void idle_node_has_three_connections_in_addition_to_the_pool() {
        try (AppProcess idle = node("idle")
                .property("spring.datasource.hikari.maximum-pool-size", 2)
                .property("spring.datasource.hikari.minimum-idle", 2)
                .start()) {
            idle.awaitReady(START);
            await().until(() -> connections("<>") == 2);
            // The number is constant while the node sends heartbeats, checks other nodes and leads. A node that paused
            // replaces its session, and the count starts again.
            var since = new AtomicLong(beats("idle"));
            await().until(() -> {
                if (connections("=") != 3) {
                    since.set(beats("idle"));
                }
                return beats("idle") > since.get() + 10;
            });
            System.out.printf(
                    "idle node: %d dedicated connections, %d with a liveness lock; %d in the application's pool%n",
                    connections("="), sessions(), connections("<>"));
            await().until(() -> sessions() == 1);
        }
    }

    /** Returns the number of connections that hold a liveness lock. */
    private long sessions() {
        return database.jdbc().sql("""
                        SELECT count(DISTINCT a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
                        WHERE a.datname = current_database() AND a.application_name = 'forge-cluster'
                          AND l.locktype = 'advisory' AND l.objsubid = 2
                        """).query(Long.class).single();
    }

    /** Returns the number of connections with or without the cluster's application name, except the counting one. */
    private long connections(String named) {
        return database.jdbc().sql("""
                        SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND backend_type = 'client backend'
                          AND pid <> pg_backend_pid() AND application_name %s 'forge-cluster'
                        """.formatted(named)).query(Long.class).single();
    }

    @Test
    void sample_without_a_database_starts_its_own_and_prints_the_second_command() {
        try (AppProcess first = AppProcess.of(SampleApplication.class)
                .environment("SAMPLE_RUN_COMMAND", "run-sample")
                .start()) {
            first.awaitReady(START);
            Matcher command =
                    Pattern.compile("SPRING_DATASOURCE_URL='(\\S+)' run-sample").matcher(first.log());
            assertThat(command.find()).as(first.log()).isTrue();
            try (AppProcess second = AppProcess.of(SampleApplication.class)
                    .environment("SPRING_DATASOURCE_URL", command.group(1))
                    .start()) {
                second.awaitReady(START);
                String order = orderId(first.post("/orders", "{\"item\": \"anvil\", \"quantity\": 1}")
                        .body());
                assertThat(second.get("/orders").body()).contains(order);
                second.terminate();
                second.awaitExit(STOP);
            }
            // Ignores earlier lines: a busy machine may have caused a warning.
            int before = first.log().length();
            first.terminate();
            first.awaitExit(STOP);
            // The database stops after the node, with the process.
            assertThat(first.log().substring(before)).doesNotContain("Exception", " WARN ", " ERROR ");
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(
                            () -> DriverManager.getConnection(command.group(1)).close());
        }
    }

    @Test
    void invalid_value_ends_the_process_with_a_clear_message() {
        try (AppProcess wrong =
                node("wrong").property("forge.cluster.node.mode", "boss").start()) {
            assertThat(wrong.awaitExit(START)).isEqualTo(1);
            assertThat(wrong.log())
                    .contains("APPLICATION FAILED TO START", "forge.cluster.node.mode", "boss", "OBSERVER");
        }
    }

    private static String orderId(String accepted) {
        Matcher id = Pattern.compile("\"orderId\":\"([^\"]+)\"").matcher(accepted);
        assertThat(id.find()).as(accepted).isTrue();
        return id.group(1);
    }
}
