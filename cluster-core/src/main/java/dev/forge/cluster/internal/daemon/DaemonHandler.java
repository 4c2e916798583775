package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.internal.node.NodeSettings.Presence;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * A daemon as its method declares it.
 *
 * @param instances how many there are in the cluster; 1 where every node has one
 */
public record DaemonHandler(
        String name, DaemonScope scope, int instances, Needs needs, Restarts restarts, Target target) {

    /**
     * What a node must be to run it.
     *
     * @param capability null: nothing in particular
     * @param up for how long it must have been up
     */
    public record Needs(NodeRole role, @Nullable String capability, Duration up) {}

    /**
     * When it is started again.
     *
     * @param delay before the first restart
     * @param most how many in a row; null: without limit
     * @param onReturn whether also when it returns
     */
    public record Restarts(Duration delay, @Nullable Integer most, boolean onReturn) {}

    /**
     * What runs.
     *
     * @param description where it is, for people
     */
    public record Target(Code code, String description) {}

    /** The method. */
    @FunctionalInterface
    public interface Code {

        /** Runs it; what it throws is its own exception, unwrapped. */
        void run(DaemonContext context) throws Throwable;
    }

    /** Whether such a node may run it. */
    boolean suits(Presence node) {
        return node.mode() != NodeMode.OBSERVER
                && node.roles().contains(needs.role)
                && (needs.capability == null || node.capabilities().contains(needs.capability));
    }
}
