package dev.forge.cluster.internal.node;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static dev.forge.cluster.internal.PatientAwaits.await;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.startup.DefaultStartupCoordinator;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.node.NodeJoined;
import dev.forge.cluster.node.NodeLeft;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TcpProxy;
import dev.forge.cluster.test.TestDatabase;
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

@ClusterPostgres
class MembershipTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    MembershipTests(TestDatabase database) {
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

    /** A row as a killed node leaves it, with deadlines as that node would have declared them. */
    private UUID corpse(String name, Integer livenessKey, String stale, String dead) {
        UUID id = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at, liveness_key)
                VALUES (:id, :name, :name, 'host', '{worker}', 'active', '1', clock_timestamp() + :stale::interval,
                        clock_timestamp() + :dead::interval, :key)
                """)
                .param("id", id)
                .param("name", name)
                .param("stale", stale)
                .param("dead", dead)
                .param("key", livenessKey)
                .update();
        return id;
    }

    @Test
    void nodes_learn_who_comes_and_goes() {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        UUID id = two.node().id();
        await().until(() -> one.events().contains(new NodeJoined(id, "two")));
        two.stop();
        await().until(() -> one.events().contains(new NodeLeft(id, "two")));
        assertThat(one.events()).noneMatch(NodeDied.class::isInstance);
    }

    @Test
    void a_silent_node_becomes_stale_and_then_dead_by_its_own_deadlines() {
        Member one = cluster.start("one", s -> s);
        UUID silent = corpse("silent", null, "700 milliseconds", "2 seconds");
        UUID patient = corpse("patient", null, "1 minute", "2 minutes");
        await().until(() -> cluster.status("silent").equals("stale"));
        await().until(() -> cluster.status("silent").equals("dead"));
        await().until(() -> one.events().contains(new NodeDied(silent, "silent")));
        assertThat(cluster.status("patient")).isEqualTo("active");
        assertThat(one.events()).doesNotContain(new NodeDied(patient, "patient"));
    }

    @Test
    void node_without_its_lock_is_declared_dead_long_before_its_deadline() throws SQLException {
        Member one = cluster.start("one", s -> s);
        try (Connection sessions = database.dataSource().getConnection();
                Statement locks = sessions.createStatement()) {
            locks.execute("SELECT pg_advisory_lock(%d, 123)".formatted(0x464F5247));
            UUID crashed = corpse("crashed", 123, "10 minutes", "15 minutes");
            // Seen with its lock: a stranger would be given longer.
            await().until(() -> one.events().contains(new NodeJoined(crashed, "crashed")));
        }
        await().until(() -> cluster.status("crashed").equals("dead"));
    }

    @Test
    void dead_nodes_whose_rows_somebody_has_locked_keep_no_other_from_being_declared_dead() throws SQLException {
        Member one = cluster.start("one", s -> s);
        UUID first = corpse("first", 121, "10 minutes", "15 minutes");
        UUID second = corpse("second", 122, "10 minutes", "15 minutes");
        UUID third = corpse("third", 123, "10 minutes", "15 minutes");
        try (Connection other = database.dataSource().getConnection();
                Statement lock = other.createStatement()) {
            other.setAutoCommit(false);
            lock.execute("SELECT FROM forge_nodes WHERE name <> 'one' FOR UPDATE");
            UUID crashed = corpse("crashed", 124, "10 minutes", "15 minutes");
            await().until(() -> one.events().contains(new NodeDied(crashed, "crashed")));
            assertThat(one.events()).doesNotContain(new NodeDied(first, "first"));
        }
        await().until(() -> Stream.of(first, second, third)
                .allMatch(id -> one.events().stream()
                        .anyMatch(event ->
                                event instanceof NodeDied died && died.id().equals(id))));
    }

    @Test
    void logger_that_throws_keeps_no_node_from_joining_again_declaring_others_dead_or_leaving() {
        Member one = cluster.start("one", s -> s);
        UUID former = one.node().id();
        try (var loggers = new ThrowingLoggers()) {
            jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
            one.node().beat();
            assertThat(one.node().id()).isNotEqualTo(former);
            UUID crashed = corpse("crashed", null, "100 milliseconds", "200 milliseconds");
            await().until(() -> one.events().contains(new NodeDied(crashed, "crashed")));
            one.node().stop();
            assertThat(cluster.status("one")).isEqualTo("dead");
            assertThat(loggers.thrown).isNotEmpty();
        }
    }

    @Test
    void node_takes_over_its_own_id_although_the_clock_of_the_database_was_set_back() {
        UUID former = corpse("one", null, "100 milliseconds", "200 milliseconds");
        jdbc.sql(
                        "UPDATE forge_nodes SET last_heartbeat = last_heartbeat + interval '1 hour', dead_at = dead_at + interval '1 hour'")
                .update();
        Member one = cluster.start(
                "one",
                settings -> TestNodes.with(
                        settings,
                        new NodeSettings.Heartbeat(
                                Duration.ofMillis(200),
                                false,
                                Duration.ofMinutes(1),
                                Duration.ofMillis(400),
                                Duration.ofMillis(600))));
        assertThat(one.node().id()).isNotEqualTo(former);
        assertThat(jdbc.sql("SELECT status FROM forge_nodes WHERE id = ?")
                        .param(former)
                        .query(String.class)
                        .single())
                .isEqualTo("dead");
    }

    @Test
    void what_a_dead_node_held_is_free_in_the_same_moment() {
        Member one = cluster.start("one", s -> s);
        UUID crashed = corpse("crashed", 123, "10 seconds", "15 seconds");
        jdbc.sql(
                        "INSERT INTO forge_locks (lock_name, owner_node, expires_at) VALUES ('import', ?, now() + interval '1 hour')")
                .param(crashed)
                .update();
        jdbc.sql(
                        "INSERT INTO forge_leader_leases (role, node_id, lease_until) VALUES ('own', ?, now() + interval '1 hour')")
                .param(crashed)
                .update();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id)
                VALUES (gen_random_uuid(), 'begun', 'running', :node), (gen_random_uuid(), 'waiting', 'claimed', :node),
                       (gen_random_uuid(), 'done', 'completed', :node)
                """).param("node", crashed).update();
        assertThat(one.locks().tryLock("import")).isEmpty();
        await().until(() -> cluster.status("crashed").equals("dead"));
        assertThat(jdbc.sql("SELECT name || ' ' || status || ' ' || recoveries FROM forge_jobs ORDER BY name")
                        .query((row, n) -> row.getString(1))
                        .list())
                .containsExactly("begun pending 1", "done completed 0", "waiting pending 0");
        assertThat(one.locks().tryLock("import")).isPresent();
        assertThat(jdbc.sql("SELECT node_id IS NULL FROM forge_leader_leases WHERE role = 'own'")
                        .query(Boolean.class)
                        .single())
                .isTrue();
    }

    @Test
    void locks_of_a_dead_node_are_free_at_once_even_while_another_session_has_their_row() throws SQLException {
        Member one = cluster.start("one", s -> s);
        UUID crashed = corpse("crashed", null, "700 milliseconds", "1 second");
        jdbc.sql(
                        "INSERT INTO forge_locks (lock_name, owner_node, expires_at) VALUES ('import', ?, now() + interval '1 hour')")
                .param(crashed)
                .update();
        try (Connection poller = database.dataSource().getConnection();
                Statement statement = poller.createStatement()) {
            poller.setAutoCommit(false);
            statement.execute("SELECT 1 FROM forge_locks FOR UPDATE");
            await().until(() -> cluster.status("crashed").equals("dead"));
            poller.rollback();
        }
        long former =
                jdbc.sql("SELECT token FROM forge_locks").query(Long.class).single();
        ClusterLock lock = one.locks().tryLock("import").orElseThrow();
        assertThat(lock.token()).isGreaterThan(former);
        assertThat(lock.extend(Duration.ofMinutes(1))).isTrue();
    }

    @Test
    void lock_of_a_dead_node_stays_free_when_the_row_of_the_node_is_deleted() throws SQLException {
        Member one = cluster.start("one", s -> s);
        await().until(() -> one.leadership().isLeader(Leadership.LOG_COMPACTOR));
        UUID crashed = corpse("crashed", null, "700 milliseconds", "1 second");
        jdbc.sql(
                        "INSERT INTO forge_locks (lock_name, owner_node, expires_at) VALUES ('import', ?, now() + interval '1 day')")
                .param(crashed)
                .update();
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_locks FOR UPDATE");
            await().until(() -> cluster.status("crashed").equals("dead"));
        }
        jdbc.sql("UPDATE forge_nodes SET dead_at = now() - interval '2 hours' WHERE id = ?")
                .param(crashed)
                .update();
        one.node().cleanUp();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_nodes WHERE id = ?")
                        .param(crashed)
                        .query(Long.class)
                        .single())
                .isZero();
        assertThat(one.locks().tryLock("import")).isPresent();
    }

    @Test
    void node_that_was_declared_dead_gets_no_lock_before_it_has_joined_anew() {
        var locks = new LockStore(cluster.schema, database.dataSource());
        UUID frozen = corpse("frozen", null, "1 hour", "2 hours");
        assertThat(locks.take("import", frozen, Duration.ofMinutes(1))).isPresent();
        jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE id = ?")
                .param(frozen)
                .update();
        assertThat(locks.take("import", frozen, Duration.ofMinutes(1)))
                .as("another node could take it at once")
                .isEmpty();
        assertThat(locks.take("import", UUID.randomUUID(), Duration.ofMinutes(1)))
                .isPresent();
    }

    @Test
    void failing_attempt_at_a_lock_leaves_its_row_alone() {
        Member one = cluster.start("one", s -> s);
        assertThat(one.locks().tryLock("import")).isPresent();
        String touched = "SELECT xmax::text FROM forge_locks WHERE lock_name = 'import'";
        String before = jdbc.sql(touched).query(String.class).single();
        assertThat(one.locks().tryLock("import")).isEmpty();
        assertThat(jdbc.sql(touched).query(String.class).single()).isEqualTo(before);
    }

    @Test
    void terminated_sessions_kill_nobody() {
        terminateSessions(5);
    }

    @Test
    @Tag("soak")
    void forty_terminated_sessions() {
        terminateSessions(20);
    }

    private void terminateSessions(int rounds) {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        // Keeps its own session, and so trusts in locks all the time.
        Member witness = cluster.start("witness", s -> s);
        UUID first = one.node().id();
        UUID second = two.node().id();
        List<Integer> untouched = sessions("witness");
        for (int round = 0; round < rounds; round++) {
            List<Integer> sessions = sessions("one", "two");
            assertThat(sessions).hasSize(2);
            sessions.forEach(this::terminate);
            await().until(() -> {
                List<Integer> now = sessions("one", "two");
                return now.size() == 2 && Collections.disjoint(now, sessions);
            });
        }
        assertThat(one.node().id()).isEqualTo(first);
        assertThat(two.node().id()).isEqualTo(second);
        assertThat(sessions("witness")).isEqualTo(untouched);
        long deaths =
                witness.events().stream().filter(NodeDied.class::isInstance).count();
        System.out.printf("%d terminated sessions: nodes declared dead by a witness: %d%n", 2 * rounds, deaths);
        assertThat(deaths).isZero();
    }

    private void terminate(int pid) {
        jdbc.sql("SELECT pg_terminate_backend(?)").param(pid).query().listOfRows();
    }

    /** The backends that hold the liveness locks of those nodes. */
    private List<Integer> sessions(String... names) {
        return jdbc.sql("""
                SELECT l.pid FROM pg_locks l
                JOIN forge_nodes n ON l.objid = (n.liveness_key::bigint & 4294967295)::oid
                WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND n.name = ANY (:names)
                """)
                .param("names", names)
                .query((row, n) -> row.getInt(1))
                .list();
    }

    private boolean hasAnotherSession(String name, List<Integer> former) {
        List<Integer> now = sessions(name);
        return !now.isEmpty() && Collections.disjoint(now, former);
    }

    @Test
    void a_node_that_leads_nothing_has_its_lock_back_soon_after_its_session_was_terminated() {
        Member worker = cluster.start("worker", s -> presence(s, NodeMode.WORKER, Set.of(NodeRole.WORKER)));
        List<Integer> session = sessions("worker");
        session.forEach(this::terminate);
        await().until(() -> hasAnotherSession("worker", session));
        assertThat(worker.node().rolesLed()).isEmpty();
    }

    @Test
    void node_whose_liveness_lock_was_squatted_has_a_session_again_and_keeps_its_id() throws Exception {
        Member worker = cluster.start("worker", s -> presence(s, NodeMode.WORKER, Set.of(NodeRole.WORKER)));
        UUID id = worker.node().id();
        List<Integer> session = sessions("worker");
        int key = jdbc.sql("SELECT liveness_key FROM forge_nodes WHERE name = 'worker'")
                .query(Integer.class)
                .single();
        try (Connection squatter = database.dataSource().getConnection()) {
            // Waits in the lock's queue, so that it is the next to have it.
            var queued = CompletableFuture.runAsync(() -> {
                try (var statement = squatter.createStatement()) {
                    statement.execute("SELECT pg_advisory_lock(%d, %d)".formatted(0x464F5247, key));
                } catch (SQLException e) {
                    throw new IllegalStateException(e);
                }
            });
            await().until(() -> jdbc.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
                            .query(Long.class)
                            .single()
                    == 1);
            session.forEach(this::terminate);
            queued.get(5, TimeUnit.SECONDS);
            await().atMost(Duration.ofSeconds(5)).until(() -> worker.node().isListening());
            assertThat(jdbc.sql("SELECT liveness_key FROM forge_nodes WHERE name = 'worker'")
                            .query(Integer.class)
                            .single())
                    .isNotEqualTo(key);
        }
        // The squatter has gone: if the row still named its key, the node would be declared dead now.
        await().during(Duration.ofSeconds(2))
                .until(() -> id.equals(worker.node().id()));
        assertThat(cluster.status("worker")).isEqualTo("active");
    }

    @Test
    void a_node_that_leads_nothing_notices_by_itself_that_its_session_is_gone() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (TcpProxy network = TcpProxy.to(server.getHost(), server.getPort())) {
            var through = new DriverManagerDataSource(
                    database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                    database.username(),
                    database.password());
            // Its first connection is its session; the network of all others stays whole.
            var connections = new AtomicInteger();
            var direct = new AbstractDataSource() {
                @Override
                public Connection getConnection() throws SQLException {
                    return (connections.getAndIncrement() == 0 ? through : database.dataSource()).getConnection();
                }

                @Override
                public Connection getConnection(String username, String password) throws SQLException {
                    return getConnection();
                }
            };
            Member worker = cluster.start("worker", direct, s -> presence(s, NodeMode.WORKER, Set.of(NodeRole.WORKER)));
            List<Integer> session = sessions("worker");
            network.cut();
            session.forEach(this::terminate);
            // A round trip once a second, which fails after two.
            await().until(() -> hasAnotherSession("worker", session));
            assertThat(cluster.status("worker")).isEqualTo("active");
            worker.stop();
        }
    }

    /** Refuses the first two statements of that kind, as a server in trouble might. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "BEFORE INSERT ON forge_nodes FOR EACH ROW",
                "BEFORE UPDATE ON forge_nodes FOR EACH ROW WHEN (old.status = 'joining' AND new.status = 'active')"
            })
    void a_rejoin_that_fails_half_way_is_completed_later(String refused) {
        Member one = cluster.start("one", s -> TestNodes.with(s, everyTwentyMillis()));
        await().until(() -> one.leadership().isLeader("scheduler"));
        UUID former = one.node().id();
        jdbc.sql("CREATE SEQUENCE refusals").update();
        try {
            jdbc.sql("""
                    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN
                        IF nextval('refusals') <= 2 THEN RAISE EXCEPTION 'not now'; END IF;
                        RETURN new;
                    END $$
                    """).update();
            jdbc.sql("CREATE TRIGGER refuse " + refused + " EXECUTE FUNCTION refuse()")
                    .update();
            jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE id = ?")
                    .param(former)
                    .update();
            await().until(() -> cluster.status("one").equals("active"));
            assertThat(jdbc.sql("SELECT last_value FROM refusals")
                            .query(Long.class)
                            .single())
                    .isEqualTo(3);
            assertThat(one.node().id()).isNotEqualTo(former);
            await().until(() -> one.leadership().isLeader("scheduler"));
            assertThat(sessions("one")).hasSize(1);
            assertThat(jdbc.sql("SELECT count(*) FROM forge_nodes WHERE status <> 'dead'")
                            .query(Long.class)
                            .single())
                    .isOne();
        } finally {
            jdbc.sql("DROP FUNCTION IF EXISTS refuse() CASCADE").update();
            jdbc.sql("DROP SEQUENCE refusals").update();
        }
    }

    private static NodeSettings.Heartbeat everyTwentyMillis() {
        return new NodeSettings.Heartbeat(
                Duration.ofMillis(20), false, Duration.ofSeconds(1), Duration.ofSeconds(1), Duration.ofSeconds(2));
    }

    @Test
    void an_operators_word_drains_a_node_even_at_a_slow_heartbeat() {
        Member one = cluster.start(
                "one",
                s -> TestNodes.with(
                        s,
                        new NodeSettings.Heartbeat(
                                Duration.ofMinutes(10),
                                false,
                                Duration.ofMinutes(10),
                                Duration.ofMinutes(20),
                                Duration.ofMinutes(30))));
        await().until(() -> one.leadership().isLeader("scheduler"));
        jdbc.sql("UPDATE forge_nodes SET status = 'draining' WHERE name = 'one'")
                .update();
        await().until(() -> one.node().state() == Node.State.DRAINING);
        await().until(() -> one.node().rolesLed().isEmpty());
        assertThat(cluster.status("one")).isEqualTo("draining");
        Member two = cluster.start("two", s -> s);
        await().until(() -> two.leadership().isLeader("scheduler"));
    }

    @Test
    void work_may_finish_before_a_node_leaves_and_what_does_not_is_given_back() {
        Member one = cluster.start(
                "one",
                s -> new NodeSettings(
                        s.presence(), s.heartbeat(), s.detection(), s.election(), Duration.ofMillis(300)));
        var quick = new Recorded("quick", true);
        var endless = new Recorded("endless", false);
        List<String> steps = Collections.synchronizedList(new ArrayList<>());
        quick.steps = steps;
        endless.steps = steps;
        one.node().register(quick);
        one.node().register(endless);
        one.stop();
        assertThat(steps)
                .containsExactly(
                        "quick takes nothing new",
                        "endless takes nothing new",
                        "quick is idle",
                        "endless is given back");
        assertThat(cluster.status("one")).isEqualTo("absent");
    }

    private static final class Recorded implements NodeComponent {
        private final String name;
        private final boolean finishes;
        private List<String> steps = List.of();

        Recorded(String name, boolean finishes) {
            this.name = name;
            this.finishes = finishes;
        }

        @Override
        public void quiesce() {
            steps.add(name + " takes nothing new");
        }

        @Override
        public boolean awaitIdle(Duration patience) {
            if (finishes) {
                steps.add(name + " is idle");
            }
            return finishes;
        }

        @Override
        public void release() {
            steps.add(name + " is given back");
        }
    }

    @Test
    void every_thread_of_a_node_says_which_one_in_the_log() {
        try (var log = new Log()) {
            var connections = new AtomicInteger();
            // The session's first attempt fails: it must know its node's name by then.
            var direct = new AbstractDataSource() {
                @Override
                public Connection getConnection() throws SQLException {
                    if (connections.getAndIncrement() == 0) {
                        throw new SQLException("not now");
                    }
                    return database.dataSource().getConnection();
                }

                @Override
                public Connection getConnection(String username, String password) throws SQLException {
                    return getConnection();
                }
            };
            Member one = cluster.start("one", direct, s -> TestNodes.with(s, everyTwentyMillis()));
            log.awaitLine("forge-cluster-session", "session: lost");
            log.awaitLine("forge-cluster-session", "leads {");
            corpse("silent", null, "100 milliseconds", "200 milliseconds");
            log.awaitLine("node-one-", "'silent': declared dead");
            jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE name = 'one'")
                    .update();
            log.awaitLine("node-one-", "joined again");
            UUID id = one.node().id();
            jdbc.sql("UPDATE forge_nodes SET status = 'draining' WHERE id = ?")
                    .param(id)
                    .update();
            log.awaitLine("node-one-", "drained on an operator's order");
            assertThat(log.lines)
                    .filteredOn(line -> line.getThreadName().matches("(forge-cluster|node-one).*"))
                    .allSatisfy(line -> assertThat(line.getMDCPropertyMap())
                            .as(line.getFormattedMessage())
                            .containsKey("forge.node.id")
                            .containsEntry("forge.node.name", "one"));
            assertThat(log.lines)
                    .filteredOn(line -> line.getFormattedMessage().contains("drained"))
                    .allSatisfy(
                            line -> assertThat(line.getMDCPropertyMap()).containsEntry("forge.node.id", id.toString()));
        }
    }

    /** What the cluster logs while this is open, each line with the thread it came from. */
    private static final class Log extends AppenderBase<ILoggingEvent> implements AutoCloseable {

        private final Logger logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
        private final List<ILoggingEvent> lines = new CopyOnWriteArrayList<>();

        Log() {
            logger.setLevel(Level.INFO);
            logger.setAdditive(false);
            logger.addAppender(this);
            start();
        }

        @Override
        protected void append(ILoggingEvent line) {
            line.prepareForDeferredProcessing();
            lines.add(line);
        }

        void awaitLine(String thread, String text) {
            await().until(() -> lines.stream()
                    .anyMatch(line -> line.getThreadName().startsWith(thread)
                            && line.getFormattedMessage().contains(text)));
        }

        @Override
        public void close() {
            logger.detachAppender(this);
            logger.setAdditive(true);
            logger.setLevel(null);
        }
    }

    private static NodeSettings adaptiveWorker(NodeSettings settings) {
        return TestNodes.with(
                presence(settings, NodeMode.WORKER, Set.of(NodeRole.WORKER, NodeRole.FUNCTION)),
                new NodeSettings.Heartbeat(
                        Duration.ofMillis(50),
                        true,
                        Duration.ofSeconds(30),
                        Duration.ofSeconds(1),
                        Duration.ofSeconds(2)));
    }

    /** After how many seconds of silence the node is dead, by its own word. */
    private double declared(String name) {
        return jdbc.sql("SELECT extract(epoch FROM dead_at - last_heartbeat) FROM forge_nodes WHERE name = ?")
                .param(name)
                .query(Double.class)
                .single();
    }

    @Test
    void an_adaptive_interval_grows_while_nothing_changes_and_falls_back_when_something_does() {
        Member one = cluster.start("one", MembershipTests::adaptiveWorker);
        await().until(() -> declared("one") > 8);
        cluster.start("two", s -> s);
        await().until(() -> declared("one") < 3);
        assertThat(one.events()).noneMatch(NodeDied.class::isInstance);
    }

    @Test
    void node_with_a_job_does_not_stretch_its_heartbeat() throws Exception {
        var release = new CountDownLatch(1);
        var jobs = new TestJobs(database.dataSource())
                .on(
                        "long",
                        context ->
                                assertThat(release.await(60, TimeUnit.SECONDS)).isTrue());
        Member one = cluster.start("one", jobs, MembershipTests::adaptiveWorker);
        await().until(() -> declared("one") > 8);
        UUID job = one.jobs().enqueueNamed("long", null);
        try {
            await().until(() -> declared("one") < 3);
            // As long as the job runs: at this pace it would have doubled many times.
            await().during(Duration.ofSeconds(1)).until(() -> declared("one") < 3);
        } finally {
            release.countDown();
        }
        one.ended(job);
        await().until(() -> declared("one") > 8);
    }

    @Test
    void leader_does_not_stretch_its_heartbeat() {
        Member one =
                cluster.start("one", s -> TestNodes.with(s, adaptiveWorker(s).heartbeat()));
        await().until(() -> one.leadership().isLeader("scheduler"));
        await().until(() -> declared("one") < 3);
        await().during(Duration.ofSeconds(3)).until(() -> declared("one") < 3);
    }

    @Test
    @Tag("soak")
    void nodes_that_beat_once_a_minute_survive_the_coming_of_a_fourth() {
        UnaryOperator<NodeSettings> adaptive = s -> TestNodes.with(
                s,
                new NodeSettings.Heartbeat(
                        Duration.ofSeconds(5),
                        true,
                        Duration.ofSeconds(60),
                        Duration.ofSeconds(10),
                        Duration.ofSeconds(15)));
        List<Member> three = List.of(
                cluster.start("one", adaptive), cluster.start("two", adaptive), cluster.start("three", adaptive));
        // The leader does not slow down.
        String slow = "SELECT count(*) FROM forge_nodes WHERE dead_at - last_heartbeat > interval '170 seconds'";
        await().atMost(Duration.ofMinutes(3))
                .until(() -> jdbc.sql(slow).query(Long.class).single() == 2);
        cluster.start("four", adaptive);
        await().until(() -> jdbc.sql("SELECT max(extract(epoch FROM dead_at - last_heartbeat)) FROM forge_nodes")
                        .query(Double.class)
                        .single()
                < 40);
        await().during(Duration.ofSeconds(20))
                .atMost(Duration.ofSeconds(25))
                .until(() -> jdbc.sql("SELECT count(*) FROM forge_nodes WHERE status = 'active'")
                                .query(Long.class)
                                .single()
                        == 4);
        long deaths = three.stream()
                .flatMap(member -> member.events().stream())
                .filter(NodeDied.class::isInstance)
                .count();
        System.out.printf("one beat a minute and a fourth node: nodes declared dead: %d%n", deaths);
        assertThat(deaths).isZero();
    }

    @Test
    void a_lock_is_one_holders_until_it_closes_or_expires() {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        ClusterLock first = one.locks().tryLock("import").orElseThrow();
        assertThat(two.locks().tryLock("import")).isEmpty();
        assertThat(one.locks().tryLock("import")).isEmpty();
        first.close();
        ClusterLock second = two.locks().tryLock("import").orElseThrow();
        assertThat(second.token()).isGreaterThan(first.token());
        // Late, the former holder changes nothing.
        first.close();
        assertThat(first.extend(Duration.ofMinutes(1))).isFalse();
        assertThat(one.locks().tryLock("import")).isEmpty();
        assertThat(second.extend(Duration.ofMinutes(1))).isTrue();
        jdbc.sql("UPDATE forge_locks SET expires_at = now() - interval '1 second'")
                .update();
        assertThat(second.extend(Duration.ofMinutes(1))).isFalse();
        ClusterLock third = one.locks().tryLock("import", Duration.ofSeconds(1)).orElseThrow();
        assertThat(third.token()).isGreaterThan(second.token());
    }

    @Test
    void locks_taken_in_a_transaction_do_not_keep_the_nodes_own_connections() {
        Member one = cluster.start("one", s -> s);
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transaction.executeWithoutResult(status -> {
            for (int i = 0; i < 5; i++) {
                assertThat(one.locks().tryLock("lock-" + i)).isPresent();
            }
            // Two connections in all: were they kept, nobody could look.
            await().during(Duration.ofMillis(800))
                    .until(() -> one.node().sinceLastContact().toMillis() < 700);
            status.setRollbackOnly();
        });
        assertThat(one.locks().tryLock("lock-0")).isEmpty();
        one.stop();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_locks WHERE expires_at > now()")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void of_many_who_try_a_lock_one_gets_it() throws Exception {
        Member one = cluster.start("one", s -> s);
        var threads = Executors.newFixedThreadPool(8);
        try {
            for (int round = 0; round < 20; round++) {
                String name = "round-" + round;
                Callable<Boolean> attempt = () -> one.locks().tryLock(name).isPresent();
                int won = 0;
                for (var result : threads.invokeAll(Collections.nCopies(8, attempt))) {
                    won += result.get() ? 1 : 0;
                }
                assertThat(won).isOne();
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void a_startup_action_is_one_nodes_until_it_is_released() {
        var first = new DefaultStartupCoordinator(cluster.start("one", s -> s).locks(), Duration.ofMinutes(5));
        var second = new DefaultStartupCoordinator(cluster.start("two", s -> s).locks(), Duration.ofMinutes(5));
        assertThat(first.tryAcquire("seed", Duration.ofMinutes(5))).isTrue();
        assertThat(second.tryAcquire("seed", Duration.ofMinutes(5))).isFalse();
        second.release("seed");
        assertThat(second.tryAcquire("seed", Duration.ofMinutes(5))).isFalse();
        first.release("seed");
        assertThat(second.tryAcquire("seed", Duration.ofMinutes(5))).isTrue();
    }

    @Test
    void an_observer_and_a_node_without_the_function_role_change_nothing() {
        Member observer = cluster.start("observer", s -> presence(s, NodeMode.OBSERVER, Set.of(NodeRole.values())));
        Member worker = cluster.start("worker", s -> presence(s, NodeMode.AUTO, Set.of(NodeRole.WORKER)));
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> observer.locks().tryLock("import"))
                .withMessageContaining("forge.cluster.node.mode (observer)");
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> worker.locks().tryLock("import"))
                .withMessageContaining("forge.cluster.node.roles (worker) lacks function");
        // It looks on, and leaves judging to others.
        worker.stop();
        corpse("crashed", 123, "100 milliseconds", "200 milliseconds");
        await().during(Duration.ofMillis(1_500))
                .until(() -> cluster.status("crashed").equals("active"));
        await().until(() -> observer.node().sinceLastContact().compareTo(Duration.ofSeconds(1)) < 0);
    }

    @Test
    void observer_says_what_it_is_and_sees_that_the_leader_is_gone() {
        UUID killed = corpse("killed", null, "700 milliseconds", "1 second");
        jdbc.sql("UPDATE forge_nodes SET roles = '{scheduler}'").update();
        jdbc.sql(
                        "INSERT INTO forge_leaders (role, node_id, current_term, acquired_at) VALUES ('scheduler', ?, 7, now())")
                .param(killed)
                .update();
        jdbc.sql(
                        "INSERT INTO forge_leader_leases (role, node_id, lease_until) VALUES ('scheduler', ?, now() - interval '1 second')")
                .param(killed)
                .update();
        Member observer = cluster.start("observer", s -> presence(s, NodeMode.OBSERVER, Set.of(NodeRole.values())));
        assertThat(new NodeStore(cluster.schema, database.dataSource()).all())
                .filteredOn(row -> row.name().equals("observer"))
                .singleElement()
                .satisfies(row -> {
                    assertThat(row.mode()).isEqualTo("observer");
                    assertThat(row.roles()).containsExactly("gateway");
                });
        assertThat(new LeaderStore(cluster.schema, database.dataSource()).leaders())
                .singleElement()
                .satisfies(leader -> {
                    assertThat(leader.node()).isNull();
                    assertThat(leader.term()).isEqualTo(7);
                });
        await().until(() -> !observer.node().hasLiveCandidate());
        // It still leaves judging to others.
        assertThat(cluster.status("killed")).isEqualTo("active");
        assertThat(observer.events()).noneMatch(NodeDied.class::isInstance);
        jdbc.sql("UPDATE forge_nodes SET beats = beats + 1 WHERE id = ?")
                .param(killed)
                .update();
        await().until(() -> observer.node().hasLiveCandidate());
    }

    private static NodeSettings presence(NodeSettings settings, NodeMode mode, Set<NodeRole> roles) {
        return new NodeSettings(
                TestNodes.settings(Duration.ofSeconds(5), mode, roles).presence(),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }
}
