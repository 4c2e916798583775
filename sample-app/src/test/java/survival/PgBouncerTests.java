// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import sample.SampleApplication;

/** Checks nodes behind a pooler in transaction mode. */
@ClusterPostgres(migrated = false)
class PgBouncerTests {

    private static final Duration START = Duration.ofMinutes(5);

    private TestDatabase database;
    private PgBouncer pooler;
    private final List<AppProcess> processes = new ArrayList<>();

    @BeforeEach
    void create() throws IOException {
        assumeTrue(PgBouncer.binary().isPresent(), "Skipped: PgBouncer is not installed");
        database = PostgresServer.shared().createEmptyDatabase("pooled");
        pooler = PgBouncer.before(database);
    }

    @AfterEach
    void drop() {
        processes.forEach(AppProcess::close);
        if (pooler != null) {
            pooler.close();
            database.close();
        }
    }

    private AppProcess start(String name, String... properties) {
        AppProcess.Builder builder = AppProcess.of(SampleApplication.class)
                .database(database)
                .property("spring.datasource.url", pooler.url(database))
                .property("spring.datasource.hikari.maximum-pool-size", 2)
                .property("forge.cluster.node.name", name);
        for (String property : properties) {
            String[] pair = property.split("=", 2);
            builder.property(pair[0], pair[1]);
        }
        AppProcess process = builder.start();
        processes.add(process);
        return process;
    }

    private long term() {
        return database.jdbc()
                .sql(
                        "SELECT coalesce(max(current_term), 0) FROM forge_leaders WHERE role = 'scheduler' AND node_id IS NOT NULL")
                .query(Long.class)
                .single();
    }

    /** Kills and restarts the leader several times; returns the milliseconds from each kill to the next term. */
    private List<Long> failOver(int rounds, Consumer<String> log, String... properties) {
        var names = new ArrayDeque<>(List.of("first", "second"));
        start("first", properties).awaitReady(START);
        await().until(() -> term() == 1);
        start("second", properties).awaitReady(START);
        processes.forEach(process -> log.accept(process.log()));
        var figures = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            // The older of the two nodes leads.
            AppProcess leader = processes.get(0);
            String name = names.remove();
            assertThat(leader()).isEqualTo(name);
            long term = term();
            long start = System.nanoTime();
            leader.kill();
            await().pollInterval(Duration.ofMillis(5)).until(() -> term() > term);
            figures.add((System.nanoTime() - start) / 1_000_000);
            if (round + 1 < rounds) {
                processes.remove(leader);
                leader.close();
                start(name, properties).awaitReady(START);
                names.add(name);
            }
        }
        return figures;
    }

    private String leader() {
        return database.jdbc()
                .sql(
                        "SELECT n.name FROM forge_leaders l JOIN forge_nodes n ON n.id = l.node_id WHERE l.role = 'scheduler'")
                .query(String.class)
                .single();
    }

    private static void report(String where, List<Long> figures, long limit) {
        Collections.sort(figures);
        System.out.printf(
                "%s PgBouncer: kill -9 of the leader, %d times: new term after p50 %d ms, max %d ms%n",
                where, figures.size(), figures.get(figures.size() / 2), Collections.max(figures));
        assertThat(Collections.max(figures)).isLessThanOrEqualTo(limit);
    }

    private void failOverBehind(int rounds) {
        List<Long> figures = failOver(
                rounds,
                log -> assertThat(log)
                        .contains(
                                "This node reaches the database through a transaction pooler",
                                "leader strategy lease"));
        report("behind", figures, 6_000);
    }

    @Test
    @Tag("soak")
    void auto_strategy_elects_by_leases_behind_a_pooler() {
        failOverBehind(1);
    }

    @Test
    @Tag("soak")
    void ten_failovers_behind_it() {
        failOverBehind(10);
    }

    @Test
    void advisory_lock_strategy_behind_a_pooler_fails_the_start() {
        AppProcess refused = start("refused", "forge.cluster.leader.strategy=advisory-lock");
        assertThat(refused.awaitExit(START)).isNotZero();
        assertThat(refused.log())
                .contains(
                        "forge.cluster.leader.strategy (advisory-lock)",
                        "transaction pooler",
                        "forge.cluster.direct-connection.url");
    }

    private AppProcess count(String isolation, String... properties) {
        database.jdbc().sql("CREATE TABLE counter AS SELECT 0 AS n").update();
        AppProcess.Builder builder = AppProcess.of(CounterApplication.class)
                .database(database)
                .property("spring.datasource.url", pooler.url(database))
                .property("forge.cluster.node.name", "counter")
                .property("spring.flyway.enabled", false)
                .property("counter.isolation", isolation);
        for (String property : properties) {
            String[] pair = property.split("=", 2);
            builder.property(pair[0], pair[1]);
        }
        AppProcess process = builder.start();
        processes.add(process);
        return process;
    }

    @Test
    void handler_that_declares_an_isolation_level_behind_a_pooler_fails_the_start() {
        // Only the dedicated connections bypass the pooler.
        AppProcess refused = count("declared", "forge.cluster.direct-connection.url=" + database.url());
        assertThat(refused.awaitExit(START)).isNotZero();
        assertThat(refused.log())
                .contains(
                        "@Transactional(isolation = SERIALIZABLE) on ",
                        "transaction pooler",
                        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    }

    @Test
    void levels_that_other_clients_leave_in_the_sessions_of_a_pooler_disturb_no_job() throws Exception {
        AppProcess node = count("statement").awaitReady(START);
        leaveLevel();
        for (int i = 0; i < 60; i++) {
            database.jdbc().sql("SELECT forge_enqueue('count')").query().listOfRows();
        }
        await().until(() -> database.jdbc()
                        .sql("SELECT count(*) FROM forge_jobs WHERE status = 'completed'")
                        .query(Integer.class)
                        .single()
                == 60);
        assertThat(database.jdbc()
                        .sql("SELECT n FROM counter")
                        .query(Integer.class)
                        .single())
                .isEqualTo(60);
        assertThat(node.log()).doesNotContain("needs the isolation level");
    }

    /** Leaves SERIALIZABLE in most sessions of the pooler. */
    private void leaveLevel() throws SQLException {
        var connections = new ArrayList<Connection>();
        try {
            for (int i = 0; i < 15; i++) {
                Connection connection = DriverManager.getConnection(pooler.url(database), "any", "");
                connections.add(connection);
                connection.setAutoCommit(false);
                connection.createStatement().execute("SELECT 1");
            }
            for (Connection connection : connections) {
                connection
                        .createStatement()
                        .execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE");
                connection.commit();
            }
        } finally {
            for (Connection connection : connections) {
                connection.close();
            }
        }
    }

    private void failOverPast(int rounds) {
        List<Long> figures = failOver(
                rounds,
                log -> assertThat(log).contains("leader strategy advisory-lock").doesNotContain("transaction pooler"),
                "forge.cluster.direct-connection.url=" + database.url());
        report("bypassing", figures, 1_500);
    }

    @Test
    @Tag("soak")
    void direct_connection_that_bypasses_the_pooler_restores_fast_failover() {
        failOverPast(1);
    }

    @Test
    @Tag("soak")
    void ten_failovers_past_it() {
        failOverPast(10);
    }
}
