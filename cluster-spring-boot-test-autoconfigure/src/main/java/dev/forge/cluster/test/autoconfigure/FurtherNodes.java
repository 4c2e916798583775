// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.test.ClusterTestLifecycle;
import dev.forge.cluster.test.NodePath;
import dev.forge.cluster.test.TestNode;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.test.context.MergedContextConfiguration;
import org.springframework.test.context.SmartContextLoader;

/** The nodes of a test with several: contexts with the configuration of the test's own, each with its own path to the database. */
final class FurtherNodes implements DisposableBean {

    private static final ThreadLocal<@Nullable Starting> STARTING = new ThreadLocal<>();

    private final int count;
    private final MergedContextConfiguration merged;
    private final TestDatabase database;
    private final ClusterTestLifecycle lifecycle;
    private final List<ConfigurableApplicationContext> contexts = new ArrayList<>();
    private final List<NodePath> paths = new ArrayList<>();

    /** A node whose context is being created on this thread. */
    record Starting(String name, TestDatabase database, NodePath path, Clock clock, LongSupplier moved) {}

    FurtherNodes(int count, MergedContextConfiguration merged, TestDatabase database, ClusterTestLifecycle lifecycle) {
        this.count = count;
        this.merged = merged;
        this.database = database;
        this.lifecycle = lifecycle;
    }

    /** Returns the node whose context is being created on this thread; null if it is the test's own. */
    static @Nullable Starting starting() {
        return STARTING.get();
    }

    /** Starts the nodes, once. */
    void start() throws Exception {
        if (!contexts.isEmpty()) {
            return;
        }
        var nodes = new ArrayList<TestNode>();
        for (int i = 1; i <= count; i++) {
            nodes.add(start("node-" + i));
        }
        lifecycle.nodes(nodes);
    }

    private TestNode start(String name) throws Exception {
        var path = new NodePath(database);
        paths.add(path);
        STARTING.set(new Starting(name, database, path, lifecycle.tester().clock(), lifecycle::movedNanos));
        try {
            ApplicationContext context = ((SmartContextLoader) merged.getContextLoader()).loadContext(merged);
            contexts.add((ConfigurableApplicationContext) context);
            lifecycle.observe(context.getBean(WorkflowEngine.class));
            return new TestNode(name, context.getBean(NodeRuntime.class).node(), path, database, context::getBean);
        } finally {
            STARTING.remove();
        }
    }

    @Override
    public void destroy() {
        contexts.forEach(ConfigurableApplicationContext::close);
        paths.forEach(NodePath::close);
    }
}
