// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonRun.Unwritten;
import dev.forge.cluster.internal.daemon.DaemonStore.Acquisition;
import dev.forge.cluster.internal.daemon.DaemonStore.ClusterView;
import dev.forge.cluster.internal.daemon.DaemonStore.Tenure;
import dev.forge.cluster.internal.database.NotificationChannel;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.node.Notifications;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Runs the daemons of this node.
 *
 * <p><b>Election.</b> Each instance of a daemon is a leader role. The {@link Elector} decides which node holds it: terms,
 * fences, and failover from nodes that were killed, frozen or cut off. {@link DaemonPlacement} decides for which roles this
 * node is a candidate, from a view of all daemons that is read every other second; the time of a failover does not depend
 * on it.
 *
 * <p><b>Start.</b> {@link DaemonSupervisor} calls a method when this node holds the term, no other node can still believe that
 * it does, and the thread of an earlier term has ended.
 *
 * <p><b>Stop.</b> If a term is lost, the method is asked to stop at once and interrupted a second later, which is before
 * another node may start it. If an instance is given up, the method is asked to stop, and the role is released when its
 * thread has ended, so that the successor need not wait. A method that ignores both keeps its role as long as the node lives.
 *
 * <p>The loop of the supervisor makes no database call; the keeping loop of this class makes all of them.
 */
public final class DaemonEngine implements NodeComponent {

    /** The notification that a daemon was paused or resumed. */
    static final String DAEMONS_CHANGED = "daemons";

    /** The prefix of daemons among the names of jobs and leader roles. */
    public static final ReservedPrefix RESERVED = new ReservedPrefix(DaemonStore.PREFIX, "daemons", "use another name");

    private static final Logger log = GuardedLogger.of(DaemonEngine.class);
    private static final Duration KEEP_INTERVAL = Duration.ofSeconds(1);
    private static final Duration IDLE_INTERVAL = Duration.ofHours(1);
    private static final Duration RELEASE_PATIENCE = Duration.ofSeconds(2);
    private static final int MAX_PURGE_BATCHES = 100;

    /**
     * Delays of the engine.
     *
     * @param viewInterval between two reads of all daemons
     * @param placement delays of the placement
     * @param recoveredAfter after this time, or ten restart delays if they are longer, a method that runs has recovered
     */
    record Timing(Duration viewInterval, DaemonPlacement.Delays placement, Duration recoveredAfter) {

        static final Timing DEFAULT = new Timing(
                Duration.ofMillis(1_500),
                new DaemonPlacement.Delays(Duration.ofSeconds(2), Duration.ofSeconds(10), Duration.ofSeconds(10)),
                Duration.ofMinutes(1));
    }

    private final Node node;
    private final Timing timing;
    private final DaemonHandlers handlers;
    private final DaemonStore store;
    private final DaemonStore membershipStore;
    private final Notifications notifications;
    private final DaemonCandidacy candidacy;
    private final DaemonSupervisor supervisor;
    private final DaemonPlacement placement;
    private final NodeLoop keeping = NodeLoop.upkeep("daemons", this::keepInterval, this::keep);

    private volatile boolean begun;
    private volatile long begunAt;
    private volatile long nextView;

    // Confined to the thread of the keeping loop.
    private final Set<String> registered = new HashSet<>();

    /** @param leadership fences the writes of daemons */
    public DaemonEngine(Node node, DaemonHandlers handlers, FencedLeadership leadership) {
        this(node, handlers, leadership, Timing.DEFAULT);
    }

    DaemonEngine(Node node, DaemonHandlers handlers, FencedLeadership leadership, Timing timing) {
        this.node = node;
        this.timing = timing;
        this.handlers = handlers;
        Node.Resources resources = node.resources();
        this.store = new DaemonStore(resources.schema(), resources.control());
        this.membershipStore =
                new DaemonStore(resources.schema(), resources.nodes().source());
        this.notifications = new Notifications(new NotificationChannel(resources.schema(), resources.control())::send);
        this.candidacy = new DaemonCandidacy(node, this::leadershipChanged);
        this.supervisor = new DaemonSupervisor(
                node, leadership, candidacy, new DaemonRestartPolicy(timing.recoveredAfter), keeping::wake);
        this.placement = new DaemonPlacement(node, candidacy, supervisor, timing.placement);
    }

