// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

import dev.forge.cluster.ClusterException;
import org.jspecify.annotations.Nullable;

/** Thrown when a cron cannot be created, changed, deleted or triggered. Nothing was written. The message says why. */
public class CronRejectedException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public CronRejectedException(String message) {
        super(message);
    }

    public CronRejectedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
