// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.awaitility.core.ConditionTimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Checks the history of fenced writes while leaders are killed, frozen, disconnected and lose their sessions. */
@ClusterPostgres(migrated = false)
class FencingTests {

    private static final Duration START = Duration.ofSeconds(90);

    private TestDatabase database;
    private final Map<String, Writer> writers = new LinkedHashMap<>();

    private record Writer(AppProcess process, TcpProxy network) implements AutoCloseable {
        @Override
        public void close() {
            process.close();
            network.close();
        }
    }

    private enum Fault {
        KILL,
        FREEZE,
        TERMINATE_SESSION,
        CUT
    }

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("fencing");
        database.jdbc().sql("CREATE TABLE counter AS SELECT 0::bigint AS n").update();
        database.jdbc()
                .sql("CREATE TABLE history (n bigint, term bigint, node text)")
                .update();
    }

    @AfterEach
    void drop() {
        writers.values().forEach(Writer::close);
        database.close();
    }

    private void start(String name, boolean fence) {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        TcpProxy network = TcpProxy.to(server.getHost(), server.getPort());
        AppProcess process = AppProcess.of(FencedWriterApplication.class)
                .database(database)
                .property(
                        "spring.datasource.url",
                        database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/")
                                + (database.url().contains("?") ? "&" : "?") + "socketTimeout=10")
                .property("spring.flyway.enabled", false)
                .property("forge.cluster.node.name", name)
                .property("fence", fence)
                .start();
        writers.put(name, new Writer(process, network));
    }

    private void startAll(boolean fence) {
        List.of("a", "b", "c").forEach(name -> start(name, fence));
        writers.values().forEach(writer -> writer.process.awaitReady(START));
    }

    private String leader() {
        return database.jdbc()
                .sql(
                        "SELECT n.name FROM forge_leaders l JOIN forge_nodes n ON n.id = l.node_id WHERE l.role = 'scheduler'")
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("");
    }

    private long term() {
        return database.jdbc()
                .sql("SELECT coalesce(max(current_term), 0) FROM forge_leaders WHERE role = 'scheduler'")
                .query(Long.class)
                .single();
    }

    private long writes() {
        return database.jdbc()
                .sql("SELECT count(*) FROM history")
                .query(Long.class)
                .single();
    }

    /** Applies a fault to the leader, waits for writes of the next leader, and restores the node. */
    private void strike(Fault fault, boolean fence) {
        await().until(() -> writers.containsKey(leader()));
        String name = leader();
        Writer victim = writers.get(name);
        long term = term();
        switch (fault) {
            case KILL -> victim.process.kill();
            case FREEZE -> victim.process.freeze();
            case CUT -> victim.network.cut();
            // A node that took over from a frozen one leads without the lock, and without a session in the row, until
            // it gets the lock.
            case TERMINATE_SESSION ->
                await().until(() -> !database.jdbc()
                        .sql(
                                "SELECT 1 FROM forge_leader_leases WHERE role = 'scheduler' AND pg_terminate_backend(backend_pid)")
                        .query()
                        .listOfRows()
                        .isEmpty());
        }
        try {
            await().until(() -> database.jdbc()
                            .sql("SELECT count(*) FROM history WHERE term > ?")
                            .param(term)
                            .query(Long.class)
                            .single()
                    > 20);
        } catch (ConditionTimeoutException e) {
            throw new AssertionError("No writes after term %d: %s of %s%n%s".formatted(term, fault, name, state()), e);
        }
        switch (fault) {
            case KILL -> {
                victim.close();
                start(name, fence);
                writers.get(name).process.awaitReady(START);
            }
            case FREEZE -> victim.process.thaw();
            case CUT -> victim.network.heal();
            case TERMINATE_SESSION -> {}
        }
        // Leaves the restored node time to try its pending writes.
        long before = writes();
        await().until(() -> writes() > before + 30);
    }

    /** Returns what a stalled election leaves to read. */
    private String state() {
        var text = new StringBuilder();
        for (String query : List.of(
                "SELECT *, clock_timestamp() FROM forge_leader_leases",
                "SELECT * FROM forge_leaders",
                "SELECT id, name, status, last_heartbeat FROM forge_nodes",
                "SELECT pid, state, wait_event_type, wait_event, now() - xact_start AS age, pg_blocking_pids(pid)::text, left(query, 150)"
                        + " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")) {
            database.jdbc()
                    .sql(query)
                    .query()
                    .listOfRows()
                    .forEach(row -> text.append(row).append('\n'));
        }
        writers.forEach((name, writer) -> {
            String log = writer.process.log();
            text.append("Log of ").append(name).append('\n').append(log.substring(Math.max(0, log.length() - 4_000)));
        });
        return text.toString();
    }

    private record Write(long n, long term, String node) {}

    /** Returns writes that follow a write of a newer term, and writes whose term belongs to another node. */
    private List<String> violations() {
        List<Write> history = database.jdbc()
                .sql("SELECT n, term, node FROM history ORDER BY n")
                .query((row, i) -> new Write(row.getLong(1), row.getLong(2), row.getString(3)))
                .list();
        var violations = new ArrayList<String>();
        var owners = new LinkedHashMap<Long, String>();
        long newest = 0;
        for (Write write : history) {
            if (write.term < newest) {
                violations.add("%s follows term %d".formatted(write, newest));
            }
            newest = Math.max(newest, write.term);
            String owner = owners.putIfAbsent(write.term, write.node);
            if (owner != null && !owner.equals(write.node)) {
                violations.add("%s in the term of %s".formatted(write, owner));
            }
        }
        return violations;
    }

    private void report(String run) {
        System.out.printf(
                "%s: %d terms, %d writes, %d by an old term%n",
                run, term(), writes(), violations().size());
    }

    @Test
    @Tag("soak")
    void checker_finds_stale_writes_without_the_fence() {
        startAll(false);
        // Some freezes hit a leader that was not about to write.
        for (int freeze = 0; freeze < 5 && violations().isEmpty(); freeze++) {
            strike(Fault.FREEZE, false);
        }
        report("not fenced, frozen leaders");
        assertThat(violations()).isNotEmpty();
    }

    private void manyFaults(boolean fence) {
        startAll(fence);
        var random = new Random(42);
        while (term() < 25 || writes() < 4_000) {
            strike(Fault.values()[random.nextInt(Fault.values().length)], fence);
        }
    }

    @Test
    @Tag("soak")
    void many_terms_many_writes() {
        manyFaults(true);
        report("fenced, random faults");
        assertThat(violations()).isEmpty();
    }

    @Test
    @Tag("soak")
    void checker_finds_writes_without_the_fence() {
        manyFaults(false);
        report("not fenced, the same faults");
        assertThat(violations()).isNotEmpty();
    }
}
