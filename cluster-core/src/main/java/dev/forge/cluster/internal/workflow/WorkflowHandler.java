// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.WorkflowContext;
import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;

/**
 * The method of a version of a workflow.
 *
 * @param deprecated whether no new runs are started with this version
 * @param inputType null if the method takes no input
 * @param description names the method in messages
 */
public record WorkflowHandler(
        WorkflowVersion version,
        boolean deprecated,
        @Nullable Type inputType,
        Code code,
        String description) {

    /** Calls the method. */
    @FunctionalInterface
    public interface Code {

        /** Calls the method; throws its own exception, unwrapped. */
        @Nullable
        Object run(WorkflowContext context, @Nullable Object input) throws Throwable;
    }
}
