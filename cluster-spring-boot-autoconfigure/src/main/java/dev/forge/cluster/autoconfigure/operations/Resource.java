// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

/** A kind of things that operators see and change, such as jobs. {@link ClusterOperations} has checked the parameters of requests. */
public abstract class Resource {

    private final String name;
    private final ResourceParameters parameters;

    /**
     * Creates a resource.
     *
     * @param name the first segment of the paths of its requests
     * @param parameters the requests that it understands
     */
    protected Resource(String name, ResourceParameters parameters) {
        this.name = name;
        this.parameters = parameters;
    }

    final String name() {
        return name;
    }

    final ResourceParameters parameters() {
        return parameters;
    }

    /** Returns whether it bounds its readers itself, who must not wait for readers of other resources. */
    protected boolean boundsReaders() {
        return false;
    }

    /** Reads the resource, or the entry that the path names. */
    protected abstract OperationResult read(OperationRequest request);

    /** Changes the entry that the path names, or all that match the parameters. */
    protected OperationResult change(OperationRequest request, String state) {
        return request.notFound();
    }
}
