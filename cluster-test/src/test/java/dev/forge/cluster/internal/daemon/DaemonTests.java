package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.daemon.TestDaemons.daemon;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatNoException;
import static dev.forge.cluster.internal.PatientAwaits.awaitOften;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.TestDaemons.Feed;
import dev.forge.cluster.internal.daemon.TestDaemons.Host;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.Notifications;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipAcquired;
import dev.forge.cluster.leader.LeadershipLostException;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TcpProxy;
import dev.forge.cluster.test.TestDatabase;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

@ClusterPostgres
class DaemonTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestDaemons nodes;
    private final Feed feed = new Feed();

    DaemonTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void create() {
        nodes = new TestDaemons(database);
    }

    @AfterEach
    void close() {
        nodes.close();
    }

    private DaemonHandler feed() {
        return daemon("feed").running(feed);
    }

    private Host running(Host... hosts) {
        awaitOften().until(feed::isRunning);
        return Stream.of(hosts)
                .filter(host -> host.node().identity().name().equals(feed.node()))
                .findFirst()
                .orElseThrow();
    }

    private DaemonStatus status(String name) {
        return nodes.instance(name, 0).status();
    }

    private static NodeSettings as(NodeSettings settings, NodeMode mode, NodeRole... roles) {
        return new NodeSettings(
                TestNodes.settings(Duration.ofSeconds(5), mode, Set.of(roles)).presence(),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    private static NodeSettings hasty(NodeSettings settings) {
        return new NodeSettings(
                settings.presence(),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                Duration.ofMillis(300));
    }

    // Trouble of the server ---------------------------------------------------------------------------------

    @Test
    void failures_of_the_server_count_for_no_daemon() {
        var calls = new AtomicInteger();
        nodes.start("one", daemon("feed").restarts(Duration.ofMillis(20), 2).running(context -> {
            if (calls.incrementAndGet() <= 6) {
                throw new IllegalStateException(
                        "could not import", new SQLException("No space left on device", "53100"));
            }
            feed.run(context);
        }));
        // More often than it may throw by itself.
        awaitOften().until(feed::isRunning);
        awaitOften().until(() -> status("feed") == DaemonStatus.RUNNING);
        assertThat(calls).hasValue(7);
    }

    @Test
    void two_hundred_daemons_start_on_one_node_over_a_slow_network_without_losing_a_term() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (TcpProxy network = TcpProxy.to(server.getHost(), server.getPort())) {
            var slow = new DriverManagerDataSource(
                    database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                    database.username(),
                    database.password());
            network.delay(Duration.ofMillis(1));
            var terms = new ConcurrentHashMap<String, Long>();
            var again = new CopyOnWriteArrayList<String>();
            DaemonHandler[] daemons = IntStream.range(0, 200)
                    .mapToObj(n -> daemon("feed-" + n).running(context -> {
                        Long former = terms.put(context.name(), context.term());
                        if (former != null) {
                            again.add(context.name());
                        }
                        while (!context.awaitStop(Duration.ofSeconds(10))) {
                            assertThat(context.term()).isPositive();
                        }
                    }))
                    .toArray(DaemonHandler[]::new);
            Host one = nodes.start("one", slow, s -> s, daemons);
            awaitOften().until(() -> one.node().rolesLed().contains(Leadership.SCHEDULER));
            long schedulerTerm = nodes.cluster.term(Leadership.SCHEDULER);
            awaitOften().atMost(Duration.ofSeconds(90)).until(() -> terms.size() == 200);
            assertThat(again).isEmpty();
            assertThat(terms.values()).containsOnly(1L);
            assertThat(nodes.cluster.term(Leadership.SCHEDULER)).isEqualTo(schedulerTerm);
            network.delay(Duration.ZERO);
            one.stop();
        }
    }

    // One of them -------------------------------------------------------------------------------------------

    @Test
    void of_three_nodes_one_runs_it_and_the_row_says_so() {
        List<Host> hosts =
                Stream.of("a", "b", "c").map(name -> nodes.start(name, feed())).toList();
        Host holder = running(hosts.toArray(Host[]::new));
        awaitOften().until(() -> status("feed") == DaemonStatus.RUNNING);
        DaemonInfo info = nodes.info("feed");
        assertThat(info.scope()).isEqualTo(DaemonScope.CLUSTER);
        assertThat(info.paused()).isFalse();
        assertThat(info.candidates()).containsExactly("a", "b", "c");
        assertThat(info.instances()).singleElement().satisfies(row -> {
            assertThat(row.nodeId()).isEqualTo(holder.node().id());
            assertThat(row.nodeName()).isEqualTo(feed.node());
            assertThat(row.term()).isEqualTo(feed.last.term()).isPositive();
            assertThat(row.startedAt()).isNotNull();
            assertThat(row.restarts()).isZero();
        });
        awaitOften().until(() -> "call 1".equals(nodes.instance("feed", 0).note()));
        // Several looks later nobody has changed its mind.
        awaitOften().during(Duration.ofMillis(1_500)).until(() -> feed.calls.size() == 1 && feed.most.get() == 1);
        // To the application there is no such leadership.
        assertThat(hosts.stream()
                        .flatMap(host -> host.member().events().stream())
                        .filter(LeadershipAcquired.class::isInstance)
                        .map(Object::toString))
                .isNotEmpty()
                .noneMatch(event -> event.contains("daemon:"));
        assertThat(holder.node().rolesLed()).noneMatch(role -> role.startsWith("daemon:"));
    }

    @Test
    void a_drained_node_hands_over_and_the_successor_starts_at_once() {
        var present = new ArrayList<>(List.of(nodes.start("a", feed()), nodes.start("b", feed())));
        var handovers = new ArrayList<Long>();
        for (String next : List.of("c", "d", "e")) {
            Host leaving = running(present.toArray(Host[]::new));
            int calls = feed.calls.size();
            present.remove(leaving);
            leaving.stop();
            awaitOften().until(() -> feed.calls.size() > calls);
            handovers.add((feed.calls.get(calls).startedAt() - feed.lastEnd) / 1_000_000);
            present.add(nodes.start(next, feed()));
        }
        System.out.printf("drained: the successor's method begins %s ms after the end of the former%n", handovers);
        assertThat(handovers)
                .isNotEmpty()
                .allSatisfy(millis -> assertThat(millis).isNotNegative());
        assertThat(feed.most.get()).isEqualTo(1);
    }

    @Test
    void behind_a_pooler_it_is_elected_by_leases() {
        Host one = nodes.start("one", TestNodes::byLease, feed());
        Host two = nodes.start("two", TestNodes::byLease, feed());
        Host holder = running(one, two);
        long term = feed.last.term();
        holder.stop();
        awaitOften().until(() -> feed.calls.size() == 2 && feed.isRunning());
        long handover = (feed.calls.get(1).startedAt() - feed.lastEnd) / 1_000_000;
        System.out.printf("drained, by leases: the successor's method begins after %d ms%n", handover);
        assertThat(handover).isNotNegative();
        assertThat(feed.last.term()).isGreaterThan(term);
    }

    @Test
    void workers_run_it_without_ever_leading_and_observers_and_others_do_not() {
        nodes.start("observer", s -> as(s, NodeMode.OBSERVER, NodeRole.values()), feed());
        nodes.start("scheduler", s -> as(s, NodeMode.AUTO, NodeRole.SCHEDULER), feed());
        nodes.start(
                "plain",
                s -> as(s, NodeMode.AUTO, NodeRole.WORKER),
                daemon("render").needs(NodeRole.WORKER, "gpu").running(new Feed()));
        Host worker = nodes.start("worker", s -> as(s, NodeMode.WORKER, NodeRole.WORKER), feed());
        awaitOften().until(feed::isRunning);
        assertThat(feed.node()).isEqualTo("worker");
        assertThat(worker.node().rolesLed()).isEmpty();
        assertThat(nodes.info("feed").candidates()).containsExactly("worker");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_daemons WHERE name = 'render'")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void a_node_stands_for_it_only_when_it_has_been_up_for_long_enough() {
        nodes.start("late", daemon("feed").upFor(Duration.ofHours(1)).running(feed));
        nodes.start("early", daemon("feed").upFor(Duration.ofMillis(200)).running(feed));
        awaitOften().until(feed::isRunning);
        assertThat(feed.node()).isEqualTo("early");
    }

    @Test
    void an_application_cannot_stand_for_the_role_of_a_daemon() {
        Host one = nodes.start("one", feed());
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> one.member().leadership().join("daemon:feed"))
                .withMessageContaining("daemon:feed");
    }

    // Losing it ---------------------------------------------------------------------------------------------

    private void terminateSessionOfHolder(String daemon) {
        jdbc.sql("SELECT pg_terminate_backend(backend_pid) FROM forge_leader_leases WHERE role = 'daemon:' || ?")
                .param(daemon)
                .query()
                .listOfRows();
    }

    @Test
    void after_a_lost_session_it_runs_again_in_a_new_term_and_never_twice_at_once() {
        Host one = nodes.start("one", feed());
        running(one);
        long term = feed.last.term();
        for (int round = 1; round <= 3; round++) {
            int calls = feed.calls.size();
            terminateSessionOfHolder("feed");
            awaitOften().until(() -> feed.calls.size() > calls && feed.isRunning());
        }
        assertThat(feed.last.term()).isGreaterThanOrEqualTo(term + 3);
        assertThat(feed.most.get()).isEqualTo(1);
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

    @Test
    void a_node_that_is_cut_off_has_stopped_before_another_one_starts() {
        try (TcpProxy network = network()) {
            Host cut = nodes.start("cut", through(network), s -> s, feed());
            running(cut);
            nodes.start("safe", feed());
            // Standing by.
            awaitOften().until(() -> nodes.info("feed").candidates().size() == 2);
            long start = System.nanoTime();
            network.cut();
            awaitOften().until(() -> !feed.isRunning());
            long stopped = (feed.lastEnd - start) / 1_000_000;
            awaitOften().until(() -> feed.node().equals("safe"));
            long followed = (feed.calls.get(1).startedAt() - start) / 1_000_000;
            System.out.printf("cut off: stopped after %d ms, followed after %d ms%n", stopped, followed);
            assertThat(feed.most.get()).isEqualTo(1);
            assertThat(stopped).isLessThan(followed);
            network.heal();
            awaitOften().until(() -> nodes.cluster.status("cut").equals("active"));
            assertThat(feed.calls).hasSize(2);
            cut.stop();
        }
    }

    @Test
    void after_losing_and_regaining_the_database_it_runs_again() {
        try (TcpProxy network = network()) {
            Host only = nodes.start("only", through(network), s -> s, feed());
            running(only);
            long term = feed.last.term();
            network.cut();
            awaitOften().until(() -> !feed.isRunning());
            network.reset();
            network.heal();
            awaitOften().until(feed::isRunning);
            assertThat(feed.last.term()).isGreaterThan(term);
            awaitOften().until(() -> status("feed") == DaemonStatus.RUNNING);
            assertThat(nodes.instance("feed", 0).term()).isEqualTo(feed.last.term());
            only.stop();
        }
    }

    @Test
    void a_zombie_of_an_older_term_cannot_borrow_its_nodes_newer_one() throws Exception {
        jdbc.sql("CREATE TABLE IF NOT EXISTS daemon_writes (term bigint)").update();
        jdbc.sql("TRUNCATE daemon_writes").update();
        var contexts = new CopyOnWriteArrayList<DaemonContext>();
        var release = new CountDownLatch(1);
        DaemonHandler deaf = daemon("deaf").running(context -> {
            contexts.add(context);
            boolean ended = false;
            while (!ended) {
                try {
                    ended = contexts.size() > 1
                            ? context.awaitStop(Duration.ofMinutes(1))
                            : release.await(1, TimeUnit.MINUTES);
                } catch (InterruptedException e) {
                    // It does not listen.
                }
            }
        });
        Host one = nodes.start("one", deaf);
        awaitOften().until(() -> contexts.size() == 1);
        DaemonContext zombie = contexts.get(0);
        zombie.fenced(() -> jdbc.sql("INSERT INTO daemon_writes VALUES (1)").update());
        terminateSessionOfHolder("deaf");
        awaitOften().until(() -> nodes.cluster.term("daemon:deaf") > zombie.term()
                && one.node().elector().isUndisputed("daemon:deaf"));
        assertThat(zombie.stopRequested()).isTrue();
        assertThatExceptionOfType(LeadershipLostException.class)
                .isThrownBy(() -> zombie.fenced(
                        () -> jdbc.sql("INSERT INTO daemon_writes VALUES (2)").update()));
        // Its node leads again, but does not start a second one beside it.
        awaitOften().during(Duration.ofSeconds(1)).until(() -> contexts.size() == 1);
        release.countDown();
        awaitOften().until(() -> contexts.size() == 2);
        contexts.get(1)
                .fenced(() -> jdbc.sql("INSERT INTO daemon_writes VALUES (3)").update());
        assertThat(jdbc.sql("SELECT term FROM daemon_writes ORDER BY 1")
                        .query(Long.class)
                        .list())
                .containsExactly(1L, 3L);
    }

    @Test
    void a_method_that_is_to_leave_is_interrupted_and_the_role_waits_for_its_end() {
        var interrupts = new AtomicInteger();
        var release = new CountDownLatch(1);
        var calls = new AtomicInteger();
        DaemonHandler deaf = daemon("deaf").running(context -> {
            calls.incrementAndGet();
            while (release.getCount() > 0) {
                try {
                    release.await();
                } catch (InterruptedException e) {
                    interrupts.incrementAndGet();
                }
            }
        });
        nodes.start("one", DaemonTests::hasty, deaf);
        awaitOften().until(() -> calls.get() == 1);
        Host two = nodes.start("two", DaemonTests::hasty, deaf);
        two.daemons().pause("deaf");
        awaitOften().until(() -> status("deaf") == DaemonStatus.STOPPING);
        awaitOften().until(() -> interrupts.get() > 0);
        long term = nodes.cluster.term("daemon:deaf");
        two.daemons().resume("deaf");
        // Still in its method: nobody else may have it.
        awaitOften().during(Duration.ofSeconds(1))
                .until(() -> calls.get() == 1 && nodes.cluster.term("daemon:deaf") == term);
        release.countDown();
        awaitOften().until(() -> calls.get() == 2);
    }

    @Test
    void a_node_that_leaves_with_its_method_still_running_keeps_its_successor_waiting_for_the_lease() {
        var release = new CountDownLatch(1);
        var starts = new CopyOnWriteArrayList<Long>();
        DaemonHandler deaf = daemon("deaf").running(context -> {
            starts.add(System.nanoTime());
            while (release.getCount() > 0) {
                try {
                    release.await();
                } catch (InterruptedException e) {
                    // It does not listen.
                }
            }
        });
        Host one = nodes.start("one", DaemonTests::hasty, deaf);
        awaitOften().until(() -> starts.size() == 1);
        Host two = nodes.start("two", DaemonTests::hasty, deaf);
        awaitOften().until(() -> nodes.info("deaf").candidates().size() == 2);
        one.stop();
        long left = System.nanoTime();
        awaitOften().until(() -> two.node().elector().isLeader("daemon:deaf"));
        assertThat(two.node().elector().isUndisputed("daemon:deaf")).isFalse();
        awaitOften().until(() -> starts.size() == 2);
        long waited = (starts.get(1) - left) / 1_000_000;
        System.out.printf("left behind: the successor's method begins %d ms after its node had left%n", waited);
        assertThat(waited).isGreaterThan(1_000L);
        release.countDown();
    }

    // Ending ------------------------------------------------------------------------------------------------

    @Test
    void an_exception_starts_it_again_on_the_same_node_with_a_growing_delay() {
        var times = new CopyOnWriteArrayList<Long>();
        DaemonHandler failing = daemon("failing")
                .restarts(Duration.ofMillis(100), null)
                .running(context -> {
                    times.add(System.nanoTime());
                    if (times.size() <= 3) {
                        throw new IllegalStateException("attempt \0 " + times.size());
                    }
                    context.awaitStop(Duration.ofMinutes(1));
                });
        nodes.start("one", failing);
        awaitOften().until(() -> times.size() == 1);
        nodes.start("two", failing);
        awaitOften().until(() -> status("failing") == DaemonStatus.RESTARTING);
        awaitOften().until(() -> times.size() == 4 && status("failing") == DaemonStatus.RUNNING);
        DaemonInfo.Instance row = nodes.instance("failing", 0);
        assertThat(row.nodeName()).isEqualTo("one");
        assertThat(row.restarts()).isEqualTo(3);
        assertThat(row.lastError()).contains("IllegalStateException", "attempt   3", "DaemonTests");
        assertThat(row.term()).isEqualTo(nodes.cluster.term("daemon:failing"));
        var pauses = new ArrayList<Long>();
        for (int i = 1; i < times.size(); i++) {
            pauses.add((times.get(i) - times.get(i - 1)) / 1_000_000);
        }
        System.out.printf("exceptions: started again after %s ms (100, 200, 400)%n", pauses);
        assertThat(pauses.get(0)).isGreaterThanOrEqualTo(90);
        assertThat(pauses.get(1)).isGreaterThanOrEqualTo(180);
        assertThat(pauses.get(2)).isGreaterThanOrEqualTo(360);
    }

    /** Its methods throw an exception that need not be declared. */
    private static final class Unprintable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @SuppressWarnings("unchecked")
        private static <E extends Throwable> void undeclared(Throwable failure) throws E {
            throw (E) failure;
        }

        @Override
        public void printStackTrace(PrintWriter writer) {
            Unprintable.<RuntimeException>undeclared(new IOException("cannot be printed"));
        }
    }

    /** Looks harmless, but no logger can print it. */
    private static final class Unloggable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }

        @Override
        public String toString() {
            return "unloggable";
        }
    }

    /** Whoever looks for the cause fails. */
    private static final class Unexplainable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public synchronized Throwable getCause() {
            throw new IllegalStateException("no cause");
        }
    }

    @Test
    void daemon_whose_exception_cannot_be_printed_is_restarted_or_has_failed() {
        for (RuntimeException failure : List.of(new Unprintable(), new Unloggable(), new Unexplainable())) {
            String name = failure.getClass().getSimpleName();
            var calls = new AtomicInteger();
            Host host = nodes.start(
                    name, daemon(name).restarts(Duration.ofMillis(10), 2).running(context -> {
                        calls.incrementAndGet();
                        throw failure;
                    }));
            awaitOften().until(() -> status(name) == DaemonStatus.FAILED);
            assertThat(calls).hasValue(3);
            assertThat(nodes.instance(name, 0).lastError()).isNotEmpty();
            host.stop();
        }
    }

    @Test
    void daemon_that_restarts_after_a_hundred_years_is_watched_like_any_other() {
        Host host = nodes.start(
                "one", daemon("feed").restarts(Duration.ofDays(36_500), null).running(feed));
        awaitOften().until(feed::isRunning);
        // The same pass starts and stops all others.
        assertThatNoException().isThrownBy(() -> host.engine().watch());
    }

    @Test
    void after_more_exceptions_than_it_may_throw_it_has_failed_until_a_node_starts_or_it_is_resumed() {
        var calls = new AtomicInteger();
        DaemonHandler failing = daemon("failing")
                .restarts(Duration.ofMillis(10), 2)
                .running(context -> {
                    calls.incrementAndGet();
                    throw new IllegalStateException("again");
                });
        Host one = nodes.start("one", failing);
        awaitOften().until(() -> status("failing") == DaemonStatus.FAILED);
        assertThat(calls.get()).isEqualTo(3);
        DaemonInfo.Instance row = nodes.instance("failing", 0);
        assertThat(row.nodeId()).isNull();
        assertThat(row.restarts()).isEqualTo(2);
        assertThat(row.lastError()).contains("again");
        assertNobodyHas("daemon:failing", calls, 3);
        one.daemons().resume("failing");
        awaitOften().until(() -> calls.get() == 6 && status("failing") == DaemonStatus.FAILED);
        nodes.start("two", failing);
        awaitOften().until(() -> calls.get() == 9 && status("failing") == DaemonStatus.FAILED);
    }

    private void assertNobodyHas(String role, AtomicInteger calls, int expected) {
        awaitOften().until(() -> jdbc.sql("SELECT count(*) FROM forge_leader_leases WHERE role = ? AND node_id IS NOT NULL")
                        .param(role)
                        .query(Long.class)
                        .single()
                == 0);
        long term = nodes.cluster.term(role);
        awaitOften().during(Duration.ofMillis(1_500))
                .until(() -> calls.get() == expected && nodes.cluster.term(role) == term);
    }

    @Test
    void a_method_that_returns_is_done_and_no_failover_runs_it_again() {
        var calls = new AtomicInteger();
        DaemonHandler once = daemon("once").running(context -> calls.incrementAndGet());
        Host one = nodes.start("one", once);
        awaitOften().until(() -> status("once") == DaemonStatus.STOPPED);
        Host two = nodes.start("two", once);
        // A node that has it has started.
        awaitOften().until(() -> calls.get() == 2 && status("once") == DaemonStatus.STOPPED);
        assertNobodyHas("daemon:once", calls, 2);
        one.stop();
        assertNobodyHas("daemon:once", calls, 2);
        assertThat(status("once")).isEqualTo(DaemonStatus.STOPPED);
        two.daemons().resume("once");
        awaitOften().until(() -> calls.get() == 3 && status("once") == DaemonStatus.STOPPED);
    }

    @Test
    void what_a_newer_build_has_more_of_stays_done_whatever_an_older_one_tidies_up() {
        var calls = new AtomicInteger();
        DaemonHandler.Code once = context -> calls.incrementAndGet();
        Host older = nodes.start("older", daemon("once").running(once));
        awaitOften().until(() ->
                older.node().elector().isLeader(Leadership.LOG_COMPACTOR) && status("once") == DaemonStatus.STOPPED);
        Host newer = nodes.start("newer", daemon("once").instances(3).running(once));
        awaitOften().until(() -> Stream.of(0, 1, 2)
                .allMatch(instance -> nodes.instance("once", instance).status() == DaemonStatus.STOPPED));
        int done = calls.get();
        older.engine().tidy();
        assertThat(nodes.info("once").instances())
                .extracting(DaemonInfo.Instance::status)
                .containsExactly(DaemonStatus.STOPPED, DaemonStatus.STOPPED, DaemonStatus.STOPPED);
        // Several looks later.
        awaitOften().during(Duration.ofSeconds(1)).until(() -> calls.get() == done);
        newer.stop();
        older.engine().tidy();
        assertThat(nodes.info("once").instances()).hasSize(1);
    }

    @Test
    void unless_it_is_to_be_started_again() {
        var calls = new AtomicInteger();
        nodes.start(
                "one",
                daemon("again").restarts(Duration.ofMillis(5), 0).again().running(context -> calls.incrementAndGet()));
        awaitOften().until(() -> calls.get() >= 4);
        awaitOften().until(() -> nodes.instance("again", 0).restarts() >= 3);
        assertThat(nodes.instance("again", 0).lastError()).isNull();
    }

    @Test
    void one_that_returns_at_once_starts_again_with_a_growing_delay_and_says_so_once() {
        var times = new CopyOnWriteArrayList<Long>();
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(DaemonEngine.class);
        logger.setLevel(Level.INFO);
        logger.addAppender(log);
        try {
            nodes.start(
                    "one",
                    daemon("again")
                            .restarts(Duration.ofMillis(100), 0)
                            .again()
                            .running(context -> times.add(System.nanoTime())));
            awaitOften().until(() -> times.size() == 4);
            awaitOften().until(() -> nodes.instance("again", 0).restarts() >= 3);
        } finally {
            logger.detachAppender(log);
            logger.setLevel(null);
        }
        assertThat(times.get(1) - times.get(0))
                .isGreaterThan(Duration.ofMillis(90).toNanos());
        assertThat(times.get(2) - times.get(1))
                .isGreaterThan(Duration.ofMillis(180).toNanos());
        assertThat(times.get(3) - times.get(2))
                .isGreaterThan(Duration.ofMillis(360).toNanos());
        assertThat(log.list)
                .extracting(ILoggingEvent::getFormattedMessage)
                .filteredOn(line -> line.contains("starts on this node"))
                .hasSize(1);
    }

    @Test
    void after_a_good_run_it_has_recovered_and_its_error_and_delays_are_forgotten() {
        nodes.timing = new DaemonEngine.Timing(
                nodes.timing.look(),
                nodes.timing.precedence(),
                nodes.timing.stable(),
                nodes.timing.avoided(),
                Duration.ofSeconds(2));
        var calls = new AtomicInteger();
        var fail = new CountDownLatch(1);
        nodes.start("one", daemon("shaky").restarts(Duration.ofMillis(50), null).running(context -> {
            int call = calls.incrementAndGet();
            if (call <= 4) {
                throw new IllegalStateException("attempt " + call);
            }
            if (call == 5) {
                fail.await();
                throw new IllegalStateException("much later");
            }
            context.awaitStop(Duration.ofMinutes(1));
        }));
        awaitOften().until(() -> calls.get() == 5 && status("shaky") == DaemonStatus.RUNNING);
        assertThat(nodes.instance("shaky", 0).lastError()).contains("attempt 4");
        awaitOften().until(() -> nodes.instance("shaky", 0).lastError() == null);
        assertThat(nodes.instance("shaky", 0).restarts()).isEqualTo(4);
        Logger logger = (Logger) LoggerFactory.getLogger(DaemonEngine.class);
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        logger.addAppender(log);
        try {
            fail.countDown();
            awaitOften().until(() -> calls.get() == 6);
        } finally {
            logger.detachAppender(log);
        }
        // As after the first exception, give or take its jitter: in a row it would have been 800 ms.
        assertThat(log.list)
                .filteredOn(event -> event.getFormattedMessage().contains("starts again in"))
                .singleElement()
                .satisfies(
                        event -> assertThat((Long) event.getArgumentArray()[2]).isBetween(45L, 55L));
        awaitOften().until(() -> status("shaky") == DaemonStatus.RUNNING);
        assertThat(nodes.instance("shaky", 0).lastError()).contains("much later");
    }

    // Orders ------------------------------------------------------------------------------------------------

    @Test
    void a_paused_daemon_runs_nowhere_until_it_is_resumed_whoever_starts_meanwhile() {
        Host one = nodes.start("one", feed());
        running(one);
        Host two = nodes.start("two", feed());
        assertThat(two.daemons().pause("feed"))
                .hasValueSatisfying(info -> assertThat(info.paused()).isTrue());
        awaitOften().until(() -> !feed.isRunning() && status("feed") == DaemonStatus.PENDING);
        assertThat(nodes.instance("feed", 0).nodeId()).isNull();
        one.stop();
        nodes.start("three", feed());
        awaitOften().during(Duration.ofMillis(1_500)).until(() -> feed.calls.size() == 1);
        assertThat(two.daemons().find("feed").orElseThrow().paused()).isTrue();
        long start = System.nanoTime();
        two.daemons().resume("feed");
        awaitOften().until(feed::isRunning);
        System.out.printf("resumed: runs after %d ms%n", (feed.calls.get(1).startedAt() - start) / 1_000_000);
        assertThat(feed.most.get()).isEqualTo(1);
    }

    @Test
    void paused_and_resumed_in_a_moment_it_runs_and_its_row_says_so() {
        Host one = nodes.start("one", feed());
        running(one);
        for (int round = 0; round < 10; round++) {
            one.daemons().pause("feed");
            if (round % 2 == 0) {
                awaitOften().until(() -> !feed.isRunning());
            }
            one.daemons().resume("feed");
        }
        awaitOften().until(() -> feed.isRunning() && status("feed") == DaemonStatus.RUNNING);
        assertThat(nodes.instance("feed", 0).nodeId()).isEqualTo(one.node().id());
        awaitOften().during(Duration.ofSeconds(1)).until(() -> feed.isRunning() && status("feed") == DaemonStatus.RUNNING);
        assertThat(feed.most.get()).isEqualTo(1);
    }

    @Test
    void daemon_is_paused_and_resumed_although_nobody_can_be_notified() {
        String role = "runtime_" + database.name();
        jdbc.sql("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(role)).update();
        jdbc.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role)
                .update();
        jdbc.sql("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) FROM PUBLIC")
                .update();
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        var logger = (Logger) LoggerFactory.getLogger(Notifications.class);
        logger.addAppender(log);
        try {
            var source = new DriverManagerDataSource(database.url(), role, "secret");
            Host host = nodes.start("a", source, s -> s, feed());
            running(host);
            host.engine().announce();
            assertThat(host.daemons().pause("feed").orElseThrow().paused()).isTrue();
            awaitOften().until(() -> !feed.isRunning());
            assertThat(host.daemons().resume("feed").orElseThrow().paused()).isFalse();
            running(host);
            host.stop();
            assertThat(log.list)
                    .filteredOn(line -> line.getLevel() == Level.WARN
                            && line.getFormattedMessage().contains("(" + DaemonEngine.NEWS + ")"))
                    .hasSize(1);
        } finally {
            logger.detachAppender(log);
            jdbc.sql("GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) TO PUBLIC")
                    .update();
            jdbc.sql("DROP OWNED BY " + role).update();
            jdbc.sql("DROP ROLE " + role).update();
        }
    }

    @Test
    void node_is_a_candidate_for_just_the_roles_that_it_stands_for_however_threads_interleave() throws Exception {
        Host host = nodes.create("a", database.dataSource(), s -> s, feed());
        DaemonEngine engine = host.engine();
        engine.begin();
        var together = new CyclicBarrier(2);
        var other = new Thread(() -> {
            try {
                for (int round = 0; round < 20_000; round++) {
                    together.await();
                    engine.standDown("daemon:feed");
                    together.await();
                }
            } catch (InterruptedException | BrokenBarrierException e) {
                Thread.currentThread().interrupt();
            }
        });
        other.start();
        try {
            for (int round = 0; round < 20_000; round++) {
                together.await();
                engine.standUp("daemon:feed");
                together.await();
                assertThat(host.node().elector().isCandidate("daemon:feed"))
                        .as("candidate in round %d", round)
                        .isEqualTo(engine.isStanding("daemon:feed"));
            }
        } finally {
            other.interrupt();
            other.join();
        }
    }

    @Test
    void quiesced_node_stands_for_no_role() {
        Host host = nodes.create("a", database.dataSource(), s -> s, feed());
        host.engine().begin();
        host.engine().standUp("daemon:feed");
        host.engine().quiesce();
        // A look at the table that began before ends now.
        host.engine().standUp("daemon:feed");
        assertThat(host.engine().isStanding("daemon:feed")).isFalse();
        assertThat(host.node().elector().isCandidate("daemon:feed")).isFalse();
    }

    @Test
    void unknown_daemons_are_not_paused_and_nodes_without_the_right_pause_none() {
        Host one = nodes.start("one", feed());
        assertThat(one.daemons().pause("nobody")).isEmpty();
        assertThat(one.daemons().resume("nobody")).isEmpty();
        assertThat(one.daemons().find("nobody")).isEmpty();
        awaitOften().until(() -> !one.daemons().list().isEmpty());
        Host observer = nodes.start("observer", s -> as(s, NodeMode.OBSERVER, NodeRole.values()), feed());
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> observer.daemons().pause("feed"));
        assertThat(observer.daemons().list()).extracting(DaemonInfo::name).containsExactly("feed");
    }

    // Spread ------------------------------------------------------------------------------------------------

    private Map<String, Long> perNode(Feed calls) {
        return calls.calls.stream()
                .filter(call -> call.ended().get() == 0)
                .collect(Collectors.groupingBy(Feed.Call::node, Collectors.counting()));
    }

    @Test
    void instances_lie_on_as_many_nodes_as_there_are_and_move_to_those_that_come() {
        DaemonHandler three = daemon("feed").instances(3).running(feed);
        Host a = nodes.start("a", three);
        // Alone it runs them all.
        awaitOften().until(() -> feed.running.get() == 3);
        nodes.start("b", three);
        Host c = nodes.start("c", three);
        long joined = System.nanoTime();
        awaitOften().until(() -> perNode(feed).equals(Map.of("a", 1L, "b", 1L, "c", 1L)));
        System.out.printf(
                "two nodes join one that has three daemons: one each after %d ms%n",
                (System.nanoTime() - joined) / 1_000_000);
        assertThat(feed.most.get()).isEqualTo(3);
        // Two were moved, each of them once.
        assertThat(feed.calls).hasSize(5);
        assertThat(feed.calls).extracting(Feed.Call::instance).containsOnly(0, 1, 2);
        // The third one's goes to either of the others.
        c.stop();
        awaitOften().until(() -> feed.running.get() == 3);
        assertThat(perNode(feed)).hasSize(2).containsKeys("a", "b");
        a.stop();
        awaitOften().until(() -> perNode(feed).equals(Map.of("b", 3L)));
    }

    @Test
    void instance_that_is_given_up_does_not_start_again_in_the_same_term() {
        nodes.timing = new DaemonEngine.Timing(
                Duration.ofMillis(20),
                Duration.ofMillis(100),
                Duration.ofMillis(50),
                Duration.ofMillis(500),
                nodes.timing.goodRun());
        DaemonHandler twenty = daemon("feed").instances(20).running(feed);
        nodes.start("a", twenty);
        awaitOften().until(() -> feed.running.get() == 20);
        // Half of them move, one after the other.
        nodes.start("b", twenty);
        awaitOften().until(() -> perNode(feed).equals(Map.of("a", 10L, "b", 10L)));
        assertThat(feed.calls)
                .extracting(call -> "instance %d, term %d".formatted(call.instance(), call.term()))
                .doesNotHaveDuplicates();
    }

    @Test
    void instances_of_one_daemon_lie_on_different_nodes_whatever_else_these_run() {
        DaemonHandler[] pairs = {
            daemon("alpha").instances(2).running(feed),
            daemon("beta").instances(2).running(feed)
        };
        nodes.start("a", pairs);
        awaitOften().until(() -> feed.running.get() == 4);
        nodes.start("b", pairs);
        awaitOften().until(() ->
                jdbc.sql("""
                        SELECT d.name || '@' || n.name FROM forge_daemons d JOIN forge_nodes n ON n.id = d.node_id
                        WHERE d.status = 'running' ORDER BY 1
                        """).query(String.class).list().equals(List.of("alpha@a", "alpha@b", "beta@a", "beta@b")));
        // Two moves were enough.
        assertThat(feed.calls).hasSize(6);
    }

    @Test
    void instances_that_only_a_newer_build_has_are_not_offered_to_an_older_one() {
        nodes.start("newer", daemon("feed").instances(3).running(feed));
        awaitOften().until(() -> feed.running.get() == 3);
        nodes.start("older", daemon("feed").running(feed));
        awaitOften().until(() -> perNode(feed).equals(Map.of("newer", 2L, "older", 1L)));
        // Nothing else is moved, several looks later.
        awaitOften().during(Duration.ofSeconds(4)).until(() -> perNode(feed).equals(Map.of("newer", 2L, "older", 1L)));
        assertThat(feed.calls)
                .filteredOn(call -> call.node().equals("older"))
                .extracting(Feed.Call::instance)
                .containsOnly(0);
    }

    @Test
    void daemons_of_nodes_that_start_together_do_not_all_land_on_one() {
        var handlers =
                Stream.of("x", "y", "z").map(name -> daemon(name).running(feed)).toArray(DaemonHandler[]::new);
        List<Host> hosts = Stream.of("a", "b", "c")
                .map(name -> nodes.create(name, database.dataSource(), s -> s, handlers))
                .toList();
        // Nobody is to look before all can be seen: their daemons are held back until then.
        jdbc.sql("INSERT INTO forge_daemons (name, instance) VALUES ('x', 0), ('y', 0), ('z', 0)")
                .update();
        jdbc.sql("INSERT INTO forge_daemon_pauses (name) VALUES ('x'), ('y'), ('z')")
                .update();
        hosts.forEach(host -> host.node().start());
        Stream.of("x", "y", "z").forEach(name -> hosts.get(0).daemons().resume(name));
        awaitOften().until(() -> perNode(feed).equals(Map.of("a", 1L, "b", 1L, "c", 1L)));
    }

    // On every node -----------------------------------------------------------------------------------------

    @Test
    void a_daemon_of_scope_node_runs_on_every_node_without_a_term() {
        DaemonHandler everywhere = daemon("cache").everywhere().running(feed);
        Host one = nodes.start("one", everywhere);
        awaitOften().until(() -> feed.running.get() == 1);
        Host two = nodes.start("two", everywhere);
        awaitOften().until(() -> feed.running.get() == 2);
        assertThat(perNode(feed)).isEqualTo(Map.of("one", 1L, "two", 1L));
        awaitOften().until(() -> nodes.info("cache").instances().stream()
                        .filter(row -> row.status() == DaemonStatus.RUNNING)
                        .count()
                == 2);
        DaemonInfo info = nodes.info("cache");
        assertThat(info.scope()).isEqualTo(DaemonScope.NODE);
        assertThat(info.instances()).extracting(DaemonInfo.Instance::number).containsExactly(0, 1);
        assertThat(info.instances()).extracting(DaemonInfo.Instance::nodeName).containsExactly("one", "two");
        assertThat(feed.last.term()).isZero();
        assertThatExceptionOfType(IllegalStateException.class)
                .isThrownBy(() -> feed.last.fenced(() -> true))
                .withMessageContaining("scope NODE");
        one.stop();
        assertThat(nodes.info("cache").instances())
                .extracting(DaemonInfo.Instance::number)
                .containsExactly(1);
        two.daemons().pause("cache");
        awaitOften().until(() -> !feed.isRunning() && nodes.instance("cache", 1).status() == DaemonStatus.PENDING);
        nodes.start("three", everywhere);
        awaitOften().until(() -> nodes.info("cache").instances().size() == 2);
        assertThat(nodes.instance("cache", 0).nodeName()).isEqualTo("three");
        two.daemons().resume("cache");
        awaitOften().until(() -> feed.running.get() == 2);
    }

    @Test
    void on_a_node_that_is_declared_dead_it_goes_on_and_its_row_comes_back() {
        DaemonHandler everywhere = daemon("cache").everywhere().running(feed);
        var done = new AtomicInteger();
        DaemonHandler once = daemon("once").everywhere().running(context -> done.incrementAndGet());
        Host one = nodes.start("one", everywhere, once);
        awaitOften().until(() -> feed.isRunning() && status("once") == DaemonStatus.STOPPED);
        var former = new AtomicReference<>(one.node().id());
        jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
        jdbc.sql("DELETE FROM forge_daemons").update();
        one.node().beatSoon();
        awaitOften().until(() ->
                one.node().id() != null && !former.get().equals(one.node().id()));
        awaitOften().until(() -> !nodes.cluster
                .database
                .jdbc()
                .sql("SELECT 1 FROM forge_daemons WHERE name = 'cache' AND status = 'running' AND node_id = ?")
                .param(one.node().id())
                .query()
                .listOfRows()
                .isEmpty());
        assertThat(feed.calls).hasSize(1);
        assertThat(feed.isRunning()).isTrue();
        // What was done stays done: the process is the same.
        awaitOften().until(() -> status("once") == DaemonStatus.STOPPED);
        assertThat(nodes.instance("once", 0).nodeId()).isEqualTo(one.node().id());
        assertThat(done.get()).isEqualTo(1);
    }

    /** Waits until somebody's statement about daemons waits for a lock, which the caller has. */
    private void awaitBlocked() {
        awaitOften().until(() -> jdbc.sql("""
                        SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%forge_daemons%'
                        """).query(Long.class).single() > 0);
    }

    @Test
    void on_every_node_too_a_method_that_returns_is_done_even_if_its_end_is_written_late() throws Exception {
        var calls = new AtomicInteger();
        var release = new CountDownLatch(1);
        DaemonHandler noisy = daemon("noisy").running(context -> {
            for (int i = 0; !context.awaitStop(Duration.ofMillis(5)); i++) {
                context.note("note " + i);
            }
        });
        DaemonHandler once = daemon("once").everywhere().running(context -> {
            calls.incrementAndGet();
            release.await();
        });
        Host one = nodes.start("one", noisy, once);
        awaitOften().until(() -> status("noisy") == DaemonStatus.RUNNING && status("once") == DaemonStatus.RUNNING);
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("SELECT FROM forge_daemons WHERE name = 'noisy' FOR UPDATE");
            // Its loop has gathered what to write, and will look next.
            awaitBlocked();
            release.countDown();
            awaitOften().until(() -> Thread.getAllStackTraces().keySet().stream()
                    .noneMatch(thread -> thread.getName().equals("forge-daemon-once-0")));
            connection.commit();
        }
        awaitOften().until(() -> status("once") == DaemonStatus.STOPPED);
        awaitOften().during(Duration.ofSeconds(1)).until(() -> calls.get() == 1 && status("once") == DaemonStatus.STOPPED);
        one.daemons().resume("once");
        awaitOften().until(() -> calls.get() == 2 && status("once") == DaemonStatus.STOPPED);
    }

    @Test
    void under_an_id_that_is_dead_no_row_comes_back_before_its_node_has_joined_anew() throws Exception {
        Host one = nodes.start("one", daemon("cache").everywhere().running(feed));
        awaitOften().until(() -> feed.isRunning() && status("cache") == DaemonStatus.RUNNING);
        UUID former = Objects.requireNonNull(one.node().id());
        jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            // It cannot join yet; it can look, and finds its row gone.
            connection.createStatement().execute("LOCK TABLE forge_nodes IN SHARE MODE");
            jdbc.sql("DELETE FROM forge_daemons").update();
            awaitOften().during(Duration.ofMillis(1_500)).until(() -> rowsOf(former) == 0);
            connection.commit();
        }
        awaitOften().until(() -> rowsOf(one.node().id()) == 1);
        assertThat(nodes.info("cache").instances()).hasSize(1);
        assertThat(feed.calls).hasSize(1);
    }

    private long rowsOf(UUID node) {
        return jdbc.sql("SELECT count(*) FROM forge_daemons WHERE node_id = ?")
                .param(node)
                .query(Long.class)
                .single();
    }
}
