// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.springframework.dao.CannotAcquireLockException;

/**
 * Records which fences this node could not take in time because another session holds the leader's row locked, and since when.
 * A fence counts as free again once it was taken, or when it was not tried for a minute.
 */
public final class BlockedFences {

    private static final Logger log = GuardedLogger.of(BlockedFences.class);
    private static final Duration FORGET_AFTER = Duration.ofMinutes(1);

    private final InstantSource clock;
    private final LongSupplier nanos;
    private final ConcurrentMap<String, Blocked> blocked = new ConcurrentHashMap<>();

    private record Blocked(Instant since, long lastTry) {}

    public BlockedFences(InstantSource clock, LongSupplier nanos) {
        this.clock = clock;
        this.nanos = nanos;
    }

    /** Takes the fence of a term as {@link LeaderStore#fence} does, and records whether it could be taken in time. */
    public boolean take(LeaderStore leaders, String role, UUID node, long term) {
        boolean current;
        try {
            current = leaders.fence(role, node, term);
        } catch (CannotAcquireLockException e) {
            blocked(role);
            throw e;
        }
        free(role);
        return current;
    }

    void blocked(String role) {
        long now = nanos.getAsLong();
        Blocked former = blocked.get(role);
        if (former != null && !isForgotten(former, now)) {
            blocked.put(role, new Blocked(former.since, now));
        } else {
            blocked.put(role, new Blocked(clock.instant(), now));
            log.warn(
                    "Role {}: another session holds its row in forge_leaders locked. Fenced writes and elections of this"
                            + " role fail until that session ends its transaction; they are retried. See pg_locks.",
                    role);
        }
    }

    void free(String role) {
        if (!blocked.isEmpty() && blocked.remove(role) != null) {
            log.info("Role {}: its row in forge_leaders is free again", role);
        }
    }

    /** Returns the roles, each with the time since when its fence could not be taken. */
    public Map<String, Instant> byRole() {
        long now = nanos.getAsLong();
        var roles = new TreeMap<String, Instant>();
        blocked.forEach((role, state) -> {
            if (!isForgotten(state, now)) {
                roles.put(role, state.since);
            }
        });
        return roles;
    }

    private static boolean isForgotten(Blocked state, long now) {
        return now - state.lastTry > FORGET_AFTER.toNanos();
    }
}
