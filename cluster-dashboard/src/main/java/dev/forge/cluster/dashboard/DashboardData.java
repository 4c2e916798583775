// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Reads and changes the state of the cluster for the dashboard. Paths have a resource, then perhaps the name or id of an entry. */
interface DashboardData {

    /** Returns the names of all resources. */
    Set<String> resources();

    /** Returns the names of the parameters of a read; empty if there is nothing to read. */
    Optional<Set<String>> readParameters(List<String> path);

    /** Returns the names of the parameters of a change; empty if there is nothing to change. */
    Optional<Set<String>> changeParameters(List<String> path);

    /**
     * Reads a resource or an entry. Blocks.
     *
     * @param values whether values of the application are shown
     * @return what is written as JSON
     * @throws RefusedRequestException if there is no such entry, or if a parameter is invalid
     */
    Object read(List<String> path, Map<String, String> parameters, boolean values);

    /**
     * Changes an entry, or all jobs of a query. Blocks.
     *
     * @return what is written as JSON
     * @throws RefusedRequestException if the change is not possible
     */
    Object change(List<String> path, String state, Map<String, String> parameters, Author author);

    /**
     * The user who changes something.
     *
     * @param user the name
     * @param address the network address; null: unknown
     * @param values whether values of the application are shown to the user
     */
    record Author(@Nullable String user, @Nullable String address, boolean values) {}
}
