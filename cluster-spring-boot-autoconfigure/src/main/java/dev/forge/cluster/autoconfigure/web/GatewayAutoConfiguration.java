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
import java.util.List;
import java.util.function.Predicate;
import java.util.function.Supplier;
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
import org.springframework.util.StringUtils;
import org.springframework.util.function.SingletonSupplier;
import org.springframework.web.filter.OncePerRequestFilter;

/** Keeps application requests off nodes that do not have the role gateway. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@ConditionalOnClass({Filter.class, OncePerRequestFilter.class})
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@Conditional(OnClusterEnabled.class)
public final class GatewayAutoConfiguration {

    @Bean
    GatewayFilter clusterGatewayFilter(Environment environment, ObjectProvider<ActuatorPaths> actuator) {
        return new GatewayFilter(OnClusterRole.roles(environment).contains(NodeRole.GATEWAY), actuator);
    }

    /** Whether a path, without the context's, belongs to Actuator or stands for it. */
    interface ActuatorPaths extends Predicate<String> {}

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(PathMappedEndpoints.class)
    static class ActuatorConfiguration {

        // Asked at the first request: the endpoints are discovered late.
        @Bean
        ActuatorPaths clusterActuatorPaths(ObjectProvider<PathMappedEndpoints> endpoints, Environment environment) {
            String servlet =
                    StringUtils.trimTrailingCharacter(environment.getProperty("spring.mvc.servlet.path", ""), '/');
            Supplier<List<String>> paths = SingletonSupplier.of(() -> endpoints.stream()
                    .flatMap(mapped -> Stream.of(
                                    Stream.of(mapped.getBasePath()),
                                    mapped.getAllPaths().stream(),
                                    mapped
                                            .getAdditionalPaths(WebServerNamespace.SERVER, EndpointId.of("health"))
                                            .stream())
                            .flatMap(all -> all))
                    // Actuator at the root has its endpoints there, not everything.
                    .filter(path -> path.length() > 1)
                    .map(path -> servlet + path)
                    .toList());
            return path -> paths.get().stream().anyMatch(own -> path.equals(own) || path.startsWith(own + "/"));
        }
    }

    /** Answers 503 to everything but Actuator, so that a misguided load balancer turns away. */
    public static final class GatewayFilter extends OncePerRequestFilter implements Ordered {

        private final boolean gateway;
        private final ObjectProvider<ActuatorPaths> actuator;

        GatewayFilter(boolean gateway, ObjectProvider<ActuatorPaths> actuator) {
            this.gateway = gateway;
            this.actuator = actuator;
        }

        @Override
        protected boolean shouldNotFilter(HttpServletRequest request) {
            String path =
                    request.getRequestURI().substring(request.getContextPath().length());
            return gateway || actuator.stream().anyMatch(paths -> paths.test(path));
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
