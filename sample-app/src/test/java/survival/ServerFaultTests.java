// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.process.AppProcess;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataAccessException;
import sample.SampleApplication;

/**
 * Checks that no node is declared dead, and that a node leads again, after the database has restarted, was unreachable or has
 * failed over.
 */
class ServerFaultTests {

    private static final Duration START = Duration.ofMinutes(5);
    /** Longer than the time for which nodes ignore missing locks after a restart, plus the following detection. */
    private static final Duration GRACE = Duration.ofSeconds(17);

    private static final int ORDERS_PER_SECOND = 50;

    private OwnPostgres server;
    private final List<AppProcess> processes = new ArrayList<>();

    @BeforeEach
    void create() throws IOException {
        assumeTrue(
                OwnPostgres.binaries().isPresent(),
                "Skipped: restarts and promotions need a PostgreSQL server under /usr/lib/postgresql");
        server = OwnPostgres.start();
    }

    @AfterEach
    void drop() {
        processes.forEach(AppProcess::close);
        if (server != null) {
            server.close();
        }
    }

    private void start(String name, String url) {
        processes.add(AppProcess.of(SampleApplication.class)
                .property("spring.datasource.url", url)
                .property("spring.datasource.username", "postgres")
                .property("spring.datasource.hikari.maximum-pool-size", 4)
                .property("forge.cluster.worker.max-concurrent-jobs", 2)
                .property("forge.cluster.node.name", name)
                .start());
    }

    private void startNodes(String url, String... names) {
        for (String name : names) {
            start(name, url);
        }
        processes.forEach(process -> process.awaitReady(START));
        await().until(() -> leadingTerm(server) > 0);
    }

    private String url() {
        return "jdbc:postgresql://127.0.0.1:%d/postgres".formatted(server.port());
    }

    /** Returns the current term; 0 if there is no leader or the server is unreachable. */
    private static long leadingTerm(OwnPostgres server) {
        try {
            return server.jdbc().sql("""
                            SELECT coalesce(max(l.current_term), 0) FROM forge_leaders l
                            JOIN forge_leader_leases e ON e.role = l.role AND e.node_id = l.node_id
                            WHERE l.role = 'scheduler' AND e.lease_until > clock_timestamp()
                            """).query(Long.class).single();
        } catch (DataAccessException e) {
            return 0;
        }
    }

    private static Map<String, String> members(OwnPostgres server) {
        var members = new TreeMap<String, String>();
        server.jdbc()
                .sql("SELECT name, id::text FROM forge_nodes WHERE status IN ('active', 'stale')")
                .query((row, n) -> members.put(row.getString(1), row.getString(2)))
                .list();
        return members;
    }

    private static long millisSince(long start) {
        return (System.nanoTime() - start) / 1_000_000;
    }

    private static void awaitLed(OwnPostgres server, long formerTerm) {
        await().pollInterval(Duration.ofMillis(10)).until(() -> leadingTerm(server) > formerTerm);
    }

    private void restarts(int each) {
        startNodes(url(), "a", "b", "c");
        Map<String, String> before = members(server);
        assertThat(before).hasSize(3);
        var resumed = new ArrayList<Long>();
        var without = new ArrayList<Long>();
        // A single round is part of the default suite, in which other tests need the processors, too.
        var traffic = new OrderTraffic(processes, each > 1 ? ORDERS_PER_SECOND : 10);
        for (int round = 0; round < each; round++) {
            for (String mode : List.of("fast", "immediate")) {
                long term = leadingTerm(server);
                long stopped = System.nanoTime();
                server.down(mode);
                server.up();
                long up = System.nanoTime();
                awaitLed(server, term);
                resumed.add(millisSince(up));
                without.add(millisSince(stopped));
                if (mode.equals("fast")) {
                    beatAgain(server, before);
                }
            }
            outliveTheGrace(server, before);
            assertNobodyDied(server, before);
        }
        System.out.printf(
                "%d fast and %d immediate restarts: new leader at most %d ms after the server was up,"
                        + " at most %d ms without a leader; nodes declared dead: %d%n",
                each, each, Collections.max(resumed), Collections.max(without), deaths());
        assertEveryOrderIsProcessed(server, traffic);
        // A single round of the default suite only prints its figures, because the machine may be busy.
        if (each > 1) {
            assertThat(Collections.max(resumed)).isLessThanOrEqualTo(5_000);
            assertThat(Collections.max(without)).isLessThanOrEqualTo(5_000);
        }
    }

    /** Asserts that every acknowledged order was processed exactly once. */
    private static void assertEveryOrderIsProcessed(OwnPostgres server, OrderTraffic traffic) {
        traffic.close();
        // Excludes cron runs: the next slot cancels a run that waits for its next attempt.
        await().atMost(Duration.ofMinutes(5))
                .until(() -> server.jdbc()
                                .sql(
                                        "SELECT count(*) FROM forge_jobs WHERE name = 'process-order' AND status <> 'completed'")
                                .query(Long.class)
                                .single()
                        == 0);
        List<String> processed = server.jdbc()
                .sql("SELECT order_id::text FROM ledger")
                .query(String.class)
                .list();
        System.out.printf(
                "%d orders acknowledged, %d requests failed, %d ledger rows%n",
                traffic.acknowledged.size(), traffic.failures.size(), processed.size());
        assertThat(processed).doesNotHaveDuplicates().containsAll(traffic.acknowledged);
    }

