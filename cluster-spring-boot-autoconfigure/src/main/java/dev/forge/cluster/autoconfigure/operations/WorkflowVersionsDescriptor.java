// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.util.List;

/**
 * Versions of workflows with runs in flight, as the resource {@code workflow-versions} returns them.
 *
 * @param versions the versions, by name and version
 * @param cutOff whether there are more
 */
public record WorkflowVersionsDescriptor(List<VersionDescriptor> versions, boolean cutOff) {

    /**
     * A version of a workflow.
     *
     * @param name the workflow
     * @param version the version
     * @param inFlight the number of runs that have not ended; 10,000 in one status means that many or more
     * @param blocked how many of these are blocked: their version is missing, or the method does not match their history
     * @param mismatched how many of the blocked runs are so because the method does not match their history
     * @param stranded whether no live node has this version
     */
    public record VersionDescriptor(
            String name, String version, long inFlight, long blocked, long mismatched, boolean stranded) {}
}
