// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.node.Node.State;
import java.util.concurrent.atomic.AtomicReference;

/** The state of a node, and whether it is about to change. */
final class NodeState {

    private final AtomicReference<State> state = new AtomicReference<>(State.STOPPED);
    private volatile boolean stopping;
    private volatile boolean leaving;

    State get() {
        return state.get();
    }

    boolean isRunning() {
        return state.get() == State.RUNNING;
    }

    void joined() {
        state.set(State.RUNNING);
    }

    /** Returns false if the node does not run, for example because it drains already. */
    boolean beginDrain() {
        return state.compareAndSet(State.RUNNING, State.DRAINING);
    }

    /** The node will stop: a lost database has no consequences any more. */
    void stopping() {
        stopping = true;
    }

    boolean isStopping() {
        return stopping;
    }

    /** The node gives up its membership: no rejoin begins after this. */
    void leaving() {
        leaving = true;
    }

    boolean mayRejoin() {
        return !leaving && state.get() != State.STOPPED;
    }

    void left() {
        state.set(State.STOPPED);
        leaving = false;
    }

    void stopped() {
        leaving = false;
        stopping = false;
    }
}
