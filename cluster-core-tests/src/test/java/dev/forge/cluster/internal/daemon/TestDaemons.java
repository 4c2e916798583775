// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.daemon.AbstractDaemonTests.await;

import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;

/** Nodes that run daemons on one database; closing stops those that still run. */
public final class TestDaemons implements AutoCloseable {

    public final TestCluster cluster;
    DaemonEngine.Timing timing = new DaemonEngine.Timing(
            Duration.ofMillis(300),
            new DaemonPlacement.Delays(Duration.ofMillis(500), Duration.ofSeconds(1), Duration.ofSeconds(2)),
            Duration.ofMinutes(1));
    private final List<DaemonNode> started = new ArrayList<>();

    public TestDaemons(TestDatabase database) {
        this.cluster = new TestCluster(database);
    }

    /** A node that runs daemons. */
    record DaemonNode(Member member, DaemonEngine engine, DefaultDaemons daemons) {

        Node node() {
            return member.node();
        }

        void stop() {
            member.stop();
        }
    }

    public DaemonNode start(String name, DaemonHandler... handlers) {
        return start(name, cluster.database.newSessions(), s -> s, handlers);
    }

    public DaemonNode start(String name, UnaryOperator<NodeSettings> change, DaemonHandler... handlers) {
        return start(name, cluster.database.newSessions(), change, handlers);
    }

    public DaemonNode start(
            String name, DataSource direct, UnaryOperator<NodeSettings> change, DaemonHandler... handlers) {
        DaemonNode created = create(name, direct, change, handlers);
        created.node().start();
        return created;
    }

    DaemonNode create(String name, DataSource direct, UnaryOperator<NodeSettings> change, DaemonHandler... handlers) {
        Member member = cluster.create(name, direct, s -> change.apply(TestNodes.steady(s)));
        var registry = new DaemonHandlers();
        List.of(handlers).forEach(registry::add);
        var engine = new DaemonEngine(member.node(), registry, member.leadership(), timing);
        member.node().components().register(engine);
        var store = new DaemonStore(cluster.schema, member.control().shared());
        var created = new DaemonNode(member, engine, new DefaultDaemons(member.node(), engine, store));
        started.add(created);
        return created;
    }

    /** Waits for the row of an instance and returns it. */
    DaemonInfo.Instance instance(String name, int number) {
        return await().until(
                        () -> infos(name).stream()
                                .flatMap(info -> info.instances().stream())
                                .filter(instance -> instance.number() == number)
                                .findFirst(),
                        Optional::isPresent)
                .orElseThrow();
    }

    DaemonInfo info(String name) {
        return await().until(() -> infos(name), infos -> !infos.isEmpty()).get(0);
    }

    private List<DaemonInfo> infos(String name) {
        return new DaemonStore(cluster.schema, cluster.database.dataSource())
                .reports()
                .list(name);
    }

    @Override
    public void close() {
        started.forEach(DaemonNode::stop);
        cluster.close();
    }

    /** The declaration of a test daemon without its method. */
    public record Declared(
            String name, DaemonScope scope, int instances, DaemonHandler.Needs needs, DaemonHandler.Restarts restarts) {

        Declared everywhere() {
            return new Declared(name, DaemonScope.NODE, 1, needs, restarts);
        }

        Declared instances(int count) {
            return new Declared(name, scope, count, needs, restarts);
        }

        Declared needs(NodeRole role, String capability) {
            return new Declared(
                    name, scope, instances, new DaemonHandler.Needs(role, capability, needs.up()), restarts);
        }

        Declared upFor(Duration up) {
            return new Declared(
                    name, scope, instances, new DaemonHandler.Needs(needs.role(), needs.capability(), up), restarts);
        }

        Declared restarts(Duration delay, Integer most) {
            return new Declared(
                    name, scope, instances, needs, new DaemonHandler.Restarts(delay, most, restarts.onReturn()));
        }

        Declared again() {
            return new Declared(
                    name, scope, instances, needs, new DaemonHandler.Restarts(restarts.delay(), restarts.most(), true));
        }

        public DaemonHandler running(DaemonHandler.Code code) {
            return new DaemonHandler(
                    name, scope, instances, needs, restarts, new DaemonHandler.Target(code, "test " + name));
        }
    }

    public static Declared daemon(String name) {
        return new Declared(
                name,
                DaemonScope.CLUSTER,
                1,
                new DaemonHandler.Needs(NodeRole.WORKER, null, Duration.ZERO),
                new DaemonHandler.Restarts(Duration.ofMillis(20), null, false));
    }

    /** A method that waits until it is stopped, and records its calls and how many ran at once. */
    static final class Feed implements DaemonHandler.Code {

        /** One call of the method. */
        record Call(String node, int instance, long term, long startedAt, AtomicInteger ended) {}

        final List<Call> calls = new CopyOnWriteArrayList<>();
        final AtomicInteger running = new AtomicInteger();
        final AtomicInteger most = new AtomicInteger();
        volatile long lastEnd;
        volatile DaemonContext last;

        @Override
        public void run(DaemonContext context) throws Exception {
            most.accumulateAndGet(running.incrementAndGet(), Math::max);
            var call = new Call(
                    context.nodeName(), context.instance(), context.term(), System.nanoTime(), new AtomicInteger());
            last = context;
            calls.add(call);
            try {
                while (!context.awaitStop(Duration.ofSeconds(1))) {
                    context.note("call " + calls.size());
                }
            } finally {
                lastEnd = System.nanoTime();
                running.decrementAndGet();
                call.ended.incrementAndGet();
            }
        }

        String node() {
            return calls.isEmpty() ? "" : calls.get(calls.size() - 1).node;
        }

        boolean isRunning() {
            // node() must be valid when this returns true.
            return running.get() > 0
                    && !calls.isEmpty()
                    && calls.get(calls.size() - 1).ended.get() == 0;
        }
    }
}
