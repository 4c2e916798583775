// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import sample.SampleApplication;

/** Checks crons that fire every second, on the leader or on any worker, while leaders are killed, frozen and stopped. */
@ClusterPostgres(migrated = false)
class CronFaultTests {

    private static final Duration START = Duration.ofSeconds(90);
    private static final List<String> CRONS = List.of("heartbeat-report", "heartbeat-report-anywhere");

    private TestDatabase database;
    private final Map<String, AppProcess> nodes = new LinkedHashMap<>();

    private enum Fault {
        KILL,
        FREEZE,
        TERMINATE
    }

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("crons");
    }

    @AfterEach
    void drop() {
        nodes.values().forEach(AppProcess::close);
        database.close();
    }

    private AppProcess.Builder node(String name) {
        return AppProcess.of(SampleApplication.class)
                .database(database)
                .property("spring.profiles.active", "heartbeat")
                .property("forge.cluster.node.name", name)
                .property("forge.cluster.cron.misfire", "catch-up")
                .property("forge.cluster.cron.catch-up-limit", 1000)
                .property("forge.cluster.job.max-recoveries", 100)
                .property("forge.cluster.shutdown.drain-timeout", "5s");
    }

    private void start(String... names) {
        for (String name : names) {
            nodes.put(name, node(name).start());
        }
        for (String name : names) {
            nodes.get(name).awaitReady(START);
        }
    }

    private String leader() {
        return database.jdbc()
                .sql(
                        "SELECT n.name FROM forge_leaders l JOIN forge_nodes n ON n.id = l.node_id WHERE l.role = 'scheduler'")
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("");
    }

    private long number(String sql, Object... parameters) {
        return database.jdbc().sql(sql).params(parameters).query(Long.class).single();
    }

    /** Waits until shortly before a slot, by the clock of the database. */
    private void awaitJustBeforeASlot() {
        await().pollInterval(Duration.ofMillis(5))
                .until(() -> number("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint % 1000") / 50 == 17);
    }

    /** Applies a fault to the leader, waits until later slots have run, and restores the node. */
    private void strike(Fault fault, List<Long> lateness) {
        await().until(() -> nodes.containsKey(leader()));
        String name = leader();
        AppProcess victim = nodes.get(name);
        awaitJustBeforeASlot();
        long slot = number("SELECT ceil(extract(epoch FROM clock_timestamp()))::bigint");
        switch (fault) {
            case KILL -> victim.kill();
            case FREEZE -> victim.freeze();
            case TERMINATE -> victim.terminate();
        }
        CRONS.forEach(cron -> await().until(() ->
                number("SELECT count(*) FROM reports WHERE cron = ? AND slot > to_timestamp(?)", cron, slot) > 3));
        if (fault == Fault.FREEZE) {
            victim.thaw();
        } else {
            lateness.add(number(
                    "SELECT max(extract(epoch FROM fired_at - slot) * 1000)::bigint FROM forge_cron_runs"
                            + " WHERE slot = to_timestamp(?)",
                    slot));
            victim.close();
            start(name);
        }
    }

    private void checkHistory() {
        database.jdbc()
                .sql("UPDATE forge_crons SET paused = true WHERE name LIKE 'heartbeat%'")
                .update();
        await().until(() ->
                number("SELECT count(*) FROM forge_crons WHERE name LIKE 'heartbeat%' AND next_fire_at < now()"
                                + " - interval '1 second'")
                        == 0);
        await().atMost(Duration.ofSeconds(90))
                .until(() -> number("SELECT count(*) FROM forge_jobs WHERE name LIKE 'heartbeat%' AND status IN"
                                + " ('pending', 'claimed', 'running')")
                        == 0);
        for (String cron : CRONS) {
            // The pause may have skipped the last slots that were still waiting.
            long last = number(
                    "SELECT extract(epoch FROM max(slot))::bigint FROM forge_cron_runs WHERE cron = ? AND outcome = 'ran'",
                    cron);
            long first =
                    number("SELECT extract(epoch FROM min(slot))::bigint FROM forge_cron_runs WHERE cron = ?", cron);
            long decided = number(
                    "SELECT count(*) FROM forge_cron_runs WHERE cron = ? AND slot <= to_timestamp(?)", cron, last);
            long ran = number(
                    "SELECT count(*) FROM forge_cron_runs WHERE cron = ? AND outcome = 'ran' AND slot <= to_timestamp(?)",
                    cron,
                    last);
            long reports = number("SELECT count(*) FROM reports WHERE cron = ?", cron);
            long reported = number("SELECT count(DISTINCT slot) FROM reports WHERE cron = ?", cron);
            System.out.printf(
                    "%s: %d slots, %d decided, %d ran, %d reports of %d slots%n",
                    cron, last - first + 1, decided, ran, reports, reported);
            assertThat(decided).as("one decided slot for each second").isEqualTo(last - first + 1);
            assertThat(ran).as("caught up").isEqualTo(decided);
            assertThat(reports).as("no slot ran twice").isEqualTo(reported);
            assertThat(reported).as("each slot ran").isEqualTo(ran);
        }
        assertThat(number("SELECT count(*) FROM forge_cron_runs WHERE slot > fired_at"))
                .isZero();
        assertThat(number("SELECT count(*) FROM reports WHERE slot > at")).isZero();
    }

    private static void print(String what, List<Long> millis) {
        Collections.sort(millis);
        System.out.printf("%s: fired %s ms late%n", what, millis);
    }

    @Test
    @Tag("soak")
    void every_slot_runs_once_when_the_leader_is_killed() {
        start("a", "b", "c");
        List<Long> lateness = new ArrayList<>();
        strike(Fault.KILL, lateness);
        print("leader killed just before a slot", lateness);
        assertThat(lateness).allMatch(late -> late <= 2_000);
        checkHistory();
    }

    @Test
    @Tag("soak")
    void every_slot_runs_once_over_ten_kills_and_five_freezes() {
        start("a", "b", "c");
        List<Long> kills = new ArrayList<>();
        for (int i = 0; i < 15; i++) {
            strike(i % 3 == 2 ? Fault.FREEZE : Fault.KILL, kills);
        }
        print("leader killed just before a slot", kills);
        List<Long> stops = new ArrayList<>();
        strike(Fault.TERMINATE, stops);
        print("leader stopped just before a slot", stops);
        assertThat(kills).hasSize(10).allMatch(late -> late <= 2_000);
        checkHistory();
        assertThat(number("SELECT count(*) FROM reports WHERE cron = 'heartbeat-report'"))
                .isGreaterThan(100);
    }

    @Test
    @Tag("soak")
    void leader_whose_clock_is_ahead_fires_nothing_early() {
        nodes.put("ahead", WrongClock.ahead(node("ahead")).start());
        nodes.get("ahead").awaitReady(START);
        await().until(() -> number("SELECT count(*) FROM reports WHERE cron = 'heartbeat-report'") > 10);
        assertThat(leader()).isEqualTo("ahead");
        checkHistory();
    }

    @Test
    @Tag("soak")
    void cron_lives_as_long_as_a_node_that_declares_it() {
        nodes.put("old", node("old").property("spring.profiles.active", "none").start());
        nodes.get("old").awaitReady(START);
        start("new");
        await().until(() -> number("SELECT count(*) FROM reports WHERE cron = 'heartbeat-report'") > 3);
        // The leader has no handlers for these crons, so a node that has them runs them.
        assertThat(leader()).isEqualTo("old");
        assertThat(number("SELECT count(*) FROM reports WHERE cron LIKE 'heartbeat%' AND node <> 'new'"))
                .isZero();
        nodes.remove("old").close();
        nodes.put("old", node("old").property("spring.profiles.active", "none").start());
        nodes.get("old").awaitReady(START);
        long before = number("SELECT count(*) FROM reports WHERE cron = 'heartbeat-report'");
        await().during(Duration.ofSeconds(20))
                .atMost(Duration.ofSeconds(25))
                .until(() -> number("SELECT count(*) FROM forge_crons") == 3);
        assertThat(number("SELECT count(*) FROM reports WHERE cron = 'heartbeat-report'"))
                .isGreaterThan(before + 10);
        nodes.remove("new").close();
        await().until(() -> number("SELECT count(*) FROM forge_crons") == 1);
        assertThat(database.jdbc()
                        .sql("SELECT name FROM forge_crons")
                        .query(String.class)
                        .list())
                .containsExactly("minute-report");
    }
}
