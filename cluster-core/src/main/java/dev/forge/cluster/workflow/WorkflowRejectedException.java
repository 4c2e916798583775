// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import dev.forge.cluster.ClusterException;
import org.jspecify.annotations.Nullable;

/** Thrown when a workflow cannot be started, or a run cannot be changed or exported. Nothing was written. The message says why. */
public class WorkflowRejectedException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public WorkflowRejectedException(String message) {
        super(message);
    }

    public WorkflowRejectedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
