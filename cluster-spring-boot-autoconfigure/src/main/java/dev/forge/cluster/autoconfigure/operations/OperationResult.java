// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The result of a call of {@link ClusterOperations}. */
public sealed interface OperationResult {

    /**
     * The call succeeded.
     *
     * @param body what was read, or the state after the change: the members of a JSON object, with values that any JSON library writes
     */
    record Found(Map<String, @Nullable Object> body) implements OperationResult {}

    /**
     * There is no such resource or entry.
     *
     * @param message names it
     */
    record NotFound(String message) implements OperationResult {}

    /**
     * The resource is not shown in this application.
     *
     * @param message gives the reason
     */
    record Denied(String message) implements OperationResult {}

    /**
     * Too many other calls read at the same time. Nothing was read.
     *
     * @param message says so
     */
    record Busy(String message) implements OperationResult {}
}
