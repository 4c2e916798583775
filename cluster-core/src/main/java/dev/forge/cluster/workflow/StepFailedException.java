// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import dev.forge.cluster.ClusterException;
import org.jspecify.annotations.Nullable;

/**
 * Thrown when a step of a workflow has failed permanently. The failure is recorded like a result, so every replay throws it
 * again. The message names the exception of the step; there is no cause, since only the first of these exceptions could have one.
 * If the method does not catch the exception, the run compensates its steps.
 */
public class StepFailedException extends ClusterException {

    private static final long serialVersionUID = 1L;

    private final String step;

    public StepFailedException(String step, @Nullable String message) {
        super("Step '%s' failed: %s".formatted(step, message));
        this.step = step;
    }

    /** Returns the name of the step. */
    public String step() {
        return step;
    }
}
