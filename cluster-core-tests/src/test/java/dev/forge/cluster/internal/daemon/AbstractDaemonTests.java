// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.daemon.TestDaemons.daemon;

import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.PatientAwaits;
import dev.forge.cluster.internal.daemon.TestDaemons.DaemonNode;
import dev.forge.cluster.internal.daemon.TestDaemons.Feed;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.core.ConditionFactory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Fixture for tests of daemons on nodes in this JVM. */
abstract class AbstractDaemonTests {

    final TestDatabase database;
    final JdbcClient jdbc;
    TestDaemons nodes;
    final Feed feed = new Feed();

    AbstractDaemonTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    static ConditionFactory await() {
        return PatientAwaits.await().pollDelay(Duration.ZERO).pollInterval(Duration.ofMillis(5));
    }

    @BeforeEach
    void create() {
        nodes = new TestDaemons(database);
    }

    @AfterEach
    void close() {
        nodes.close();
    }

    DaemonHandler feed() {
        return daemon("feed").running(feed);
    }

    DaemonNode running(DaemonNode... members) {
        await().until(feed::isRunning);
        return Stream.of(members)
                .filter(member -> member.node().identity().name().equals(feed.node()))
                .findFirst()
                .orElseThrow();
    }

    DaemonStatus status(String name) {
        return nodes.instance(name, 0).status();
    }

    static NodeSettings as(NodeSettings settings, NodeMode mode, NodeRole... roles) {
        return TestNodes.withRoles(TestNodes.withMode(settings, mode), roles);
    }

    Map<String, Long> perNode(Feed calls) {
        return calls.calls.stream()
                .filter(call -> call.ended().get() == 0)
                .collect(Collectors.groupingBy(Feed.Call::node, Collectors.counting()));
    }
}
