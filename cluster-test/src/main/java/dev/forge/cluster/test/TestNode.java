// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.database.AdvisoryKeys;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;

/**
 * One of several nodes of a test, with its own beans and its own network path. All of them run in one JVM: a killed node loses its
 * connections at once, and its handlers are interrupted; one that is frozen makes no pass and reaches nothing, but the code of its
 * handlers goes on. What needs a real process is for {@code @ClusterProcessTest}.
 */
public final class TestNode {

    private final String name;
    private final Node node;
    private final NodePath path;
    private final TestDatabase database;
    private final Function<Class<?>, Object> beans;

    /** @param beans returns a bean of the node by its type */
    public TestNode(String name, Node node, NodePath path, TestDatabase database, Function<Class<?>, Object> beans) {
        this.name = name;
        this.node = node;
        this.path = path;
        this.database = database;
        this.beans = beans;
    }

    /** Returns the name of the node: {@code node-1}, {@code node-2} and so on. */
    public String name() {
        return name;
    }

    /** Returns the id of the present membership; empty while the node is not a member. */
    public Optional<UUID> id() {
        return Optional.ofNullable(node.id());
    }

    /** Returns a bean of this node. */
    public <T> T get(Class<T> type) {
        return type.cast(beans.apply(type));
    }

    /** Returns whether this node leads a role, as far as it knows. */
    public boolean isLeader(String role) {
        return node.elector().isLeader(role);
    }

    Node node() {
        return node;
    }

    // Faults ------------------------------------------------------------------------------------------------

    /** Ends the node as a crash does: its connections are reset, it can open no others, and nothing that it held is released. */
    public void kill() {
        path.network().refuse(true);
        path.network().reset();
        path.freeze(false);
        node.die();
        if (node.resources().control() instanceof ControlConnections control) {
            // A node that starts again must not use those that were reset.
            control.close();
        }
    }

    /** Starts a node again that was killed or has left, without any faults. */
    public void start() {
        if (node.id() != null) {
            throw new IllegalStateException("%s is running: stop or kill it first".formatted(this));
        }
        path.heal();
        if (node.resources().control() instanceof ControlConnections control) {
            control.reopen();
        }
        node.start();
    }

    /** Lets the node leave as a shutdown does. */
    public void stop() {
        node.stop();
    }

    /** Lets the node make no pass and reach nothing, until {@link #resume()}. */
    public void freeze() {
        path.freeze(true);
        path.network().cut();
    }

    /** Ends a {@link #freeze()}. */
    public void resume() {
        path.network().heal();
        path.freeze(false);
    }

    /** Cuts the node from the database silently: no byte passes, and neither end is told, until {@link #reconnect()}. */
    public void cutFromDatabase() {
        path.network().cut();
    }

    /** Ends a {@link #cutFromDatabase()}. */
    public void reconnect() {
        path.network().heal();
    }

    /** Delays all data between the node and the database by that time in each direction; zero ends it. */
    public void slowDown(Duration delay) {
        path.network().delay(delay);
    }

    /** Sets the clock of the node's machine wrong by that time. */
    public void skewClock(Duration skew) {
        path.skew(skew);
    }

    /** Takes no new work and waits for what runs; the node stays a member. */
    public void drain() {
        node.drain();
    }

    /** Ends the session in which the node holds its locks, as an operator or a restarted pooler may. Returns whether it had one. */
    public boolean loseSession() {
        return id().map(member -> database.jdbc()
                                .sql(node.resources().schema().sql("""
                                SELECT count(pg_terminate_backend(l.pid)) FROM ~.forge_nodes n
                                JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid::bigint = :class
                                  AND l.objid::bigint = (n.liveness_key::bigint & 4294967295) AND l.granted
                                  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                                WHERE n.id = :node
                                """))
                                .param("class", AdvisoryKeys.CLASS_ID)
                                .param("node", member)
                                .query(Integer.class)
                                .single())
                        .orElse(0)
                > 0;
    }

    // Tests -------------------------------------------------------------------------------------------------

    /** Removes all faults and lets the node leave, so that the next test begins without it. */
    void leave() {
        path.heal();
        if (node.id() != null) {
            node.stop();
        }
    }

    void lose() {
        path.network().refuse(true);
        path.network().reset();
    }

    void find() {
        path.network().refuse(false);
    }

    @Override
    public String toString() {
        return "%s (%s)".formatted(name, node.id() == null ? "not a member" : node.id());
    }
}
