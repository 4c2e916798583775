// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.Map;

/** Says what is missing in an application without Actuator. */
final class NoData implements DashboardData {

    static final String MISSING = "The dashboard reads the endpoint forgecluster: add spring-boot-starter-actuator";

    @Override
    public Result read(Resource resource, Map<String, String> parameters, boolean values) {
        throw new RefusedRequestException(503, "unavailable", MISSING);
    }

    @Override
    public Result change(Resource resource, Map<String, Object> parameters, Operator operator) {
        throw new RefusedRequestException(503, "unavailable", MISSING);
    }
}
