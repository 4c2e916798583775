package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.job.JobStore.Recovered;
import dev.forge.cluster.internal.runtime.Loop;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Supplier;

/** Something that a node does besides being a member: jobs, daemons. It comes to an end before the node leaves. */
public interface NodeComponent {

    /**
     * A loop that it wants to have run while the node is a member.
     *
     * @param patience how long a pass may take
     */
    record Duty(String name, Supplier<Duration> pause, Runnable pass, Duration patience) {
        public Duty(String name, Supplier<Duration> pause, Runnable pass) {
            this(name, pause, pass, Loop.PASS_PATIENCE);
        }
    }

    /** What it knows how to do; the others see these names. */
    default Collection<String> handlers() {
        return List.of();
    }

    /** What else the others should know; in the node's {@code info}. */
    default Map<String, String> facts() {
        return Map.of();
    }

    /** Run from the start of the node to its end: while it drains, too. */
    default List<Duty> duties() {
        return List.of();
    }

    /** How many things it is at. */
    default int load() {
        return 0;
    }

    /** How many it could be at. */
    default int slots() {
        return 0;
    }

    /** Threads of its own that should have done something long ago, by name. */
    default List<String> stuck() {
        return List.of();
    }

    /** The node has joined and is active. */
    default void begin() {}

    /** Takes nothing new from now on. */
    void quiesce();

    /** Waits for what is under way; false if some of it still is after that time. */
    boolean awaitIdle(Duration patience) throws InterruptedException;

    /** Interrupts what is left and gives it back. */
    void release();

    /** The node is no longer a member. */
    default void end() throws InterruptedException {}

    /** The membership under which it held things is over: they are others' now. */
    default void lost() {}

    /** Something came back that a dead node held. */
    default void died(UUID node) {}

    /** These are the jobs that came back when this node declared another one dead. */
    default void returned(List<Recovered> jobs) {}

    /** This node was elected to a role of a daemon, or has lost it; on the session's thread, nothing here may wait. */
    default void leadershipChanged(String role) {}

    /** Another node has said something that is not about leadership. */
    default void heard(String news) {}
}
