// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

/**
 * Thrown if a parameter is unknown or invalid, or if a change is not possible in the present state. Nothing was changed. The message
 * names the parameter and its value, or the entry and its state; it is meant for the caller.
 */
public class InvalidOperationException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /** @param message names the parameter and its value, or the entry and its state */
    public InvalidOperationException(String message) {
        super(message);
    }

    private InvalidOperationException(String message, RuntimeException cause) {
        super(message, cause);
    }

    /** Returns the exception for a call that the API has refused, with the reason that the API gave. */
    public static InvalidOperationException because(RuntimeException reason) {
        return new InvalidOperationException(String.valueOf(reason.getMessage()), reason);
    }
}
