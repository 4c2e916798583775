// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.cron.CronSchedule;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.test.ClusterTester.Mode;
import dev.forge.cluster.test.postgres.MovableTime;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Creates the {@link ClusterTester} of a test context, and begins and ends its tests. Called by the auto-configuration of tests, not
 * by tests.
 */
public final class ClusterTestLifecycle {

    /** More terms than crashes of a test begin. */
    private static final long TERMS_PER_TEST = 1_000;

    private final Mode mode;
    private final TestDatabase database;
    private final MovableTime time;
    private final AtomicLong movedNanos = new AtomicLong();
    private final TestClock clock;
    private final NodeDriver driver;
    private final ClusterTester tester;
    private List<TestNode> nodes = List.of();
    private Set<String> roles = Set.of();
    private boolean kept;
    private long tests;

    /**
     * Creates the tester of a context that is about to start.
     *
     * @param database with a {@linkplain PostgresServer#createDatabaseWithMovableTime movable time}
     * @param attempts sees each attempt of the context's node
     */
    public ClusterTestLifecycle(Mode mode, TestDatabase database, AttemptRecorder attempts) {
        this.mode = mode;
        this.database = database;
        this.time = database.time();
        this.clock = new TestClock(time, this::moveTime);
        this.driver = new NodeDriver(mode, database, attempts, clock);
        this.tester = new ClusterTester(this, driver, database, clock);
    }

    /** Returns what tests inject. */
    public ClusterTester tester() {
        return tester;
    }

    /** Returns by how many nanoseconds the test has moved the time, which nodes add to their own. */
    public long movedNanos() {
        return movedNanos.get();
    }

    /** Sets the node to drive, when its context has started. */
    public void drive(TestedNode node) {
        driver.drive(node);
        time.requireSeenBy(node.application());
    }

    /** Returns whether the context is ready for tests: {@link #drive} and {@link #keep} were called. */
    public boolean isPrepared() {
        return kept;
    }

    /** Sets the further nodes of the test, when their contexts have started. */
    public void nodes(List<TestNode> further) {
        nodes = List.copyOf(further);
    }

    /** Has the tester know the steps that a further node executes. */
    public void observe(WorkflowEngine engine) {
        engine.probe(driver.steps());
    }

    List<TestNode> nodes() {
        return nodes;
    }

    private Node node() {
        return driver.node();
    }

    /** Keeps the rows of all tables, when the context has started: each test begins with them. */
    public void keep() {
        driver.exclusively(() -> {
            if (!kept) {
                if (mode != Mode.LIVE) {
                    // So that the crons of the application are among the kept rows.
                    node().step();
                }
                roles = node().elector().roles();
                nodes.forEach(TestNode::leave);
                node().stop();
                keepOrRestore();
                node().start();
            }
            return true;
        });
    }

    /**
     * Begins a test: all tables have the rows again that they had when the context had started, the time is that of the machine, and
     * the node joins anew. Called before each test.
     */
    public void begin() {
        driver.forget();
        restart(mode == Mode.LIVE ? null : Instant.now().truncatedTo(ChronoUnit.MILLIS));
    }

    /** @param instant the time of the test; null lets it run with that of the machine */
    void restart(@Nullable Instant instant) {
        driver.exclusively(() -> {
            nodes.forEach(TestNode::leave);
            leaveJoinedRoles();
            node().stop();
            database.requireStandby();
            keepOrRestore();
            if (instant == null) {
                time.run();
            } else {
                time.stopAt(instant);
                rescheduleCrons(instant, "next_fire_at IS NOT NULL");
            }
            node().start();
            nodes.forEach(TestNode::start);
            return true;
        });
    }

    private void leaveJoinedRoles() {
        Elector elector = node().elector();
        elector.roles().stream().filter(role -> !roles.contains(role)).forEach(elector::leave);
    }

    private void keepOrRestore() {
        if (!kept) {
            time.keep();
            kept = true;
            return;
        }
        time.restore();
        // Terms never repeat, also for what the node remembers of the last test.
        tests++;
        database.jdbc()
                .sql(node().resources().schema().sql("UPDATE ~.forge_leaders SET current_term = current_term + ?"))
                .params(TERMS_PER_TEST * tests)
                .update();
    }

    /** Has crons whose slots have come go on with the next one. */
    void skipSlots() {
        driver.besideTransaction(() -> {
            rescheduleCrons(clock.instant(), "next_fire_at <= now()");
            return true;
        });
    }

    private void rescheduleCrons(Instant instant, String condition) {
        Schema schema = node().resources().schema();
        record Row(String name, String expression, String zone) {}
        List<Row> rows = database.jdbc()
                .sql(schema.sql("SELECT name, expression, zone FROM ~.forge_crons WHERE " + condition))
                .query((row, n) -> new Row(row.getString(1), row.getString(2), row.getString(3)))
                .list();
        for (Row row : rows) {
            Instant next = CronSchedule.of(row.expression, row.zone).next(instant);
            database.jdbc()
                    .sql(schema.sql(Schema.BY_NODE
                            + "UPDATE ~.forge_crons SET next_fire_at = nullif(?, '')::timestamptz WHERE name = ?"))
                    .params(next == null ? "" : next.toString(), row.name)
                    .update();
        }
    }

    /**
     * Fails if a fault that the test has asked for did not happen: it would be green without it.
     *
     * @throws AssertionError if there is one
     */
    public void requireFaultsHappened() {
        var unused = new ArrayList<String>(driver.steps().unused());
        unused.addAll(driver.attempts().unused());
        if (!unused.isEmpty()) {
            throw new AssertionError(
                    "Requested faults that did not happen, because no such step or job has run, or not often enough: "
                            + unused);
        }
    }

    private void moveTime(Duration duration) {
        List<Node> members = Stream.concat(Stream.of(node()), nodes.stream().map(TestNode::node))
                .filter(member -> member.id() != null)
                .toList();
        List<UUID> ids = members.stream().map(Node::id).filter(Objects::nonNull).toList();
        new LiveLeases(database, node().resources().schema()).move(ids, duration, mode == Mode.LIVE, () -> {
            time.advance(duration);
            movedNanos.addAndGet(duration.toNanos());
        });
        members.forEach(Node::timeMoved);
        if (driver.isInline()) {
            driver.runInline();
        }
    }
}
