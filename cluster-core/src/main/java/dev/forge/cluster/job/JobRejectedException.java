// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.ClusterException;
import org.jspecify.annotations.Nullable;

/** Thrown when a job cannot be enqueued, cancelled or retried. Nothing was written. The message says why. */
public class JobRejectedException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public JobRejectedException(String message) {
        super(message);
    }

    public JobRejectedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
