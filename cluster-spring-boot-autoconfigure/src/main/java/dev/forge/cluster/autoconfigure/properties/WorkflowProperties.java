package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * How workflows affect readiness, and how large a run may become.
 *
 * @param readinessInterval Pause between two looks for runs that this code cannot continue.
 * @param strandedScope Node: a run whose code this node lacks makes it unready; cluster: only one whose code no live
 *     node has.
 * @param maxPendingSignals How many signals of one run may wait to be consumed; further ones are rejected.
 * @param maxPendingSignalsSize How large the payloads of these signals may be altogether.
 * @param maxHistorySize How large the input and the recorded results of one run may be altogether; a run that exceeds
 *     it fails.
 */
public record WorkflowProperties(
        @DefaultValue("2s") Duration readinessInterval,
        @DefaultValue("node") StrandedScope strandedScope,
        @DefaultValue("1000") int maxPendingSignals,
        @DefaultValue("16MB") DataSize maxPendingSignalsSize,
        @DefaultValue("32MB") DataSize maxHistorySize) {

    private static final int MOST_SIGNALS = 100_000;
    private static final DataSize LARGEST = DataSize.ofMegabytes(512);

    public WorkflowProperties {
        positive("workflow.readiness-interval", readinessInterval);
        atLeast(1, "workflow.max-pending-signals", maxPendingSignals);
        require(
                maxPendingSignals <= MOST_SIGNALS,
                "workflow.max-pending-signals",
                maxPendingSignals,
                "must not exceed %d".formatted(MOST_SIGNALS));
        size("workflow.max-pending-signals-size", maxPendingSignalsSize);
        size("workflow.max-history-size", maxHistorySize);
    }

    private static void size(String key, DataSize value) {
        require(value.toBytes() > 0, key, value, "must be larger than zero");
        require(value.compareTo(LARGEST) <= 0, key, value, "must not exceed 512MB");
    }

    /** Who must have the code of a run. */
    public enum StrandedScope {
        /** This node. */
        NODE,
        /** Any live node. */
        CLUSTER
    }
}
