package dev.forge.cluster.daemon;

import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A daemon as it stands in the database.
 *
 * @param paused whether an operator keeps it from running
 * @param candidates names of the active nodes that may run it
 */
public record DaemonInfo(
        String name, DaemonScope scope, boolean paused, List<String> candidates, List<Instance> instances) {

    /**
     * One of its instances.
     *
     * @param nodeId the node that has it; null if none does
     * @param nodeName that node's name
     * @param term the last one in which it was run; 0 where nobody is elected
     * @param startedAt when its method was last started
     * @param restarts how often its method was started again, since a node that has it started or an operator resumed it
     * @param lastError what it last threw; forgotten once it has run for a minute, or ten delays if that is longer
     * @param note what it last said
     */
    public record Instance(
            int number,
            DaemonStatus status,
            @Nullable UUID nodeId,
            @Nullable String nodeName,
            long term,
            @Nullable Instant startedAt,
            int restarts,
            @Nullable String lastError,
            @Nullable String note) {}
}