    /** Waits until each of the nodes has sent a heartbeat. */
    private static void beatAgain(OwnPostgres server, Map<String, String> nodes) {
        Map<String, Long> before = beats(server);
        await().until(() -> {
            Map<String, Long> now = beats(server);
            return nodes.values().stream().allMatch(id -> now.getOrDefault(id, 0L) > before.getOrDefault(id, 0L));
        });
    }

    private static Map<String, Long> beats(OwnPostgres server) {
        var beats = new TreeMap<String, Long>();
        server.jdbc()
                .sql("SELECT id::text, beats FROM forge_nodes")
                .query((row, n) -> beats.put(row.getString(1), row.getLong(2)))
                .list();
        return beats;
    }

    /**
     * Waits until missing locks count again. Nodes ignore missing locks for fifteen seconds after a restart, so an earlier
     * check could not find a node that is wrongly declared dead.
     */
    private static void outliveTheGrace(OwnPostgres server, Map<String, String> nodes) {
        await().pollDelay(GRACE).until(() -> true);
        beatAgain(server, nodes);
    }

    private void assertNobodyDied(OwnPostgres server, Map<String, String> before) {
        assertThat(members(server)).isEqualTo(before);
        assertThat(deaths()).isZero();
    }

    private long deaths() {
        return processes.stream()
                .flatMap(process -> process.log().lines())
                .filter(line -> line.contains("declared dead") || line.contains("declared it dead"))
                .count();
    }

    @Test
    void restarted_server_makes_no_node_dead_and_has_a_leader_within_seconds() {
        restarts(1);
    }

    @Test
    @Tag("soak")
    void five_fast_and_five_immediate_restarts_keep_all_nodes() {
        restarts(5);
    }

    @Test
    @Tag("soak")
    void outage_longer_than_the_dead_threshold_makes_no_node_dead() {
        startNodes(url(), "a", "b", "c");
        Map<String, String> before = members(server);
        long term = leadingTerm(server);
        long stopped = System.nanoTime();
        server.down("fast");
        await().pollDelay(Duration.ofSeconds(20)).until(() -> true);
        server.up();
        long up = System.nanoTime();
        awaitLed(server, term);
        long resumed = millisSince(up);
        long without = millisSince(stopped);
        outliveTheGrace(server, before);
        System.out.printf(
                "20 s outage: new leader %d ms after its end, %d ms without a leader; nodes declared dead: %d%n",
                resumed, without, deaths());
        assertNobodyDied(server, before);
        assertThat(resumed).isLessThanOrEqualTo(5_000);
    }

    /** The milliseconds until a node led, from the stop of the primary and from the promotion of the standby. */
    private record Promotion(long inAll, long afterwards) {}

    private Promotion promote(boolean outlive) throws IOException {
        try (OwnPostgres standby = server.synchronousStandby()) {
            String both = "jdbc:postgresql://127.0.0.1:%d,127.0.0.1:%d/postgres?targetServerType=primary"
                    .formatted(server.port(), standby.port());
            startNodes(both, "a", "b");
            Map<String, String> before = members(server);
            assertThat(before).hasSize(2);
            var traffic = new OrderTraffic(processes, ORDERS_PER_SECOND);
            await().until(() -> traffic.acknowledged.size() > ORDERS_PER_SECOND);
            long term = leadingTerm(server);
            long stopped = System.nanoTime();
            server.down("immediate");
            standby.promote();
            long promoted = System.nanoTime();
            awaitLed(standby, term);
            var promotion = new Promotion(millisSince(stopped), millisSince(promoted));
            assertThat(leadingTerm(standby)).isGreaterThan(term);
            if (outlive) {
                outliveTheGrace(standby, before);
            } else {
                beatAgain(standby, before);
            }
            assertNobodyDied(standby, before);
            assertEveryOrderIsProcessed(standby, traffic);
            processes.forEach(AppProcess::close);
            processes.clear();
            return promotion;
        }
    }

    private void promotions(int rounds) throws IOException {
        var inAll = new ArrayList<Long>();
        var afterwards = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            if (round > 0) {
                server.close();
                server = OwnPostgres.start();
            }
            Promotion promotion = promote(round == rounds - 1);
            inAll.add(promotion.inAll);
            afterwards.add(promotion.afterwards);
        }
        System.out.printf(
                "promotion of a synchronous standby, %d times: new leader at most %d ms after the promotion,"
                        + " at most %d ms without a leader%n",
                rounds, Collections.max(afterwards), Collections.max(inAll));
        assertThat(Collections.max(inAll)).isLessThanOrEqualTo(5_000);
    }

    @Test
    @Tag("soak")
    void promoted_synchronous_standby_has_a_leader_within_seconds_and_terms_never_decrease() throws IOException {
        promotions(1);
    }

    @Test
    @Tag("soak")
    void ten_promotions() throws IOException {
        promotions(10);
    }
}
