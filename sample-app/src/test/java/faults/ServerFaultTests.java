package faults;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.forge.cluster.test.AppProcess;
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

/** The database restarts, is away for a while, or fails over: nobody dies of it, and leadership resumes. */
class ServerFaultTests {

    private static final Duration START = Duration.ofSeconds(90);

    private OwnPostgres server;
    private final List<AppProcess> processes = new ArrayList<>();

    @BeforeEach
    void create() throws IOException {
        assumeTrue(
                OwnPostgres.binaries().isPresent(),
                "no PostgreSQL server under /usr/lib/postgresql: restarts and promotions are not tested");
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
                .property("spring.datasource.hikari.maximum-pool-size", 2)
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

    /** The term that somebody leads; 0 if nobody does or the server is away. */
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

    private static long millisUntilLed(OwnPostgres server, long formerTerm) {
        long start = System.nanoTime();
        await().pollInterval(Duration.ofMillis(10))
                .atMost(Duration.ofSeconds(20))
                .until(() -> leadingTerm(server) > formerTerm);
        return (System.nanoTime() - start) / 1_000_000;
    }

    private void restarts(int each) {
        startNodes(url(), "a", "b", "c");
        Map<String, String> before = members(server);
        assertThat(before).hasSize(3);
        var resumed = new ArrayList<Long>();
        for (int round = 0; round < each; round++) {
            for (String mode : List.of("fast", "immediate")) {
                long term = leadingTerm(server);
                server.down(mode);
                server.up();
                resumed.add(millisUntilLed(server, term));
                beatAgain();
            }
        }
        System.out.printf(
                "%d fast and %d immediate restarts: led again after max %d ms; nodes declared dead: %d%n",
                each, each, Collections.max(resumed), deaths());
        assertThat(Collections.max(resumed)).isLessThanOrEqualTo(5_000);
        assertThat(members(server)).isEqualTo(before);
        assertThat(deaths()).isZero();
    }

    /** Everybody has beaten since now: whoever was to be declared dead would have been. */
    private void beatAgain() {
        long before = server.jdbc()
                .sql("SELECT min(beats) FROM forge_nodes WHERE status <> 'dead'")
                .query(Long.class)
                .single();
        await().atMost(Duration.ofSeconds(15))
                .until(() -> server.jdbc()
                                .sql("SELECT min(beats) FROM forge_nodes WHERE status <> 'dead'")
                                .query(Long.class)
                                .single()
                        > before);
    }

    private long deaths() {
        return processes.stream()
                .flatMap(process -> process.log().lines())
                .filter(line -> line.contains("declared dead") || line.contains("declared this node dead"))
                .count();
    }

    @Test
    void a_restarted_server_costs_no_node_its_life_and_is_led_again_within_seconds() {
        restarts(1);
    }

    @Test
    @Tag("soak")
    void five_fast_and_five_immediate_restarts() {
        restarts(5);
    }

    @Test
    @Tag("soak")
    void an_outage_longer_than_the_dead_threshold_kills_nobody() {
        startNodes(url(), "a", "b", "c");
        Map<String, String> before = members(server);
        long term = leadingTerm(server);
        server.down("fast");
        await().pollDelay(Duration.ofSeconds(20)).atMost(Duration.ofSeconds(30)).until(() -> true);
        server.up();
        long resumed = millisUntilLed(server, term);
        beatAgain();
        System.out.printf("20 s outage: led again %d ms after its end; nodes declared dead: %d%n", resumed, deaths());
        assertThat(members(server)).isEqualTo(before);
        assertThat(deaths()).isZero();
        assertThat(resumed).isLessThanOrEqualTo(5_000);
    }

    @Test
    void a_promoted_synchronous_standby_is_led_within_seconds_and_no_term_goes_back() throws IOException {
        try (OwnPostgres standby = server.synchronousStandby()) {
            String both = "jdbc:postgresql://127.0.0.1:%d,127.0.0.1:%d/postgres?targetServerType=primary"
                    .formatted(server.port(), standby.port());
            startNodes(both, "a", "b");
            Map<String, String> before = members(server);
            long term = leadingTerm(server);
            server.down("immediate");
            standby.promote();
            long resumed = millisUntilLed(standby, term);
            System.out.printf("promotion of a synchronous standby: led again after %d ms%n", resumed);
            assertThat(resumed).isLessThanOrEqualTo(5_000);
            assertThat(leadingTerm(standby)).isGreaterThan(term);
            assertThat(members(standby)).isEqualTo(before);
        }
    }
}
