package dev.forge.cluster.autoconfigure;

import java.util.List;
import java.util.Set;
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

/** Makes the cluster's health part of readiness, without any property of the application. */
final class ReadinessMembership implements HealthEndpointGroupsPostProcessor {

    private static final String READINESS = "readiness";

    private final String member;

    ReadinessMembership(String member) {
        this.member = member;
    }

    @Override
    public HealthEndpointGroups postProcessHealthEndpointGroups(HealthEndpointGroups groups) {
        HealthEndpointGroup readiness = groups.get(READINESS);
        return readiness == null ? groups : new Groups(groups, new Group(readiness, member));
    }

    private record Groups(HealthEndpointGroups delegate, HealthEndpointGroup readiness)
            implements HealthEndpointGroups, AdditionalPathsMapper {

        // Whoever asks for the mapped paths (Spring Security does) takes the groups for a mapper of theirs.
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

    private record Group(HealthEndpointGroup delegate, String member) implements HealthEndpointGroup {

        @Override
        public boolean isMember(String name) {
            return name.equals(member) || name.startsWith(member + "/") || delegate.isMember(name);
        }

        @Override
        public boolean showComponents(SecurityContext securityContext) {
            return delegate.showComponents(securityContext);
        }

        @Override
        public boolean showDetails(SecurityContext securityContext) {
            return delegate.showDetails(securityContext);
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
