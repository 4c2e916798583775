// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

import org.jspecify.annotations.Nullable;

/**
 * Root of the exceptions that the cluster throws. Failures of the database keep Spring's {@code DataAccessException} and {@code
 * TransactionException} types. A null argument or an option out of range is an {@link IllegalArgumentException}; what only the
 * cluster can decide, such as whether a handler exists, is an exception of this type.
 */
public abstract class ClusterException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    protected ClusterException(String message) {
        super(message);
    }

    protected ClusterException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /** Creates an exception without a stack trace, for failures that occur in large numbers. */
    protected ClusterException(String message, @Nullable Throwable cause, boolean withStackTrace) {
        super(message, cause, withStackTrace, withStackTrace);
    }
}
