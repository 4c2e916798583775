// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipAcquired;
import dev.forge.cluster.leader.LeadershipLost;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

@ClusterPostgres
class ElectionTests {

    private static final String SCHEDULER = Leadership.SCHEDULER;

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    ElectionTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void create() {
        cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    static Stream<UnaryOperator<NodeSettings>> strategies() {
        return Stream.of(TestNodes::steady, settings -> TestNodes.byLease(TestNodes.steady(settings)));
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void one_of_two_nodes_leads_and_the_other_follows_in_the_next_term_after_a_release(
            UnaryOperator<NodeSettings> strategy) {
        Member one = cluster.start("one", strategy);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        Member two = cluster.start("two", strategy);
        assertThat(one.leadership().isLeader(SCHEDULER)).isTrue();
        assertThat(two.leadership().isLeader(SCHEDULER)).isFalse();
        long term = one.leadership().term(SCHEDULER).orElseThrow();
        one.leadership().leave(SCHEDULER);
        await().until(() -> two.leadership().isLeader(SCHEDULER));
        assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
        assertThat(two.leadership().term(SCHEDULER)).hasValue(term + 1);
        assertThat(one.events()).contains(new LeadershipAcquired(SCHEDULER, term), new LeadershipLost(SCHEDULER, term));
        await().until(() -> two.events().contains(new LeadershipAcquired(SCHEDULER, term + 1)));
    }

    @Test
    void roles_are_independent_and_user_defined_ones_work_alike() {
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        Member two = cluster.start("two", TestNodes::steady);
        two.leadership().join("reports");
        await().until(() -> two.leadership().isLeader("reports"));
        assertThat(two.leadership().isLeader(SCHEDULER)).isFalse();
        assertThat(one.leadership().isLeader("reports")).isFalse();
        one.leadership().join("reports");
        two.stop();
        await().until(() -> one.leadership().isLeader("reports"));
    }

    @Test
    void documented_lock_is_held_while_a_node_leads() {
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        String held = """
                SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
                AND (classid::bigint << 32) | objid::bigint = ?
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                """;
        assertThat(jdbc.sql(held).param(0x464F52470001L).query(Long.class).single())
                .isOne();
        one.stop();
        assertThat(jdbc.sql(held).param(0x464F52470001L).query(Long.class).single())
                .isZero();
    }

    /** Takes the locks of roles, which every database role can do: the keys follow from names and the public catalog. */
    private static void squat(Connection connection, TestDatabase database, String... roles) throws SQLException {
        long oid = database.jdbc()
                .sql("SELECT 'public'::regnamespace::oid::bigint")
                .query(Long.class)
                .single();
        try (var statement = connection.createStatement()) {
            for (String role : roles) {
                for (String purpose : List.of("fence ", "leader ")) {
                    var crc = new CRC32();
                    crc.update((oid + " " + purpose + role).getBytes(StandardCharsets.UTF_8));
                    statement.execute(
                            "SELECT pg_try_advisory_lock(%d, %d)".formatted(0x464F5247, (int) crc.getValue()));
                }
            }
            for (long documented = 0x464F52470001L; documented <= 0x464F52470003L; documented++) {
                statement.execute("SELECT pg_try_advisory_lock(%d)".formatted(documented));
            }
        }
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void advisory_locks_of_a_foreign_session_stop_neither_elections_nor_fenced_writes(
            UnaryOperator<NodeSettings> strategy) throws Exception {
        jdbc.sql("CREATE TABLE IF NOT EXISTS fenced (term bigint)").update();
        try (Connection squatter = database.dataSource().getConnection()) {
            squat(squatter, database, SCHEDULER, "reports");
            Member one = cluster.start("one", strategy);
            one.leadership().join("reports");
            for (String role : List.of(SCHEDULER, "reports")) {
                await().until(() -> one.leadership().isLeader(role));
                assertThat(CompletableFuture.supplyAsync(() -> one.leadership()
                                        .fenced(
                                                role,
                                                () -> jdbc.sql("INSERT INTO fenced VALUES (3)")
                                                        .update()))
                                .get(60, TimeUnit.SECONDS))
                        .isOne();
            }
            Member two = cluster.start("two", strategy);
            long term = cluster.term(SCHEDULER);
            one.leadership().leave(SCHEDULER);
            await().until(() -> two.leadership().isLeader(SCHEDULER));
            assertThat(cluster.term(SCHEDULER)).isEqualTo(term + 1);
        }
    }

    @Test
    void roles_led_without_their_lock_are_listed_until_the_lock_is_free() throws Exception {
        Member one;
        try (Connection squatter = database.dataSource().getConnection()) {
            squat(squatter, database);
            one = cluster.start("one", TestNodes::steady);
            await().until(() -> one.leadership().isLeader(SCHEDULER));
            assertThat(one.node().elector().rolesWithoutLock()).contains(SCHEDULER);
        }
        await().until(() -> one.node().elector().rolesWithoutLock().isEmpty());
        assertThat(one.leadership().isLeader(SCHEDULER)).isTrue();
    }

    @Test
    void role_that_is_left_and_joined_again_at_once_is_led_in_a_new_term() {
        Member one = cluster.start("one", TestNodes::steady);
        for (int round = 0; round < 3; round++) {
            one.leadership().join("reports");
            await().until(() -> one.leadership().isLeader("reports"));
            long term = one.leadership().term("reports").orElseThrow();
            one.leadership().leave("reports");
            one.leadership().join("reports");
            assertThat(one.node().elector().holds("reports", term)).isFalse();
            await().until(() -> one.leadership().isLeader("reports"));
            assertThat(one.leadership().term("reports")).hasValue(term + 1);
        }
    }

    @Test
    void role_is_released_and_others_are_kept_although_no_node_can_be_notified() {
        String role = createRuntimeRole();
        jdbc.sql("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) FROM PUBLIC")
                .update();
        try {
            var source = new DriverManagerDataSource(database.url(), role, "secret");
            Member one = cluster.start("one", source, TestNodes::steady);
            one.leadership().join("reports");
            await().until(() ->
                    one.leadership().isLeader(SCHEDULER) && one.leadership().isLeader("reports"));
            long term = cluster.term(SCHEDULER);
            one.leadership().leave("reports");
            await().until(() -> one.events().contains(new LeadershipLost("reports", cluster.term("reports"))));
            await().during(Duration.ofMillis(300))
                    .until(() -> !one.events().contains(new LeadershipLost(SCHEDULER, term)));
            assertThat(one.leadership().term(SCHEDULER)).hasValue(term);
            // The role is released after the event.
            await().until(() -> jdbc.sql("SELECT node_id FROM forge_leaders WHERE role = 'reports'")
                    .query(UUID.class)
                    .optional()
                    .isEmpty());
            one.stop();
        } finally {
            jdbc.sql("GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) TO PUBLIC")
                    .update();
            dropRuntimeRole(role);
        }
    }

    @Test
    void database_role_with_the_documented_grants_suffices_for_a_node() {
        String role = createRuntimeRole();
        var source = new DriverManagerDataSource(database.url(), role, "secret");
        Member one = cluster.start("one", source, new TestJobs(source).on("job", job -> {}), s -> s);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        assertThat(one.locks().tryLock("granted")).isPresent();
        one.ended(one.jobs().enqueueNamed("job", null).id());
        one.stop();
        dropRuntimeRole(role);
    }

    private String createRuntimeRole() {
        String role = "runtime_" + database.name();
        jdbc.sql("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(role)).update();
        for (String grant : List.of(
                "GRANT CONNECT ON DATABASE %s TO %s".formatted(database.name(), role),
                "GRANT USAGE ON SCHEMA public TO " + role,
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role,
                "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO " + role)) {
            jdbc.sql(grant).update();
        }
        return role;
    }

    private void dropRuntimeRole(String role) {
        jdbc.sql("DROP OWNED BY " + role).update();
        jdbc.sql("DROP ROLE " + role).update();
    }

    @Test
    void workers_and_observers_never_lead() {
        Member worker = cluster.start("worker", s -> TestNodes.withMode(s, NodeMode.WORKER));
        Member observer = cluster.start("observer", s -> TestNodes.withMode(s, NodeMode.OBSERVER));
        Member gateway = cluster.start("gateway", s -> TestNodes.withRoles(s, NodeRole.GATEWAY));
        Stream.of(worker, observer, gateway)
                .forEach(member -> member.leadership().join("own"));
        Member candidate = cluster.start("candidate", s -> s);
        candidate.leadership().join("own");
        await().until(() ->
                candidate.leadership().isLeader("own") && candidate.leadership().isLeader(SCHEDULER));
        assertThat(Stream.of(worker, observer, gateway)
                        .flatMap(m -> m.node().elector().applicationRolesHeld().stream()))
                .isEmpty();
    }

    @Test
    void clusters_in_two_schemas_do_not_see_each_other() {
        try (var other = new TestCluster(database, "other")) {
            Member here = cluster.start("here", s -> s);
            Member there = other.start("there", s -> s);
            await().until(() ->
                    here.leadership().isLeader(SCHEDULER) && there.leadership().isLeader(SCHEDULER));
            assertThat(cluster.status("there")).isEqualTo("absent");
            assertThat(other.status("here")).isEqualTo("absent");
            assertThat(here.locks().tryLock("same")).isPresent();
            assertThat(there.locks().tryLock("same")).isPresent();
        }
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void role_without_a_further_term_does_not_delay_the_election_to_other_roles(UnaryOperator<NodeSettings> strategy) {
        // The largest term that can be written.
        long last = Stream.of(9223372036854775807L, 1000000000000000000L)
                .filter(term -> writes(
                        "INSERT INTO forge_leaders (role, current_term) VALUES ('%s', %d)".formatted(SCHEDULER, term)))
                .findFirst()
                .orElseThrow();
        Member one = cluster.start("one", strategy);
        await().until(() -> one.leadership().isLeader(Leadership.LOG_COMPACTOR));
        long term = cluster.term(Leadership.LOG_COMPACTOR);
        assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
        assertThat(cluster.term(SCHEDULER)).isEqualTo(last);
        jdbc.sql("UPDATE forge_leaders SET current_term = 41 WHERE role = ?")
                .param(SCHEDULER)
                .update();
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        assertThat(one.leadership().term(SCHEDULER)).hasValue(42);
        assertThat(one.leadership().term(Leadership.LOG_COMPACTOR)).hasValue(term);
    }

    private boolean writes(String sql) {
        try {
            return jdbc.sql(sql).update() == 1;
        } catch (DataIntegrityViolationException e) {
            return false;
        }
    }
}