    public Set<String> names() {
        return eligible().keySet();
    }

    private Map<String, DaemonHandler> eligible() {
        var eligible = new TreeMap<String, DaemonHandler>();
        handlers.all().stream()
                .filter(handler -> handler.suits(node.settings().presence()))
                .forEach(handler -> eligible.put(handler.name(), handler));
        return eligible;
    }

    private List<DaemonHandler> eligible(DaemonScope scope) {
        return eligible().values().stream()
                .filter(handler -> handler.scope() == scope)
                .toList();
    }

    DaemonCandidacy candidacy() {
        return candidacy;
    }

    DaemonSupervisor supervisor() {
        return supervisor;
    }

    // Component of the node ---------------------------------------------------------------------------------

    @Override
    public Collection<String> handlers() {
        return names().stream().map(name -> DaemonStore.PREFIX + name).toList();
    }

    /** Returns the number of instances of each daemon in this build; another build may declare more. */
    @Override
    public Map<String, String> facts() {
        var counts = new HashMap<String, String>();
        eligible(DaemonScope.CLUSTER)
                .forEach(handler ->
                        counts.put(DaemonStore.PREFIX + handler.name(), Integer.toString(handler.instances())));
        return counts;
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(supervisor.loop(), keeping, NodeLoop.cleanUp("clean-up-daemons", this::purge));
    }

    @Override
    public List<ReservedPrefix> reservedPrefixes() {
        return List.of(RESERVED);
    }

    @Override
    public Runnable releaseHeldByDead(UUID dead) {
        membershipStore.releaseAll(dead);
        return () -> {};
    }

    @Override
    public void releaseHeldByLeaving(UUID leaving) {
        membershipStore.releaseAll(leaving);
    }

    @Override
    public List<String> summary() {
        return names().isEmpty() ? List.of() : List.of("Daemons: " + names());
    }

    @Override
    public void begin() {
        long now = node.nanos();
        registered.clear();
        placement.reset();
        begunAt = now;
        nextView = now;
        supervisor.begin();
        candidacy.open();
        begun = true;
        keeping.wake();
    }

