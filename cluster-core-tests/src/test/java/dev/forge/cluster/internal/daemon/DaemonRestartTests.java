// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.daemon.TestDaemons.daemon;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNoException;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.TestDaemons.DaemonNode;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.io.PrintWriter;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** Restarts after exceptions and returns, and final ends. */
@ClusterPostgres
class DaemonRestartTests extends AbstractDaemonTests {

    DaemonRestartTests(TestDatabase database) {
        super(database);
    }

    @Test
    void failure_of_the_database_server_does_not_count_as_a_restart() {
        var calls = new AtomicInteger();
        nodes.start("one", daemon("feed").restarts(Duration.ofMillis(20), 2).running(context -> {
            if (calls.incrementAndGet() <= 6) {
                throw new IllegalStateException(
                        "could not import", new SQLException("No space left on device", "53100"));
            }
            feed.run(context);
        }));
        // The method runs after more failures than maxRestarts.
        await().until(feed::isRunning);
        await().until(() -> status("feed") == DaemonStatus.RUNNING);
        assertThat(calls).hasValue(7);
    }

    @Test
    void exception_restarts_the_method_on_the_same_node_with_a_growing_delay() {
        var times = new CopyOnWriteArrayList<Long>();
        var joined = new CountDownLatch(1);
        DaemonHandler failing = daemon("failing")
                .restarts(Duration.ofMillis(400), null)
                .running(context -> {
                    times.add(System.nanoTime());
                    joined.await();
                    if (times.size() <= 3) {
                        throw new IllegalStateException("attempt \0 " + times.size());
                    }
                    context.awaitStop(Duration.ofMinutes(1));
                });
        nodes.start("one", failing);
        await().until(() -> times.size() == 1);
        nodes.start("two", failing);
        joined.countDown();
        await().until(() -> status("failing") == DaemonStatus.RESTARTING);
        // The method may run before its row shows this.
        await().until(() -> nodes.instance("failing", 0).restarts() == 3 && status("failing") == DaemonStatus.RUNNING);
        DaemonInfo.Instance row = nodes.instance("failing", 0);
        assertThat(row.nodeName()).isEqualTo("one");
        assertThat(times).hasSize(4);
        assertThat(row.lastError()).contains("IllegalStateException", "attempt ? 3", "DaemonRestartTests");
        assertThat(row.term()).isEqualTo(nodes.cluster.term("daemon:failing"));
        var pauses = new ArrayList<Long>();
        for (int i = 1; i < times.size(); i++) {
            pauses.add((times.get(i) - times.get(i - 1)) / 1_000_000);
        }
        System.out.printf("exceptions: started again after %s ms (400, 800, 1600)%n", pauses);
        assertThat(pauses.get(0)).isGreaterThanOrEqualTo(360);
        assertThat(pauses.get(1)).isGreaterThanOrEqualTo(720);
        assertThat(pauses.get(2)).isGreaterThanOrEqualTo(1_440);
    }

    /** An exception whose stack trace cannot be printed. */
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

    /** An exception whose message cannot be read. */
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

