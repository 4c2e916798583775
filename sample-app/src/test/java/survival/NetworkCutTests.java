// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.process.AppProcess;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import sample.SampleApplication;

/** Checks a leader on a host whose network is cut silently. */
class NetworkCutTests {

    private static final Duration START = Duration.ofSeconds(90);

    private OwnPostgres server;
    private Namespace host;
    private AppProcess cutOff;
    private AppProcess safe;

    @BeforeEach
    void create() throws IOException {
        assumeTrue(
                OwnPostgres.binaries().isPresent(),
                "Skipped: the network cut tests need a PostgreSQL server under /usr/lib/postgresql");
        host = Namespace.create().orElse(null);
        assumeTrue(host != null, "Skipped: network namespaces are unavailable; they need root and iproute2");
        server = OwnPostgres.start();
    }

    @AfterEach
    void drop() {
        for (AutoCloseable resource : new AutoCloseable[] {cutOff, safe, server, host}) {
            if (resource != null) {
                try {
                    resource.close();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    private AppProcess.Builder node(String name, String address) {
        return AppProcess.of(SampleApplication.class)
                .property("spring.datasource.url", "jdbc:postgresql://%s:%d/postgres".formatted(address, server.port()))
                .property("spring.datasource.username", "postgres")
                .property("spring.datasource.hikari.maximum-pool-size", 2)
                .property("forge.cluster.node.name", name);
    }

    /** Returns the process id of the backend that holds the documented scheduler lock; 0 if none does. */
    private int holder() {
        return server.jdbc().sql("""
                        SELECT coalesce(max(pid), 0) FROM pg_locks
                        WHERE locktype = 'advisory' AND objsubid = 1 AND classid = 17999 AND objid = 1380384769 AND granted
                        """).query(Integer.class).single();
    }

    private String leader() {
        return server.jdbc()
                .sql(
                        "SELECT n.name FROM forge_leaders l JOIN forge_nodes n ON n.id = l.node_id WHERE l.role = 'scheduler'")
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("");
    }

    private void cuts(int rounds) {
        cutOff = node("cut-off", host.address()).under(host.prefix()).start();
        cutOff.awaitLog("Leads {", START);
        safe = node("safe", "127.0.0.1").start().awaitReady(START);
        var margins = new ArrayList<Long>();
        var followed = new ArrayList<Long>();
        for (int round = 0; round < rounds; round++) {
            int held = holder();
            assertThat(held).isNotZero();
            assertThat(leader()).isEqualTo("cut-off");
            int ends = endsOfLeadership().size();
            long start = System.nanoTime();
            host.cut();
            await().pollInterval(Duration.ofMillis(2)).until(() -> holder() != held);
            Instant freed = server.jdbc()
                    .sql("SELECT clock_timestamp()")
                    .query(OffsetDateTime.class)
                    .single()
                    .toInstant();
            await().until(() -> leader().equals("safe"));
            followed.add((System.nanoTime() - start) / 1_000_000);
            await().until(() -> endsOfLeadership().size() > ends);
            margins.add(Duration.between(endsOfLeadership().get(ends), freed).toMillis());
            host.heal();
            await().until(() -> server.jdbc()
                            .sql("SELECT count(*) FROM forge_nodes WHERE status = 'active'")
                            .query(Long.class)
                            .single()
                    == 2);
            // Returns the role to the node that is disconnected next.
            if (round + 1 < rounds) {
                safe.close();
                await().until(() -> leader().equals("cut-off"));
                safe = node("safe", "127.0.0.1").start().awaitReady(START);
            }
        }
        System.out.printf(
                "leader disconnected silently, %d times: resigned at least %d ms before the server released its lock;"
                        + " successor after at most %d ms%n",
                rounds, Collections.min(margins), Collections.max(followed));
        assertThat(Collections.min(margins)).isPositive();
    }

    private List<Instant> endsOfLeadership() {
        return cutOff.log()
                .lines()
                .filter(line -> line.contains("No longer leads"))
                .map(line -> OffsetDateTime.parse(line.substring(0, line.indexOf(' ')))
                        .toInstant())
                .toList();
    }

    @Test
    @Tag("soak")
    void disconnected_leader_resigns_before_the_server_releases_its_lock() {
        cuts(1);
    }

    @Test
    @Tag("soak")
    void ten_times() {
        cuts(10);
    }
}
