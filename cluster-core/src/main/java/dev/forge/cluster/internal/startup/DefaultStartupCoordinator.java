// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.startup;

import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.startup.StartupCoordinator;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.jspecify.annotations.Nullable;

/** {@link StartupCoordinator} on the cluster's locks and on the record of completed actions. */
public final class DefaultStartupCoordinator implements StartupCoordinator {

    private final ClusterLocks locks;
    private final Duration defaultTtl;
    private final @Nullable StartupActions actions;
    private final ConcurrentMap<String, ClusterLock> acquired = new ConcurrentHashMap<>();

    /** Creates a coordinator without {@link #once}. */
    public DefaultStartupCoordinator(ClusterLocks locks, Duration defaultTtl) {
        this(locks, defaultTtl, null);
    }

    public DefaultStartupCoordinator(ClusterLocks locks, Duration defaultTtl, @Nullable StartupActions actions) {
        this.locks = locks;
        this.defaultTtl = defaultTtl;
        this.actions = actions;
    }

    @Override
    public boolean once(String name, String version, Runnable action) {
        return actions != null
                ? actions.once(name, version, action)
                : StartupCoordinator.super.once(name, version, action);
    }

    @Override
    public boolean once(String name, String version, Duration patience, Runnable action) {
        return actions != null
                ? actions.once(name, version, patience, action)
                : StartupCoordinator.super.once(name, version, patience, action);
    }

    @Override
    public boolean tryAcquire(String action) {
        return tryAcquire(action, defaultTtl);
    }

    @Override
    public boolean tryAcquire(String action, Duration ttl) {
        Arguments.required("StartupCoordinator.tryAcquire", "action", action);
        Arguments.required("StartupCoordinator.tryAcquire", "ttl", ttl);
        Optional<ClusterLock> lock = locks.tryLock("startup:" + action, ttl);
        lock.ifPresent(taken -> acquired.put(action, taken));
        return lock.isPresent();
    }

    @Override
    public void release(String action) {
        Arguments.required("StartupCoordinator.release", "action", action);
        ClusterLock lock = acquired.remove(action);
        if (lock != null) {
            lock.close();
        }
    }
}
