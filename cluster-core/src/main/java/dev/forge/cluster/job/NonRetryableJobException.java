// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.ClusterException;
import org.jspecify.annotations.Nullable;

/** Thrown by a handler to fail its job permanently, without further attempts. */
public class NonRetryableJobException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public NonRetryableJobException(String message) {
        super(message);
    }

    public NonRetryableJobException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
