// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

/** The result of a call of {@link ClusterOperations}. */
public sealed interface OperationResult {

    /**
     * The call succeeded.
     *
     * @param descriptor what was read, or the state after the change: one of the descriptors of this package, such as {@link
     *     JobsDescriptor}
     */
    record Found(Object descriptor) implements OperationResult {}

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
