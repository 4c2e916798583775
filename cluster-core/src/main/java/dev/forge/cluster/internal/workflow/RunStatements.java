package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.runtime.Coalescer;
import dev.forge.cluster.internal.workflow.WorkflowStore.Claim;
import dev.forge.cluster.internal.workflow.WorkflowStore.End;
import dev.forge.cluster.internal.workflow.WorkflowStore.Loaded;
import dev.forge.cluster.internal.workflow.WorkflowStore.Written;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * What every run does again and again, together with the other runs of this node that do it at the same moment. Whatever
 * stands in a run's way (a lost claim, a row that somebody has locked, a value that cannot be stored) leaves it out of what is
 * done together; then it acts alone, and waits, or learns what it is.
 */
final class RunStatements {

    private static final int MOST = 100;
    /** Characters of results that a run writes alone. */
    private static final int LARGE = 100_000;

    private final WorkflowStore alone;
    private final Coalescer<Claim, Claim, Loaded> loads;
    private final Coalescer<Claim, List<StepRow>, Written> memories;
    private final Coalescer<Claim, End, Written> ends;

    RunStatements(WorkflowStore alone, WorkflowBatches together) {
        this.alone = alone;
        this.loads = new Coalescer<>(MOST, claims -> together.load(claims.keySet()));
        this.memories = new Coalescer<>(MOST, together::remember);
        this.ends = new Coalescer<>(MOST, together::end);
    }

    Optional<Loaded> load(Claim claim) {
        Loaded loaded = loads.ask(claim, claim);
        return loaded != null ? Optional.of(loaded) : alone.load(claim);
    }

    /** In the transaction that runs, or else at once. */
    Written remember(Claim claim, List<StepRow> rows, @Nullable UUID signal) {
        if (signal != null || alone.joinsTransaction() || isLarge(rows, null)) {
            return alone.remember(claim, rows, signal);
        }
        Written written = memories.ask(claim, rows);
        return written != null ? written : alone.remember(claim, rows, null);
    }

    Written end(Claim claim, End end) {
        Written written = isLarge(end.rows(), end.result()) ? null : ends.ask(claim, end);
        return written != null ? written : alone.end(claim, end);
    }

    /** Together they must not make a statement that is larger than anybody can take. */
    private static boolean isLarge(List<StepRow> rows, @Nullable String result) {
        long length = result == null ? 0 : result.length();
        for (StepRow row : rows) {
            String text = row.result();
            length += text == null ? 0 : text.length();
        }
        return length > LARGE;
    }
}
