package dev.forge.cluster.internal.leader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static dev.forge.cluster.internal.PatientAwaits.awaitOften;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipAcquired;
import dev.forge.cluster.leader.LeadershipLost;
import dev.forge.cluster.leader.LeadershipLostException;
import dev.forge.cluster.leader.LostLeadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TcpProxy;
import dev.forge.cluster.test.TestDatabase;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;
import java.util.random.RandomGenerator;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

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
        return Stream.of(settings -> settings, TestNodes::byLease);
    }

    private static Member leaderOf(Member a, Member b) {
        awaitOften().until(() -> a.leadership().isLeader(SCHEDULER) || b.leadership().isLeader(SCHEDULER));
        return a.leadership().isLeader(SCHEDULER) ? a : b;
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void of_two_nodes_one_leads_and_after_its_release_the_other_in_the_next_term(UnaryOperator<NodeSettings> strategy) {
        Member one = cluster.start("one", strategy);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        Member two = cluster.start("two", strategy);
        assertThat(one.leadership().isLeader(SCHEDULER)).isTrue();
        assertThat(two.leadership().isLeader(SCHEDULER)).isFalse();
        long term = one.leadership().term(SCHEDULER).orElseThrow();
        one.leadership().leave(SCHEDULER);
        awaitOften().until(() -> two.leadership().isLeader(SCHEDULER));
        assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
        assertThat(two.leadership().term(SCHEDULER)).hasValue(term + 1);
        assertThat(one.events()).contains(new LeadershipAcquired(SCHEDULER, term), new LeadershipLost(SCHEDULER, term));
        awaitOften().until(() -> two.events().contains(new LeadershipAcquired(SCHEDULER, term + 1)));
    }

    private static NodeSettings mustLead(NodeSettings settings) {
        return new NodeSettings(
                TestNodes.settings(Duration.ofSeconds(5), NodeMode.LEADER, Set.of(NodeRole.values()))
                        .presence(),
                settings.heartbeat(),
                settings.detection(),
                new NodeSettings.Election(
                        LeaderStore.Ground.LOCK,
                        Duration.ofMillis(100),
                        Duration.ofSeconds(2),
                        Duration.ofMillis(500),
                        Duration.ofSeconds(1)),
                settings.drainTimeout());
    }

    @Test
    void node_that_must_lead_and_does_not_is_not_ready_until_it_leads_again() {
        Member one = cluster.start("one", ElectionTests::mustLead);
        Member two = cluster.start("two", s -> s);
        one.leadership().leave(SCHEDULER);
        awaitOften().until(() -> two.leadership().isLeader(SCHEDULER));
        one.leadership().join(SCHEDULER);
        awaitOften().until(() -> one.node().isUnreadyWithoutLeadership());
        assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
        two.stop();
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        awaitOften().until(() -> !one.node().isUnreadyWithoutLeadership());
    }

    @Test
    void node_that_must_lead_and_does_not_exits_if_it_is_told_to() {
        var exits = new AtomicInteger();
        Member one = cluster.create("one", database.dataSource(), ElectionTests::mustLead);
        one.node().onLostLeadership(LostLeadership.EXIT, exits::incrementAndGet);
        try {
            one.node().start();
            assertThat(exits).hasValue(0);
            one.leadership().leave(SCHEDULER);
            awaitOften().until(() -> exits.get() == 1);
            assertThat(one.node().isUnreadyWithoutLeadership()).isFalse();
        } finally {
            one.stop();
        }
    }

    @Test
    void fencing_token_has_the_servers_timeline_above_the_term() {
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        long timeline = Long.parseLong(
                jdbc.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
                        .query(String.class)
                        .single(),
                16);
        long term = one.leadership().term(SCHEDULER).orElseThrow();
        long token = one.leadership().fencingToken(SCHEDULER).orElseThrow();
        assertThat(token).isEqualTo((timeline << 40) + term);
        Member two = cluster.start("two", s -> s);
        assertThat(two.leadership().fencingToken(SCHEDULER)).isEmpty();
        one.leadership().leave(SCHEDULER);
        awaitOften().until(() -> two.leadership().fencingToken(SCHEDULER).orElse(0) > token);
        assertThat(one.leadership().fencingToken(SCHEDULER)).isEmpty();
    }

    @Test
    void roles_are_independent_and_user_defined_ones_work_alike() {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        two.leadership().join("reports");
        awaitOften().until(() -> two.leadership().isLeader("reports"));
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        assertThat(two.leadership().isLeader(SCHEDULER)).isFalse();
        assertThat(one.leadership().isLeader("reports")).isFalse();
        one.leadership().join("reports");
        two.stop();
        awaitOften().until(() -> one.leadership().isLeader("reports"));
    }

    @Test
    void the_documented_lock_is_held_while_somebody_leads() {
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        String held = """
                SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
                AND (classid::bigint << 32) | objid::bigint = ?
                """;
        assertThat(jdbc.sql(held).param(0x464F52470001L).query(Long.class).single())
                .isOne();
        one.stop();
        assertThat(jdbc.sql(held).param(0x464F52470001L).query(Long.class).single())
                .isZero();
    }

    @Test
    void a_leader_whose_session_is_terminated_steps_down_at_once_and_a_follower_takes_over() {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        Member leader = leaderOf(one, two);
        long term = cluster.term(SCHEDULER);
        terminateSessionOf(leader);
        awaitOften().until(() -> cluster.term(SCHEDULER) > term);
        // It lost a session, not its life.
        assertThat(cluster.status(leader.node().identity().name())).isEqualTo("active");
    }

    private void terminateSessionOf(Member member) {
        jdbc.sql("""
                SELECT pg_terminate_backend(backend_pid) FROM forge_leader_leases WHERE node_id = ? AND role = 'scheduler'
                """).param(member.node().id()).query().listOfRows();
    }

    @Test
    void a_fenced_write_of_the_current_term_commits_and_one_of_an_older_term_does_not() {
        jdbc.sql("CREATE TABLE IF NOT EXISTS fenced (term bigint)").update();
        jdbc.sql("TRUNCATE fenced").update();
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        one.leadership()
                .fenced(
                        SCHEDULER,
                        () -> jdbc.sql("INSERT INTO fenced VALUES (1)").update());
        assertThatExceptionOfType(LeadershipLostException.class)
                .isThrownBy(() -> one.leadership().fenced(SCHEDULER, () -> {
                    int rows = jdbc.sql("INSERT INTO fenced VALUES (2)").update();
                    // Another term has begun meanwhile, as if this node had been frozen here.
                    database.jdbc().sql("SELECT 1").query().listOfRows();
                    bumpTermElsewhere();
                    return rows;
                }));
        assertThat(jdbc.sql("SELECT term FROM fenced").query(Long.class).list()).containsExactly(1L);
    }

    private void bumpTermElsewhere() {
        var thread = new Thread(() -> new JdbcTemplateOf(database)
                .update("UPDATE forge_leaders SET current_term = current_term + 1 WHERE role = 'scheduler'"));
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Outside of the transaction that is bound to the calling thread. */
    private record JdbcTemplateOf(TestDatabase database) {
        void update(String sql) {
            database.jdbc().sql(sql).update();
        }
    }

    @Test
    void a_fenced_write_that_takes_its_time_delays_the_next_term_and_costs_nobody_its_session() throws Exception {
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        Member two = cluster.start("two", s -> s);
        two.leadership().join("own");
        awaitOften().until(() -> two.leadership().isLeader("own"));
        long own = two.leadership().term("own").orElseThrow();
        long term = cluster.term(SCHEDULER);
        try (var fenced = database.dataSource().getConnection()) {
            fenced.setAutoCommit(false);
            var source = new SingleConnectionDataSource(fenced, true);
            assertThat(new LeaderStore(cluster.schema, source)
                            .fence(SCHEDULER, one.node().id(), term))
                    .isTrue();
            one.leadership().leave(SCHEDULER);
            // Tries and gives up several times; the session with its other role is none the worse for it.
            awaitOften().during(Duration.ofMillis(1_200)).until(() -> cluster.term(SCHEDULER) == term);
            fenced.rollback();
        }
        awaitOften().until(() -> two.leadership().isLeader(SCHEDULER));
        assertThat(two.leadership().term("own")).hasValue(own);
    }

    @Test
    void a_fenced_write_of_a_node_that_does_not_lead_is_not_even_begun() {
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        Member two = cluster.start("two", s -> s);
        assertThatExceptionOfType(LeadershipLostException.class)
                .isThrownBy(() -> two.leadership().fenced(SCHEDULER, () -> {
                    throw new AssertionError("begun");
                }));
    }

    @Test
    void a_leader_that_is_cut_off_stops_believing_before_anybody_can_follow() throws Exception {
        try (TcpProxy network = network()) {
            Member one = cluster.start("one", through(network), s -> s);
            awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
            Member two = cluster.start("two", s -> s);
            long term = one.leadership().term(SCHEDULER).orElseThrow();
            network.cut();
            while (!two.leadership().isLeader(SCHEDULER)) {
                // Both at once would be one too many.
                boolean before = two.leadership().isLeader(SCHEDULER);
                assertThat(before && one.leadership().isLeader(SCHEDULER)).isFalse();
                Thread.onSpinWait();
            }
            assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
            assertThat(two.leadership().term(SCHEDULER).orElseThrow()).isGreaterThan(term);
            network.heal();
            awaitOften().until(() -> cluster.status("one").equals("active"));
            assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
            one.stop();
        }
    }

    /** What every role that may connect can do: the keys follow from names and from the public catalog. */
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
    void squatted_advisory_locks_stop_neither_elections_nor_fenced_writes(UnaryOperator<NodeSettings> strategy)
            throws Exception {
        jdbc.sql("CREATE TABLE IF NOT EXISTS fenced (term bigint)").update();
        try (Connection squatter = database.dataSource().getConnection()) {
            squat(squatter, database, SCHEDULER, "reports");
            Member one = cluster.start("one", strategy);
            one.leadership().join("reports");
            for (String role : List.of(SCHEDULER, "reports")) {
                awaitOften().until(() -> one.leadership().isLeader(role));
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
            awaitOften().until(() -> two.leadership().isLeader(SCHEDULER));
            assertThat(cluster.term(SCHEDULER)).isEqualTo(term + 1);
        }
    }

    @Test
    void roles_led_without_their_lock_are_named_until_the_lock_is_free() throws Exception {
        Member one;
        try (Connection squatter = database.dataSource().getConnection()) {
            squat(squatter, database);
            one = cluster.start("one", s -> s);
            awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
            assertThat(one.node().rolesLedWithoutLock()).contains(SCHEDULER);
        }
        awaitOften().until(() -> one.node().rolesLedWithoutLock().isEmpty());
        assertThat(one.leadership().isLeader(SCHEDULER)).isTrue();
    }

    @Test
    void wait_for_a_fence_is_bounded_and_reported_until_the_fence_is_free() throws Exception {
        Member one = cluster.start("one", s -> s);
        one.leadership().join("reports");
        awaitOften().until(() -> one.leadership().isLeader("reports"));
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'reports' FOR UPDATE");
            var fenced = CompletableFuture.supplyAsync(() -> one.leadership().fenced("reports", () -> 1));
            assertThatExceptionOfType(ExecutionException.class)
                    .isThrownBy(() -> fenced.get(8, TimeUnit.SECONDS))
                    .withCauseInstanceOf(CannotAcquireLockException.class)
                    .withMessageContaining("Role reports");
            assertThat(one.node().blockedFences()).containsOnlyKeys("reports");
            blocking.rollback();
        }
        assertThat(one.leadership().fenced("reports", () -> 2)).isEqualTo(2);
        assertThat(one.node().blockedFences()).isEmpty();
    }

    @Test
    void node_that_lost_a_role_takes_no_fence() throws Exception {
        Member one = cluster.start("one", s -> s);
        one.leadership().join("reports");
        awaitOften().until(() -> one.leadership().isLeader("reports"));
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'reports' FOR UPDATE");
            assertThatExceptionOfType(LeadershipLostException.class)
                    .isThrownBy(() -> one.leadership().fenced("reports", () -> {
                        // The row still names this node and its term.
                        one.node().elector().forsake("reports");
                        return 1;
                    }));
            assertThat(one.node().blockedFences()).isEmpty();
            blocking.rollback();
        }
    }

    @Test
    void roles_whose_row_is_locked_cost_a_node_neither_its_roles_nor_the_next_free_one() throws Exception {
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        long term = cluster.term(SCHEDULER);
        jdbc.sql("INSERT INTO forge_leaders (role) SELECT 'blocked ' || i FROM generate_series(1, 20) i")
                .update();
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role LIKE 'blocked%' FOR UPDATE");
            for (int i = 1; i <= 20; i++) {
                one.leadership().join("blocked " + i);
            }
            // A pass over all of them takes longer than a leadership lasts without a renewal.
            awaitOften().during(Duration.ofMillis(4_500))
                    .atMost(Duration.ofSeconds(20))
                    .until(() -> !one.events().contains(new LeadershipLost(SCHEDULER, term)));
            one.leadership().join("free");
            awaitOften().until(() -> one.leadership().isLeader("free"));
            assertThat(one.leadership().term(SCHEDULER)).hasValue(term);
            blocking.rollback();
        }
    }

    @Test
    void role_whose_fence_stays_blocked_is_tried_again_after_two_seconds() throws Exception {
        Member one = cluster.start("one", s -> s);
        UUID self = one.node().id();
        var nanos = new AtomicLong();
        var store = new LeaderStore(cluster.schema, database.dataSource());
        var elector = new Elector(
                new Elector.Timing(
                        Duration.ofMillis(250), Duration.ofSeconds(5), Duration.ofSeconds(1), Duration.ofSeconds(3)),
                LeaderStore.Ground.LEASE,
                new Pace(nanos::get, RandomGenerator.getDefault()),
                one.node().fences(),
                event -> {});
        elector.join("reports");
        elector.compete(true);
        jdbc.sql("INSERT INTO forge_leaders (role) VALUES ('reports')").update();
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'reports' FOR UPDATE");
            for (int attempt = 1; attempt <= 3; attempt++) {
                assertThat(one.node().blockedFences()).isEmpty();
                elector.step(store, () -> {}, self);
            }
            assertThat(one.node().blockedFences()).containsOnlyKeys("reports");
            blocking.rollback();
        }
        nanos.set(Duration.ofMillis(1_900).toNanos());
        elector.step(store, () -> {}, self);
        assertThat(elector.isLeader("reports")).isFalse();
        nanos.set(Duration.ofMillis(2_500).toNanos());
        elector.step(store, () -> {}, self);
        assertThat(elector.isLeader("reports")).isTrue();
    }

    @Test
    void role_that_is_left_and_joined_again_at_once_is_led_in_a_new_term() {
        Member one = cluster.start("one", s -> s);
        for (int round = 0; round < 3; round++) {
            one.leadership().join("reports");
            awaitOften().until(() -> one.leadership().isLeader("reports"));
            long term = one.leadership().term("reports").orElseThrow();
            one.leadership().leave("reports");
            one.leadership().join("reports");
            assertThat(one.node().elector().holds("reports", term)).isFalse();
            awaitOften().until(() -> one.leadership().isLeader("reports"));
            assertThat(one.leadership().term("reports")).hasValue(term + 1);
        }
    }

    @Test
    void role_is_released_and_others_are_kept_although_nobody_can_be_notified() {
        String role = createRuntimeRole();
        jdbc.sql("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) FROM PUBLIC")
                .update();
        try {
            var source = new DriverManagerDataSource(database.url(), role, "secret");
            Member one = cluster.start("one", source, s -> s);
            one.leadership().join("reports");
            awaitOften().until(() ->
                    one.leadership().isLeader(SCHEDULER) && one.leadership().isLeader("reports"));
            long term = cluster.term(SCHEDULER);
            one.leadership().leave("reports");
            awaitOften().until(() -> one.events().contains(new LeadershipLost("reports", cluster.term("reports"))));
            awaitOften().during(Duration.ofMillis(300))
                    .until(() -> !one.events().contains(new LeadershipLost(SCHEDULER, term)));
            assertThat(one.leadership().term(SCHEDULER)).hasValue(term);
            assertThat(jdbc.sql("SELECT node_id FROM forge_leaders WHERE role = 'reports'")
                            .query(UUID.class)
                            .optional())
                    .isEmpty();
            one.stop();
        } finally {
            jdbc.sql("GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) TO PUBLIC")
                    .update();
            dropRuntimeRole(role);
        }
    }

    @Test
    void fence_leaves_the_lock_timeout_of_the_surrounding_transaction_alone() {
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        for (String timeout : List.of("0", "150ms", "7s")) {
            String afterwards = transaction.execute(status -> {
                jdbc.sql("SELECT set_config('lock_timeout', ?, true)")
                        .param(timeout)
                        .query()
                        .listOfRows();
                one.leadership().fenced(SCHEDULER, () -> 1);
                return jdbc.sql("SELECT current_setting('lock_timeout')")
                        .query(String.class)
                        .single();
            });
            assertThat(afterwards).isEqualTo(timeout);
        }
    }

    @Test
    void role_with_the_documented_grants_suffices_for_a_node() {
        String role = createRuntimeRole();
        var source = new DriverManagerDataSource(database.url(), role, "secret");
        Member one = cluster.start("one", source, new TestJobs(source).on("job", job -> {}), s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        assertThat(one.locks().tryLock("granted")).isPresent();
        one.ended(one.jobs().enqueueNamed("job", null));
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

    private TcpProxy network() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        return TcpProxy.to(server.getHost(), server.getPort());
    }

    private DriverManagerDataSource through(TcpProxy network) {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        return new DriverManagerDataSource(
                database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                database.username(),
                database.password());
    }

    private static NodeSettings lease(NodeSettings settings, Duration lease) {
        return new NodeSettings(
                settings.presence(),
                settings.heartbeat(),
                settings.detection(),
                new NodeSettings.Election(
                        settings.election().ground(),
                        settings.election().checkInterval(),
                        lease,
                        Duration.ofMillis(500),
                        Duration.ofSeconds(3)),
                settings.drainTimeout());
    }

    /** The server has ended its session, and it cannot know: it lives, and believes that it leads. */
    private void endSessionUnnoticed(Member leader, TcpProxy network) {
        network.cut();
        terminateSessionOf(leader);
    }

    @Test
    void a_successor_acts_without_a_fence_only_when_its_predecessor_cannot_any_more() {
        try (TcpProxy network = network()) {
            // Without a liveness lock nobody calls it dead before it has been silent for fifteen seconds.
            Member one = cluster.start(
                    "one",
                    through(network),
                    s -> lease(
                            TestNodes.with(s, new NodeSettings.Detection(Duration.ofMillis(250), false)),
                            Duration.ofSeconds(8)));
            awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
            Member two = cluster.start("two", s -> lease(s, Duration.ofSeconds(8)));
            endSessionUnnoticed(one, network);
            awaitOften().until(() -> two.leadership().isLeader(SCHEDULER));
            assertThat(two.node().elector().isUndisputed(SCHEDULER)).isFalse();
            // Unless the machine was too slow for that, one still believes that it leads.
            awaitOften().pollInterval(Duration.ofMillis(1)).until(() -> {
                boolean acts = two.node().elector().isUndisputed(SCHEDULER);
                assertThat(acts && one.leadership().isLeader(SCHEDULER)).isFalse();
                return acts;
            });
            network.heal();
            // Released in good order there is nothing to wait for.
            two.stop();
            awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
            assertThat(one.node().elector().isUndisputed(SCHEDULER)).isTrue();
            one.stop();
        }
    }

    @Test
    void the_death_of_its_predecessor_settles_a_successors_dispute() {
        try (TcpProxy network = network()) {
            Member one = cluster.start("one", through(network), s -> lease(s, Duration.ofMinutes(1)));
            awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
            Member two = cluster.start("two", s -> s);
            endSessionUnnoticed(one, network);
            awaitOften().until(() -> two.leadership().isLeader(SCHEDULER));
            assertThat(jdbc.sql("""
                            SELECT disputed_until > clock_timestamp() + interval '30 seconds' FROM forge_leader_leases
                            WHERE role = 'scheduler'
                            """).query(Boolean.class).single()).isTrue();
            awaitOften().until(() -> two.node().elector().isUndisputed(SCHEDULER));
            assertThat(cluster.status("one")).isEqualTo("dead");
            network.heal();
            awaitOften().until(() -> cluster.status("one").equals("active"));
            one.stop();
        }
    }

    @Test
    void a_node_that_must_lead_but_does_not_fails_to_start() {
        Member one = cluster.start("one", s -> s);
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
        Member boss = cluster.create(
                "boss",
                database.dataSource(),
                s -> new NodeSettings(
                        TestNodes.settings(Duration.ofSeconds(5), NodeMode.LEADER, Set.of(NodeRole.values()))
                                .presence(),
                        s.heartbeat(),
                        s.detection(),
                        new NodeSettings.Election(
                                s.election().ground(),
                                s.election().checkInterval(),
                                Duration.ofMillis(700),
                                s.election().renewInterval(),
                                s.election().localDeadline()),
                        s.drainTimeout()));
        assertThatExceptionOfType(ClusterStartupException.class)
                .isThrownBy(() -> boss.node().start())
                .withMessageContaining("forge.cluster.node.mode (leader)")
                .withMessageEndingWith("node 'one' (%s) leads", one.node().id());
        assertThat(cluster.status("boss")).isEqualTo("absent");
        boss.stop();
    }

    @Test
    void fenced_work_for_a_role_that_nobody_declared_says_how_to_declare_it() {
        Member one = cluster.start("one", s -> s);
        assertThatExceptionOfType(LeadershipLostException.class)
                .isThrownBy(() -> one.leadership().fenced("import", () -> {}))
                .withMessage("role import: this node does not lead, and does not stand for election:"
                        + " put @LeaderRole(\"import\") on a bean, or call Leadership.join");
    }

    @Test
    void workers_and_observers_never_lead() {
        Member worker = cluster.start("worker", s -> mode(s, NodeMode.WORKER, Set.of(NodeRole.values())));
        Member observer = cluster.start("observer", s -> mode(s, NodeMode.OBSERVER, Set.of(NodeRole.values())));
        Member gateway = cluster.start("gateway", s -> mode(s, NodeMode.AUTO, Set.of(NodeRole.GATEWAY)));
        Stream.of(worker, observer, gateway)
                .forEach(member -> member.leadership().join("own"));
        Member candidate = cluster.start("candidate", s -> s);
        candidate.leadership().join("own");
        awaitOften().until(() ->
                candidate.leadership().isLeader("own") && candidate.leadership().isLeader(SCHEDULER));
        assertThat(Stream.of(worker, observer, gateway).flatMap(m -> m.node().rolesLed().stream()))
                .isEmpty();
    }

    private static NodeSettings mode(NodeSettings settings, NodeMode mode, Set<NodeRole> roles) {
        return new NodeSettings(
                TestNodes.settings(Duration.ofSeconds(5), mode, roles).presence(),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    @Test
    void clusters_in_two_schemas_do_not_see_each_other() {
        try (var other = new TestCluster(database, "other")) {
            Member here = cluster.start("here", s -> s);
            Member there = other.start("there", s -> s);
            awaitOften().until(() ->
                    here.leadership().isLeader(SCHEDULER) && there.leadership().isLeader(SCHEDULER));
            assertThat(cluster.status("there")).isEqualTo("absent");
            assertThat(other.status("here")).isEqualTo("absent");
            assertThat(here.locks().tryLock("same")).isPresent();
            assertThat(there.locks().tryLock("same")).isPresent();
        }
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void role_without_a_further_term_keeps_no_other_role_from_being_led(UnaryOperator<NodeSettings> strategy) {
        // The largest that can be written.
        long last = Stream.of(9223372036854775807L, 1000000000000000000L)
                .filter(term -> writes(
                        "INSERT INTO forge_leaders (role, current_term) VALUES ('%s', %d)".formatted(SCHEDULER, term)))
                .findFirst()
                .orElseThrow();
        Member one = cluster.start("one", strategy);
        awaitOften().until(() -> one.leadership().isLeader(Leadership.LOG_COMPACTOR));
        long term = cluster.term(Leadership.LOG_COMPACTOR);
        assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
        assertThat(cluster.term(SCHEDULER)).isEqualTo(last);
        jdbc.sql("UPDATE forge_leaders SET current_term = 41 WHERE role = ?")
                .param(SCHEDULER)
                .update();
        awaitOften().until(() -> one.leadership().isLeader(SCHEDULER));
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