    @Override
    public void quiesce() {
        supervisor.quiesce();
    }

    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        return supervisor.awaitIdle(patience);
    }

    @Override
    public void release() {
        supervisor.interruptAll();
        try {
            // Methods that handle the interrupt end in an orderly way.
            supervisor.awaitIdle(RELEASE_PATIENCE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        supervisor.abandonRunning();
    }

    @Override
    public void end() {
        begun = false;
        supervisor.end();
    }

    @Override
    public void lost() {
        supervisor.loseAll();
    }

    @Override
    public void died(UUID dead) {
        supervisor.loop().wake();
        viewSoon();
    }

    // Called on the elector's thread: must not block.
    private void leadershipChanged() {
        supervisor.loop().wake();
        keeping.wake();
    }

    @Override
    public void heard(String news) {
        if (news.equals(DAEMONS_CHANGED)) {
            viewSoon();
        }
    }

    /** Tells all nodes that a daemon was paused or resumed. */
    void announce() {
        viewSoon();
        notifications.send(DAEMONS_CHANGED);
    }

    private void viewSoon() {
        nextView = node.nanos();
        keeping.wake();
    }

    // Keeping loop ------------------------------------------------------------------------------------------

    private Duration keepInterval() {
        return eligible().isEmpty() ? IDLE_INTERVAL : KEEP_INTERVAL;
    }

    /** Runs one pass: takes over instances that this node has won, writes rows, and places instances on nodes. */
    void keep() {
        UUID self = node.id();
        if (!begun || self == null) {
            return;
        }
        register();
        takeOverWonInstances(self);
        write();
        if (candidacy.isOpen() && node.nanos() - nextView >= 0) {
            long due = nextView;
            // Still due if it fails (a pass without it would look like a success), or if a notification comes
            // meanwhile.
            applyView(self);
            if (nextView == due) {
                nextView = node.nanos()
                        + node.pace().stretched(timing.viewInterval).toNanos();
            }
        }
    }

    private void register() {
        for (DaemonHandler handler : eligible(DaemonScope.CLUSTER)) {
            if (!registered.contains(handler.name())) {
                store.register(handler.name(), handler.instances());
                registered.add(handler.name());
            }
        }
    }

    private void takeOverWonInstances(UUID self) {
        for (DaemonHandler handler : eligible(DaemonScope.CLUSTER)) {
            for (int instance = 0; instance < handler.instances(); instance++) {
                String role = DaemonStore.role(handler.name(), instance);
                OptionalLong term = node.elector().term(role);
                DaemonRun present = supervisor.run(role);
                // A role without candidacy is about to be released.
                if (candidacy.contains(role)
                        && term.isPresent()
                        && (present == null || present.term() != term.getAsLong())) {
                    if (present != null) {
                        supervisor.lose(present, DaemonSupervisor.GRACE_AFTER_LOSS);
                    }
                    takeOver(handler, new Tenure(handler.name(), instance, self, term.getAsLong()));
                }
            }
        }
    }

    private void takeOver(DaemonHandler handler, Tenure tenure) {
        String role = DaemonStore.role(tenure.name(), tenure.instance());
        if (!candidacy.isOpen()) {
            candidacy.withdraw(role);
            return;
        }
        Acquisition acquisition = store.acquire(tenure);
        if (acquisition instanceof Acquisition.Acquired acquired) {
            supervisor.add(new DaemonRun(handler, tenure, acquired.restarts(), node, node.elector()));
        } else if (acquisition instanceof Acquisition.NotRunnable) {
            candidacy.withdraw(role);
        } else {
            log.debug("Daemon role {} term {}: term is over already", role, tenure.term());
        }
    }

    private void write() {
        List<Unwritten> unwritten = supervisor.unwritten();
        store.write(unwritten.stream().map(Unwritten::change).toList());
        supervisor.written(unwritten);
    }

    private void applyView(UUID self) {
        ClusterView view = store.clusterView(self);
        supervisor.runs().stream()
                .filter(run -> view.paused().contains(run.name()))
                .forEach(supervisor::giveUp);
        for (DaemonHandler handler : eligible(DaemonScope.NODE)) {
            keepOnThisNode(handler, view, self);
        }
        placement.place(
                eligible(DaemonScope.CLUSTER).stream()
                        .filter(this::isUpLongEnough)
                        .toList(),
                view,
                self);
    }

    /** Starts a daemon of scope NODE if it has to run, and keeps its row. */
    private void keepOnThisNode(DaemonHandler handler, ClusterView view, UUID self) {
        DaemonRun run = supervisor.run(DaemonRun.key(handler, 0));
        DaemonStatus row = view.ownStatus().get(handler.name());
        boolean startable = (run == null ? row == null || !DaemonSupervisor.isFinal(row) : isResumed(run, row))
                && isUpLongEnough(handler)
                && !view.paused().contains(handler.name());
        if (row != null && !startable) {
            return;
        }
        OptionalInt number = store.registerOnNode(handler.name(), self);
        if (number.isEmpty()) {
            // This node was declared dead; the first pass after it has joined again registers it.
            return;
        }
        var tenure = new Tenure(handler.name(), number.getAsInt(), self, 0);
        if (startable) {
            supervisor.add(new DaemonRun(handler, tenure, 0, node, node.elector()));
        } else if (run != null) {
            // This node has joined again under a new id.
            run.moveTo(tenure);
        }
    }

    /** Returns whether the daemon had ended and its row does not show that any more. */
    private static boolean isResumed(DaemonRun run, @Nullable DaemonStatus row) {
        return row != null
                && !DaemonSupervisor.isFinal(row)
                && DaemonSupervisor.isFinal(run.status())
                && run.unwritten() == null;
    }

    private boolean isUpLongEnough(DaemonHandler handler) {
        return node.nanos() - begunAt >= handler.needs().up().toNanos();
    }

    /** Deletes rows of daemons that no live node knows; one node does this for the cluster. */
    void purge() {
        // The next call deletes what is left after these batches.
        for (int i = 0; i < MAX_PURGE_BATCHES && store.purge() == DaemonStore.PURGE_BATCH; i++) {
            log.debug("Daemons: deleted {} rows of daemons that no live node knows", DaemonStore.PURGE_BATCH);
        }
    }
}
