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

/** {@link StartupCoordinator} on the cluster's locks and on the record of completed actions. */
public final class DefaultStartupCoordinator implements StartupCoordinator {

    private final ClusterLocks locks;
    private final Duration leaseDuration;
    private final StartupActions actions;
    private final ConcurrentMap<String, ClusterLock> acquired = new ConcurrentHashMap<>();

    public DefaultStartupCoordinator(ClusterLocks locks, Duration leaseDuration, StartupActions actions) {
        this.locks = locks;
        this.leaseDuration = leaseDuration;
        this.actions = actions;
    }

    @Override
    public boolean once(String name, String version, Runnable action) {
        required(name, version, action);
        return actions.once(name, version, action);
    }

    @Override
    public boolean once(String name, String version, Duration timeout, Runnable action) {
        required(name, version, action);
        Arguments.required("StartupCoordinator.once", "timeout", timeout);
        return actions.once(name, version, timeout, action);
    }

    private static void required(String name, String version, Runnable action) {
        Arguments.required("StartupCoordinator.once", "name", name);
        Arguments.required("StartupCoordinator.once", "version", version);
        Arguments.required("StartupCoordinator.once", "action", action);
    }

    @Override
    public boolean tryAcquire(String action) {
        return tryAcquire(action, leaseDuration);
    }

    @Override
    public boolean tryAcquire(String action, Duration timeToLive) {
        Arguments.required("StartupCoordinator.tryAcquire", "action", action);
        Arguments.required("StartupCoordinator.tryAcquire", "timeToLive", timeToLive);
        Optional<ClusterLock> lock = locks.tryLock("startup:" + action, timeToLive);
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
