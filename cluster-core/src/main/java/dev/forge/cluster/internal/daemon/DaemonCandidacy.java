// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.internal.leader.Candidate;
import dev.forge.cluster.internal.runtime.Guard;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The leader roles of daemons for which this node is a candidate. The set always matches the candidates of the elector: a
 * role only in the set would never be won, and a role only in the elector would be won but never run. Thread-safe.
 */
final class DaemonCandidacy {

    private final Candidate candidate;
    private final Runnable onElection;
    private final Guard lock = new Guard();
    private final Set<String> roles = ConcurrentHashMap.newKeySet();
    private volatile boolean open;

    /** @param onElection called on the elector's thread when this node wins or loses a role; must not block */
    DaemonCandidacy(Candidate candidate, Runnable onElection) {
        this.candidate = candidate;
        this.onElection = onElection;
    }

    /** Returns the lock that guards candidacies and runs together. */
    Guard lock() {
        return lock;
    }

    /** Accepts new roles from now on. */
    void open() {
        open = true;
    }

    /** Accepts no new roles from now on. */
    void close() {
        lock.run(() -> {
            open = false;
        });
    }

    boolean isOpen() {
        return open;
    }

    /** Makes this node a candidate for the role; does nothing after {@link #close}. */
    void stand(String role) {
        lock.run(() -> {
            if (open && roles.add(role)) {
                candidate.elector().join(role, onElection);
            }
        });
    }

    /** Ends the candidacy, and the leadership if this node holds it. */
    void withdraw(String role) {
        lock.run(() -> {
            roles.remove(role);
            candidate.elector().leave(role);
        });
        // Behind a pooler no session thread competes all the time.
        candidate.electSoon();
    }

    /** Ends the candidacy and lets the lease of the role expire, because the method is still running. */
    void abandon(String role) {
        lock.run(() -> {
            roles.remove(role);
            candidate.elector().abandon(role);
        });
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
