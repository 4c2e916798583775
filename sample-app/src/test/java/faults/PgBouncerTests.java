package faults;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.forge.cluster.test.AppProcess;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.PostgresServer;
import dev.forge.cluster.test.TestDatabase;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import sample.SampleApplication;

/** Nodes behind a pooler that takes their session away after each transaction. */
@ClusterPostgres(migrated = false)
class PgBouncerTests {

    private static final Duration START = Duration.ofSeconds(90);

    private TestDatabase database;
    private PgBouncer pooler;
    private final List<AppProcess> processes = new ArrayList<>();

    @BeforeEach
    void create() throws IOException {
        assumeTrue(PgBouncer.binary().isPresent(), "PgBouncer is not installed: its tests are skipped");
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

    @Test
    void auto_elects_by_leases_says_so_and_fails_over_within_a_lease() {
        AppProcess first = start("first").awaitReady(START);
        await().until(() -> term() == 1);
        AppProcess second = start("second").awaitReady(START);
        assertThat(first.log())
                .contains("A transaction pooler stands between this node and the database", "leader strategy lease");
        assertThat(second.log()).contains("leader strategy lease");
        first.kill();
        long start = System.nanoTime();
        await().pollInterval(Duration.ofMillis(10))
                .atMost(Duration.ofSeconds(15))
                .until(() -> term() > 1);
        long millis = (System.nanoTime() - start) / 1_000_000;
        System.out.printf("behind PgBouncer: kill -9 of the leader, new term after %d ms%n", millis);
        assertThat(millis).isLessThanOrEqualTo(6_000);
    }

    @Test
    void insisting_on_advisory_locks_is_refused_with_the_reason() {
        AppProcess refused = start("refused", "forge.cluster.leader.strategy=advisory-lock");
        assertThat(refused.awaitExit(START)).isNotZero();
        assertThat(refused.log())
                .contains(
                        "forge.cluster.leader.strategy (advisory-lock)",
                        "transaction pooler",
                        "forge.cluster.direct-connection.url");
    }

    @Test
    void a_direct_connection_past_the_pooler_restores_the_fast_path() {
        String past = "forge.cluster.direct-connection.url=" + database.url();
        AppProcess first = start("first", past).awaitReady(START);
        await().until(() -> term() == 1);
        start("second", past).awaitReady(START);
        assertThat(first.log()).contains("leader strategy advisory-lock").doesNotContain("transaction pooler");
        first.kill();
        long start = System.nanoTime();
        await().pollInterval(Duration.ofMillis(5)).until(() -> term() > 1);
        long millis = (System.nanoTime() - start) / 1_000_000;
        System.out.printf("past PgBouncer: kill -9 of the leader, new term after %d ms%n", millis);
        assertThat(millis).isLessThanOrEqualTo(1_500);
    }
}
