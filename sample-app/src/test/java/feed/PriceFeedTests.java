// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package feed;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import sample.SampleApplication;

/** Checks all ticks of the price feed while its nodes are killed, frozen, drained and disconnected. */
@ClusterPostgres(migrated = false)
class PriceFeedTests {

    private static final Duration START = Duration.ofMinutes(5);
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private TestDatabase database;
    private final Map<String, AppProcess> nodes = new LinkedHashMap<>();
    private final Map<Fault, List<Long>> gaps = new EnumMap<>(Fault.class);
    private Class<?> application = SampleApplication.class;

    private enum Fault {
        KILL,
        FREEZE,
        DRAIN
    }

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("feed");
    }

    @AfterEach
    void drop() {
        nodes.values().forEach(AppProcess::close);
        database.close();
    }

    private AppProcess start(String name, String url) {
        AppProcess process = AppProcess.of(application)
                .database(database)
                .property("spring.datasource.url", url)
                .property("forge.cluster.node.name", name)
                .property("spring.datasource.hikari.maximum-pool-size", 2)
                .property("server.tomcat.threads.max", 4)
                .start();
        nodes.put(name, process);
        return process;
    }

    private void startAll(String... names) {
        for (String name : names) {
            start(name, database.url());
        }
        nodes.values().forEach(node -> node.awaitReady(START));
        orderTicks();
        awaitTicks(0);
    }

    /**
     * Creates a trigger that numbers the ticks. The counter row is locked until the commit, so the numbers follow the order of
     * commits.
     */
    private void orderTicks() {
        database.jdbc().sql("""
                CREATE TABLE tick_order AS SELECT 0::bigint AS n;
                ALTER TABLE price_ticks ADD COLUMN n bigint;
                CREATE FUNCTION number_tick() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    -- A node that is frozen while it locks this row would block all others.
                    SET LOCAL idle_in_transaction_session_timeout = '2s';
                    UPDATE tick_order SET n = n + 1 RETURNING n INTO NEW.n;
                    NEW.at := clock_timestamp();
                    RETURN NEW;
                END $$;
                CREATE TRIGGER number_tick BEFORE INSERT ON price_ticks FOR EACH ROW EXECUTE FUNCTION number_tick();
                DELETE FROM price_ticks;
                """).update();
    }

    private long term() {
        return database.jdbc()
                .sql("SELECT coalesce(max(current_term), 0) FROM forge_leaders WHERE role = 'daemon:price-feed'")
                .query(Long.class)
                .single();
    }

    private long ticksAfter(long term) {
        return database.jdbc()
                .sql("SELECT count(*) FROM price_ticks WHERE term > ?")
                .param(term)
                .query(Long.class)
                .single();
    }

    private void awaitTicks(long term) {
        await().atMost(PATIENCE).pollInterval(Duration.ofMillis(20)).until(() -> ticksAfter(term) > 3);
    }

    private String holder() {
        return database.jdbc()
                .sql(
                        "SELECT n.name FROM forge_daemons d JOIN forge_nodes n ON n.id = d.node_id WHERE d.status = 'running'")
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("");
    }

    private Instant now() {
        return database.jdbc()
                .sql("SELECT clock_timestamp()")
                .query(OffsetDateTime.class)
                .single()
                .toInstant();
    }

    private Instant firstTickAfter(long term) {
        return database.jdbc()
                .sql("SELECT min(at) FROM price_ticks WHERE term > ?")
                .param(term)
                .query(OffsetDateTime.class)
                .single()
                .toInstant();
    }

    /** Returns when the daemon method began on the successor, from its row; the first tick follows 200 ms later. */
    private Instant startedAfter(long term) {
        await().atMost(PATIENCE)
                .until(() -> database.jdbc()
                                .sql("SELECT count(*) FROM forge_daemons WHERE term > ? AND status = 'running'")
                                .param(term)
                                .query(Long.class)
                                .single()
                        == 1);
        return database.jdbc()
                .sql("SELECT started_at FROM forge_daemons WHERE name = 'price-feed'")
                .query(OffsetDateTime.class)
                .single()
                .toInstant();
    }

    /** Applies a fault to the node that runs the feed, waits for ticks of its successor, and restores the node. */
    private void strike(Fault fault) {
        String name = strikeOnce(fault);
        if (fault != Fault.FREEZE) {
            start(name, database.url()).awaitReady(START);
        }
    }

    /** Like {@link #strike}, but does not restart a killed or drained node; returns the name of the node. */
    private String strikeOnce(Fault fault) {
        await().atMost(PATIENCE).until(() -> nodes.containsKey(holder()));
        // Reads the term first: if another node begins the next term meanwhile, the wait below ends at once.
        long term = term();
        String name = await().atMost(PATIENCE).until(this::holder, nodes::containsKey);
        AppProcess victim = nodes.get(name);
        Instant struck = now();
        switch (fault) {
            case KILL -> victim.kill();
            case FREEZE -> victim.freeze();
            case DRAIN -> victim.terminate();
        }
        awaitTicks(term);
        Instant from = fault == Fault.DRAIN ? returned(victim) : struck;
        Instant followed = fault == Fault.DRAIN ? startedAfter(term) : firstTickAfter(term);
        gaps.computeIfAbsent(fault, f -> new ArrayList<>())
                .add(Duration.between(from, followed).toMillis());
        switch (fault) {
            case FREEZE -> {
                victim.thaw();
                // The node rejoins when it detects that it was declared dead.
                await().atMost(PATIENCE)
                        .until(() -> database.jdbc()
                                        .sql("SELECT count(*) FROM forge_nodes WHERE status = 'active'")
                                        .query(Long.class)
                                        .single()
                                == nodes.size());
            }
            case KILL, DRAIN -> {
                victim.awaitExit(PATIENCE);
                victim.close();
                nodes.remove(name);
            }
        }
        return name;
    }

    /** Returns when the daemon method ended, from the log of the node. */
    private static Instant returned(AppProcess victim) {
        String said = "Daemon price-feed term";
        victim.awaitLog("method ended on request", PATIENCE);
        String line = victim.log()
                .lines()
                .filter(text -> text.contains(said) && text.contains("method ended on request"))
                .reduce((first, second) -> second)
                .orElseThrow();
        return OffsetDateTime.parse(line.substring(0, line.indexOf(' '))).toInstant();
    }

    private record Tick(long n, long term, String node) {}

    /** Returns ticks that follow a tick of a newer term, and ticks whose term belongs to another node. */
    private List<String> violations() {
        List<Tick> ticks = database.jdbc()
                .sql("SELECT n, term, node FROM price_ticks ORDER BY n")
                .query((row, i) -> new Tick(row.getLong(1), row.getLong(2), row.getString(3)))
                .list();
        var violations = new ArrayList<String>();
        var owners = new LinkedHashMap<Long, String>();
        long newest = 0;
        for (Tick tick : ticks) {
            if (tick.term < newest) {
                violations.add("%s follows term %d".formatted(tick, newest));
            }
            newest = Math.max(newest, tick.term);
            String owner = owners.putIfAbsent(tick.term, tick.node);
            if (owner != null && !owner.equals(tick.node)) {
                violations.add("%s in the term of %s".formatted(tick, owner));
            }
        }
        return violations;
    }

    private static long median(List<Long> figures) {
        Collections.sort(figures);
        return figures.get(figures.size() / 2);
    }

    private void report() {
        System.out.printf(
                "price feed: %d terms, %d ticks, %d by an old term%n",
                term(), ticksAfter(0), violations().size());
        gaps.forEach((fault, millis) -> System.out.printf(
                "price feed, %s %d times: %s after p50 %d ms, max %d ms%n",
                fault,
                millis.size(),
                fault == Fault.DRAIN
                        ? "successor started, measured from the end of the method,"
                        : "first tick of the successor",
                median(millis),
                Collections.max(millis)));
    }

    @Test
    void feed_continues_when_its_node_is_killed_frozen_or_drained() {
        startAll("a", "b", "c");
        strikeOnce(Fault.FREEZE);
        strikeOnce(Fault.KILL);
        strikeOnce(Fault.DRAIN);
        report();
        assertThat(violations()).isEmpty();
    }

    @Test
    @Tag("soak")
    void over_twenty_kills_freezes_and_drains() {
        startAll("a", "b", "c");
        List<Fault> faults = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            faults.addAll(List.of(Fault.values()));
        }
        Collections.shuffle(faults, new Random(42));
        faults.forEach(this::strike);
        report();
        assertThat(violations()).isEmpty();
        assertThat(median(gaps.get(Fault.KILL))).isLessThanOrEqualTo(1_500);
        assertThat(gaps.get(Fault.DRAIN))
                .allSatisfy(millis -> assertThat(millis).isLessThanOrEqualTo(1_000));
    }

    @Test
    @Tag("soak")
    void checker_finds_ticks_of_an_old_term_without_the_fence() {
        application = UnfencedFeedApplication.class;
        startAll("a", "b");
        // Some freezes hit a feed that was not about to write.
        for (int freeze = 0; freeze < 6 && violations().isEmpty(); freeze++) {
            strike(Fault.FREEZE);
        }
        report();
        assertThat(violations()).isNotEmpty();
    }

    @Test
    @Tag("soak")
    void daemon_continues_after_a_database_outage() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (var network = TcpProxy.to(server.getHost(), server.getPort())) {
            String url = database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/")
                    + (database.url().contains("?") ? "&" : "?") + "socketTimeout=10";
            start("a", url).awaitReady(START);
            orderTicks();
            awaitTicks(0);
            long term = term();
            network.cut();
            // Waits until the deadlines of the node have passed and its term is lost.
            await().atMost(PATIENCE)
                    .until(() -> nodes.get("a").log().contains("Daemon price-feed term %d: term lost".formatted(term)));
            network.heal();
            Instant healed = now();
            awaitTicks(term);
            System.out.printf(
                    "price feed: first tick %d ms after the database was reachable again%n",
                    Duration.between(healed, firstTickAfter(term)).toMillis());
            assertThat(violations()).isEmpty();
            nodes.get("a").close();
        }
    }
}
