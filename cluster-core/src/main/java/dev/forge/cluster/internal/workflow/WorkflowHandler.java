package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.workflow.WorkflowStore.Version;
import dev.forge.cluster.workflow.WorkflowContext;
import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;

/**
 * A version of a workflow as its method declares it.
 *
 * @param deprecated no new runs
 * @param inputType null: it takes none
 * @param description where it is, for people
 */
public record WorkflowHandler(
        Version version, boolean deprecated, @Nullable Type inputType, Code code, String description) {

    /** The method. */
    @FunctionalInterface
    public interface Code {

        /** Runs it; what it throws is its own exception, unwrapped. */
        @Nullable
        Object run(WorkflowContext context, @Nullable Object input) throws Throwable;
    }
}
