package dev.forge.cluster.internal.lock;

import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.lock.ClusterLocks;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;

/** {@link ClusterLocks} on {@code forge_locks}. */
public final class DefaultClusterLocks implements ClusterLocks {

    private static final Duration SHORTEST = Duration.ofMillis(1);
    private static final Duration LONGEST = Duration.ofDays(36_525);

    private final Node node;
    private final LockStore locks;
    private final Duration defaultLease;

    public DefaultClusterLocks(Node node, LockStore locks, Duration defaultLease) {
        this.node = node;
        this.locks = locks;
        this.defaultLease = defaultLease;
    }

    @Override
    public Optional<ClusterLock> tryLock(String name) {
        return tryLock(name, defaultLease);
    }

    @Override
    public Optional<ClusterLock> tryLock(String name, Duration lease) {
        Arguments.required("ClusterLocks.tryLock", "name", name);
        Arguments.required("ClusterLocks.tryLock", "lease", lease);
        Names.require("lock name", name);
        requireStorable(lease);
        OptionalLong token = locks.take(name, node.requireMutable(), lease);
        return token.isPresent() ? Optional.of(new Taken(name, token.getAsLong())) : Optional.empty();
    }

    private static void requireStorable(Duration lease) {
        if (lease.compareTo(SHORTEST) < 0 || lease.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "lease (%s) must be between one millisecond and a hundred years".formatted(lease));
        }
    }

    private final class Taken implements ClusterLock {

        private final String name;
        private final long token;

        Taken(String name, long token) {
            this.name = name;
            this.token = token;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public long token() {
            return token;
        }

        @Override
        public boolean extend(Duration lease) {
            Arguments.required("ClusterLock.extend", "lease", lease);
            requireStorable(lease);
            return locks.extend(name, token, lease);
        }

        @Override
        public void close() {
            locks.release(name, token);
        }

        @Override
        public String toString() {
            return "ClusterLock[%s, token %d]".formatted(name, token);
        }
    }
}
