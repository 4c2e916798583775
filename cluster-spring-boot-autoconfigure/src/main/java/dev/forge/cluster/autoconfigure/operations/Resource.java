// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

/** A kind of things that operators see and change, such as jobs. {@link ClusterOperations} has checked the parameters of requests. */
interface Resource {

    /** Returns the first segment of the paths of its requests. */
    String name();

    /** Returns the requests that it understands. */
    ResourceParameters parameters();

    /** Returns whether it bounds its readers itself, who must not wait for readers of other resources. */
    default boolean boundsReaders() {
        return false;
    }

    /** Reads the resource, or the entry that the path names. */
    OperationResult read(OperationRequest request);

    /** Changes the entry that the path names, or all that match the parameters. */
    default OperationResult change(OperationRequest request, String state) {
        return request.notFound();
    }
}
