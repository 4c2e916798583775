// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.internal.node.Node;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The leader roles of daemons for which this node is a candidate. The set always matches the candidates of the elector: a
 * role only in the set would never be won, and a role only in the elector would be won but never run. Thread-safe.
 */
final class DaemonCandidacy {

    private final Node node;
    private final Runnable onElection;
    private final ReentrantLock lock = new ReentrantLock();
    private final Set<String> roles = ConcurrentHashMap.newKeySet();
    private volatile boolean open;

    /** @param onElection called on the elector's thread when this node wins or loses a role; must not block */
    DaemonCandidacy(Node node, Runnable onElection) {
        this.node = node;
        this.onElection = onElection;
    }

    /** Returns the lock that guards candidacies and runs together. */
    ReentrantLock lock() {
        return lock;
    }

    /** Accepts new roles from now on. */
    void open() {
        open = true;
    }

    /** Accepts no new roles from now on. */
    void close() {
        lock.lock();
        try {
            open = false;
        } finally {
            lock.unlock();
        }
    }

    boolean isOpen() {
        return open;
    }

    /** Makes this node a candidate for the role; does nothing after {@link #close}. */
    void stand(String role) {
        lock.lock();
        try {
            if (open && roles.add(role)) {
                node.elector().join(role, onElection);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Ends the candidacy, and the leadership if this node holds it. */
    void withdraw(String role) {
        lock.lock();
        try {
            roles.remove(role);
            node.elector().leave(role);
        } finally {
            lock.unlock();
        }
        // Behind a pooler no session thread competes all the time.
        node.electSoon();
    }

    /** Ends the candidacy and lets the lease of the role expire, because the method is still running. */
    void abandon(String role) {
        lock.lock();
        try {
            roles.remove(role);
            node.elector().abandon(role);
        } finally {
            lock.unlock();
        }
    }

    /** Removes the role from the set only; {@link #withdraw} must follow under the same lock. */
    void remove(String role) {
        roles.remove(role);
    }

    boolean contains(String role) {
        return roles.contains(role);
    }

    List<String> roles() {
        return List.copyOf(roles);
    }
}
