// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and changes the state of the cluster for the dashboard. Parameters have been checked by name and size. */
interface DashboardData {

    /**
     * Reads a resource or, with the parameter {@code id}, one of its entries. Blocks.
     *
     * @param values whether values of the application are shown
     */
    Result read(Resource resource, Map<String, String> parameters, boolean values);

    /**
     * Changes an entry of a resource, or all jobs of a query. Blocks.
     *
     * @param parameters texts, numbers and booleans by name
     */
    Result change(Resource resource, Map<String, Object> parameters, Operator operator);

    /**
     * The user who changes something.
     *
     * @param user the name
     * @param reason why; null if the user gave no reason
     * @param values whether values of the application are shown to the user
     */
    record Operator(String user, @Nullable String reason, boolean values) {}

    /**
     * The result of a read or a change.
     *
     * @param status an HTTP status
     * @param body is written as JSON
     */
    record Result(int status, Object body) {}
}
