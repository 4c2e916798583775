// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.ClusterException;
import dev.forge.cluster.job.observe.JobListener;
import org.jspecify.annotations.Nullable;

/** The failure of an attempt that exceeded its timeout, as {@link JobListener}s and {@code lastError} show it. */
public class JobTimeoutException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public JobTimeoutException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
