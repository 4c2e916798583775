// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Pace;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;

/**
 * Decides when an election tries a role again whose term could not begin, because fenced writes held the role's row or
 * because the role has no further term. Used by the thread that takes the steps of an election.
 */
final class TermRetries {

    private static final Logger log = GuardedLogger.of(Elector.class);

    /** How long to wait for fenced writes in flight before a term begins; each further attempt waits twice as long. */
    private static final Duration FENCE_PATIENCE = Duration.ofMillis(200);
    /** How many attempts to get past fenced writes follow each other at once; later ones come after a pause. */
    private static final int ATTEMPTS_AT_ONCE = 3;

    private static final Duration PAUSE = Duration.ofSeconds(2);

    private final Pace pace;
    private final BlockedFences fences;
    /** How often in a row fenced writes kept a term of a free role from beginning. */
    private final Map<String, Integer> busyFences = new HashMap<>();
    /** Roles without a further term; each is logged once. */
    private final Set<String> withoutTerms = new HashSet<>();

    private final Map<String, Long> pausedUntil = new HashMap<>();

    TermRetries(Pace pace, BlockedFences fences) {
        this.pace = pace;
        this.fences = fences;
    }

    /** Removes roles that are not to be tried yet. */
    void removePaused(Set<String> roles) {
        pausedUntil.values().removeIf(until -> pace.nanos() - until >= 0);
        roles.removeAll(pausedUntil.keySet());
    }

    /** Forgets failures of roles that were looked at and have a leader. */
    void forgetLed(Set<String> roles, Set<String> withoutLeader) {
        busyFences.keySet().removeIf(role -> roles.contains(role) && !withoutLeader.contains(role));
    }

    /** Orders roles so that those with a busy fence come last: they would use up the time of the others in every pass. */
    List<String> ordered(Set<String> roles) {
        return roles.stream()
                .sorted(Comparator.comparing((String role) -> busyFences.getOrDefault(role, 0))
                        .thenComparing(Comparator.naturalOrder()))
                .toList();
    }

    /**
     * Returns how long to wait for fenced writes of a role. They take longer to commit on a busy machine, but the wait must
     * not delay the next renewal.
     */
    Duration fencePatience(String role, long nextRenewal) {
        int failures = busyFences.getOrDefault(role, 0);
        if (failures >= ATTEMPTS_AT_ONCE) {
            return FENCE_PATIENCE;
        }
        Duration wanted = FENCE_PATIENCE.multipliedBy(1L << failures);
        Duration untilRenewal = Duration.ofNanos(nextRenewal - pace.nanos());
        Duration possible = wanted.compareTo(untilRenewal) < 0 ? wanted : untilRenewal;
        return possible.compareTo(FENCE_PATIENCE) < 0 ? FENCE_PATIENCE : possible;
    }

    void begun(String role) {
        busyFences.remove(role);
        withoutTerms.remove(role);
        fences.free(role);
    }

    /** Returns whether to try the role again at once. */
    boolean fenceWasBusy(String role) {
        if (busyFences.merge(role, 1, Integer::sum) < ATTEMPTS_AT_ONCE) {
            return true;
        }
        fences.blocked(role);
        pause(role);
        return false;
    }

    void noTermLeft(String role) {
        if (withoutTerms.add(role)) {
            log.error(
                    "Role {}: no node can lead it, because current_term of its row in forge_leaders is {}, the last possible term."
                            + " Only SQL can have written that. Set current_term back to the number of the last real term.",
                    role,
                    ElectionStore.LAST_TERM);
        }
        pause(role);
    }

    private void pause(String role) {
        pausedUntil.put(role, pace.nanos() + PAUSE.toNanos());
    }
}
