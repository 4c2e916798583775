// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.OnClusterRole;
import dev.forge.cluster.node.NodeRole;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.web.PathMappedEndpoints;
import org.springframework.boot.actuate.endpoint.web.WebServerNamespace;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.env.Environment;
import org.springframework.http.server.PathContainer;
import org.springframework.http.server.RequestPath;
import org.springframework.util.StringUtils;
import org.springframework.util.function.SingletonSupplier;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.util.pattern.PathPattern;
import org.springframework.web.util.pattern.PathPatternParser;

/** Makes nodes without the role gateway refuse all requests except those to Actuator. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@ConditionalOnClass({Filter.class, OncePerRequestFilter.class})
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@Conditional(OnClusterEnabled.class)
public final class GatewayAutoConfiguration {

    @Bean
    GatewayFilter clusterGatewayFilter(Environment environment, ObjectProvider<ActuatorPaths> actuator) {
        return new GatewayFilter(OnClusterRole.roles(environment).contains(NodeRole.GATEWAY), actuator);
    }

    /** Tests whether a path within the application belongs to Actuator, or to a health probe of the cluster. */
    interface ActuatorPaths extends Predicate<PathContainer> {

        /**
         * Creates a test that matches any of the patterns.
         *
         * @param patterns patterns of {@link PathPattern}
         */
        static ActuatorPaths of(Stream<String> patterns) {
            List<PathPattern> parsed =
                    patterns.map(PathPatternParser.defaultInstance::parse).toList();
            return path -> parsed.stream().anyMatch(pattern -> pattern.matches(path));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(PathMappedEndpoints.class)
    static class ActuatorConfiguration {

        // Resolved with the first request: endpoints are discovered after the filters are created.
        @Bean
        ActuatorPaths clusterActuatorPaths(ObjectProvider<PathMappedEndpoints> endpoints, Environment environment) {
            String servlet =
                    StringUtils.trimTrailingCharacter(environment.getProperty("spring.mvc.servlet.path", ""), '/');
            Supplier<ActuatorPaths> paths = SingletonSupplier.of(() -> ActuatorPaths.of(endpoints.stream()
                    .flatMap(ActuatorConfiguration::paths)
                    // With the base path "/" only the paths of the endpoints belong to Actuator.
                    .filter(path -> path.length() > 1)
                    .map(path -> servlet + path + "/**")));
            return path -> paths.get().test(path);
        }

        private static Stream<String> paths(PathMappedEndpoints endpoints) {
            return Stream.of(
                            List.of(endpoints.getBasePath()),
                            endpoints.getAllPaths(),
                            endpoints.getAdditionalPaths(WebServerNamespace.SERVER, EndpointId.of("health")))
                    .flatMap(Collection::stream);
        }
    }

    /**
     * Responds with status 503 to all requests except those to Actuator, so that a load balancer that routes to this node by mistake
     * stops doing so. The path is matched as Spring MVC does: decoded, segment by segment, without path parameters.
     */
    public static final class GatewayFilter extends OncePerRequestFilter implements Ordered {

        /** Encoded slashes, which some containers decode. */
        private static final Pattern SLASHES = Pattern.compile("[/\\\\]");

        private final boolean gateway;
        private final ObjectProvider<ActuatorPaths> actuator;

        GatewayFilter(boolean gateway, ObjectProvider<ActuatorPaths> actuator) {
            this.gateway = gateway;
            this.actuator = actuator;
        }

        @Override
        protected boolean shouldNotFilter(HttpServletRequest request) {
            if (gateway) {
                return true;
            }
            PathContainer path = RequestPath.parse(request.getRequestURI(), request.getContextPath())
                    .pathWithinApplication();
            return !hasDotSegment(path) && actuator.stream().anyMatch(paths -> paths.test(path));
        }

        /** The container resolves dot segments when it selects a servlet, so such a path may lead out of Actuator. */
        private static boolean hasDotSegment(PathContainer path) {
            return path.elements().stream()
                    .filter(PathContainer.PathSegment.class::isInstance)
                    .flatMap(segment -> SLASHES.splitAsStream(((PathContainer.PathSegment) segment).valueToMatch()))
                    .anyMatch(part -> part.equals(".") || part.equals(".."));
        }

        @Override
        protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                throws ServletException, IOException {
            response.setStatus(HttpServletResponse.SC_SERVICE_UNAVAILABLE);
            response.setContentType("application/problem+json");
            response.getWriter().write("""
                    {"title":"Service Unavailable","status":503,\
                    "detail":"This node does not serve requests: forge.cluster.node.roles lacks gateway."}""");
        }

        @Override
        public int getOrder() {
            return Ordered.HIGHEST_PRECEDENCE;
        }
    }
}
