// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.SecurityContext;
import org.springframework.boot.actuate.endpoint.web.AdditionalPathsMapper;
import org.springframework.boot.actuate.endpoint.web.WebServerNamespace;
import org.springframework.boot.health.actuate.endpoint.AdditionalHealthEndpointPath;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroup;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroups;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroupsPostProcessor;
import org.springframework.boot.health.actuate.endpoint.HttpCodeStatusMapper;
import org.springframework.boot.health.actuate.endpoint.StatusAggregator;

/**
 * Adds the health of the cluster to the readiness group. While workflow runs are stranded, the group consists of the workflows
 * component alone and shows it to every user: a deployment tool must see why the node is not ready, and nothing else.
 */
final class ReadinessMembership implements HealthEndpointGroupsPostProcessor {

    private static final String READINESS = "readiness";

    private final String member;
    private final BooleanSupplier stranded;

    ReadinessMembership(String member, BooleanSupplier stranded) {
        this.member = member;
        this.stranded = stranded;
    }

    @Override
    public HealthEndpointGroups postProcessHealthEndpointGroups(HealthEndpointGroups groups) {
        HealthEndpointGroup readiness = groups.get(READINESS);
        return readiness == null ? groups : new Groups(groups, new Group(readiness, member, stranded));
    }

    private record Groups(HealthEndpointGroups delegate, HealthEndpointGroup readiness)
            implements HealthEndpointGroups, AdditionalPathsMapper {

        // Spring Boot casts the groups to a mapper of additional paths, for example to configure Spring Security.
        @Override
        public @Nullable List<String> getAdditionalPaths(EndpointId endpoint, WebServerNamespace namespace) {
            return delegate instanceof AdditionalPathsMapper mapper
                    ? mapper.getAdditionalPaths(endpoint, namespace)
                    : null;
        }

        @Override
        public HealthEndpointGroup getPrimary() {
            return delegate.getPrimary();
        }

        @Override
        public Set<String> getNames() {
            return delegate.getNames();
        }

        @Override
        public @Nullable HealthEndpointGroup get(String name) {
            return READINESS.equals(name) ? readiness : delegate.get(name);
        }
    }

    private record Group(HealthEndpointGroup delegate, String member, BooleanSupplier stranded)
            implements HealthEndpointGroup {

        @Override
        public boolean isMember(String name) {
            if (stranded.getAsBoolean()) {
                return name.equals(member) || name.equals(member + "/" + ClusterHealth.WORKFLOWS);
            }
            if (name.equals(member + "/" + ClusterHealth.FENCES)) {
                return false;
            }
            return name.equals(member) || name.startsWith(member + "/") || delegate.isMember(name);
        }

        @Override
        public boolean showComponents(SecurityContext securityContext) {
            return stranded.getAsBoolean() || delegate.showComponents(securityContext);
        }

        @Override
        public boolean showDetails(SecurityContext securityContext) {
            return stranded.getAsBoolean() || delegate.showDetails(securityContext);
        }

        @Override
        public StatusAggregator getStatusAggregator() {
            return delegate.getStatusAggregator();
        }

        @Override
        public HttpCodeStatusMapper getHttpCodeStatusMapper() {
            return delegate.getHttpCodeStatusMapper();
        }

        @Override
        public @Nullable AdditionalHealthEndpointPath getAdditionalPath() {
            return delegate.getAdditionalPath();
        }
    }
}