    /** An exception whose cause cannot be read. */
    private static final class Unexplainable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public synchronized Throwable getCause() {
            throw new IllegalStateException("no cause");
        }
    }

    @Test
    void daemon_whose_exception_cannot_be_printed_is_restarted_and_fails() {
        for (RuntimeException failure : List.of(new Unprintable(), new Unloggable(), new Unexplainable())) {
            String name = failure.getClass().getSimpleName();
            var calls = new AtomicInteger();
            DaemonNode member = nodes.start(
                    name, daemon(name).restarts(Duration.ofMillis(10), 2).running(context -> {
                        calls.incrementAndGet();
                        throw failure;
                    }));
            await().until(() -> status(name) == DaemonStatus.FAILED);
            assertThat(calls).hasValue(3);
            assertThat(nodes.instance(name, 0).lastError()).isNotEmpty();
            member.stop();
        }
    }

    @Test
    void daemon_with_a_restart_delay_of_a_hundred_years_is_watched() {
        DaemonNode member = nodes.start(
                "one", daemon("feed").restarts(Duration.ofDays(36_500), null).running(feed));
        await().until(feed::isRunning);
        // The same pass starts and stops all other daemons.
        assertThatNoException().isThrownBy(() -> member.engine().supervisor().watch());
    }

    @Test
    void daemon_that_exceeds_max_restarts_is_failed_until_a_node_starts_or_it_is_resumed() {
        var calls = new AtomicInteger();
        DaemonHandler failing = daemon("failing")
                .restarts(Duration.ofMillis(10), 2)
                .running(context -> {
                    calls.incrementAndGet();
                    throw new IllegalStateException("again");
                });
        DaemonNode one = nodes.start("one", failing);
        await().until(() -> status("failing") == DaemonStatus.FAILED);
        assertThat(calls.get()).isEqualTo(3);
        DaemonInfo.Instance row = nodes.instance("failing", 0);
        assertThat(row.nodeId()).isNull();
        assertThat(row.restarts()).isEqualTo(2);
        assertThat(row.lastError()).contains("again");
        assertNobodyHas("daemon:failing", calls, 3);
        one.daemons().resume("failing");
        await().until(() -> calls.get() == 6 && status("failing") == DaemonStatus.FAILED);
        nodes.start("two", failing);
        await().until(() -> calls.get() == 9 && status("failing") == DaemonStatus.FAILED);
    }

    private void assertNobodyHas(String role, AtomicInteger calls, int expected) {
        // A node that does not know yet that the daemon has ended may be elected once more, and gives the role back.
        var term = new AtomicLong(-1);
        await().during(Duration.ofMillis(1_500)).until(() -> {
            long current = nodes.cluster.term(role);
            boolean held = jdbc.sql(
                            "SELECT EXISTS (SELECT FROM forge_leader_leases WHERE role = ? AND node_id IS NOT NULL)")
                    .param(role)
                    .query(Boolean.class)
                    .single();
            return term.getAndSet(current) == current && !held && calls.get() == expected;
        });
    }

    @Test
    void daemon_whose_method_returned_is_not_run_again_after_a_failover() {
        var calls = new AtomicInteger();
        DaemonHandler once = daemon("once").running(context -> calls.incrementAndGet());
        DaemonNode one = nodes.start("one", once);
        await().until(() -> status("once") == DaemonStatus.STOPPED);
        DaemonNode two = nodes.start("two", once);
        // The start of a node with the daemon runs it again.
        await().until(() -> calls.get() == 2 && status("once") == DaemonStatus.STOPPED);
        assertNobodyHas("daemon:once", calls, 2);
        one.stop();
        assertNobodyHas("daemon:once", calls, 2);
        assertThat(status("once")).isEqualTo(DaemonStatus.STOPPED);
        two.daemons().resume("once");
        await().until(() -> calls.get() == 3 && status("once") == DaemonStatus.STOPPED);
    }

    @Test
    void instance_of_a_newer_build_stays_stopped_when_an_older_build_purges() {
        var calls = new AtomicInteger();
        DaemonHandler.Code once = context -> calls.incrementAndGet();
        DaemonNode older = nodes.start("older", daemon("once").running(once));
        await().until(() ->
                older.node().elector().isLeader(Leadership.LOG_COMPACTOR) && status("once") == DaemonStatus.STOPPED);
        DaemonNode newer = nodes.start("newer", daemon("once").instances(3).running(once));
        await().until(() -> Stream.of(0, 1, 2)
                .allMatch(instance -> nodes.instance("once", instance).status() == DaemonStatus.STOPPED));
        int done = calls.get();
        older.engine().purge();
        assertThat(nodes.info("once").instances())
                .extracting(DaemonInfo.Instance::status)
                .containsExactly(DaemonStatus.STOPPED, DaemonStatus.STOPPED, DaemonStatus.STOPPED);
        // The daemon stays stopped over several passes.
        await().during(Duration.ofSeconds(1)).until(() -> calls.get() == done);
        newer.stop();
        older.engine().purge();
        assertThat(nodes.info("once").instances()).hasSize(1);
    }

    @Test
    void daemon_with_restart_on_return_is_restarted() {
        var calls = new AtomicInteger();
        nodes.start(
                "one",
                daemon("again").restarts(Duration.ofMillis(5), 0).again().running(context -> calls.incrementAndGet()));
        await().until(() -> calls.get() >= 4);
        await().until(() -> nodes.instance("again", 0).restarts() >= 3);
        assertThat(nodes.instance("again", 0).lastError()).isNull();
    }

    @Test
    void method_that_returns_at_once_is_restarted_with_a_growing_delay_and_logged_once() {
        var times = new CopyOnWriteArrayList<Long>();
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(DaemonEngine.class.getPackageName());
        logger.setLevel(Level.INFO);
        logger.addAppender(log);
        try {
            nodes.start(
                    "one",
                    daemon("again")
                            .restarts(Duration.ofMillis(100), 0)
                            .again()
                            .running(context -> times.add(System.nanoTime())));
            await().until(() -> times.size() >= 4);
            await().until(() -> nodes.instance("again", 0).restarts() >= 3);
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
                .filteredOn(line -> line.contains("starting on this node"))
                .hasSize(1);
    }

    @Test
    void recovered_daemon_has_no_error_and_the_first_delay_again() {
        nodes.timing =
                new DaemonEngine.Timing(nodes.timing.viewInterval(), nodes.timing.placement(), Duration.ofSeconds(6));
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
        awaitRunningAfter("attempt 4");
        assertThat(calls).hasValue(5);
        await().until(() -> nodes.instance("shaky", 0).lastError() == null);
        assertThat(nodes.instance("shaky", 0).restarts()).isEqualTo(4);
        Logger logger = (Logger) LoggerFactory.getLogger(DaemonEngine.class.getPackageName());
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        logger.addAppender(log);
        try {
            fail.countDown();
            await().until(() -> calls.get() == 6);
        } finally {
            logger.detachAppender(log);
        }
        // The first delay with its jitter; the fifth failure in a row would have had 800 ms.
        assertThat(log.list)
                .filteredOn(event -> event.getFormattedMessage().contains("restarting in"))
                .singleElement()
                .satisfies(
                        event -> assertThat((Long) event.getArgumentArray()[2]).isBetween(45L, 55L));
        awaitRunningAfter("much later");
    }

    /** Waits until the row shows the restarted method together with its last error, which a recovery removes. */
    private void awaitRunningAfter(String error) {
        await().until(() -> {
            DaemonInfo.Instance row = nodes.instance("shaky", 0);
            return row.status() == DaemonStatus.RUNNING
                    && row.lastError() != null
                    && row.lastError().contains(error);
        });
    }
}
