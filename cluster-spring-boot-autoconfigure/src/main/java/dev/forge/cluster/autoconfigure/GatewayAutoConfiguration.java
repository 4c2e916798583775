package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.NodeRole;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.Ordered;
import org.springframework.core.env.Environment;
import org.springframework.web.filter.OncePerRequestFilter;

/** Keeps application requests off nodes that do not have the role gateway. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@ConditionalOnClass({Filter.class, OncePerRequestFilter.class})
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@Conditional(OnClusterEnabled.class)
public final class GatewayAutoConfiguration {

    @Bean
    GatewayFilter clusterGatewayFilter(Environment environment) {
        String actuator = environment.getProperty("management.endpoints.web.base-path", "/actuator");
        return new GatewayFilter(
                OnClusterRole.roles(environment).contains(NodeRole.GATEWAY),
                actuator.isBlank() ? "/actuator" : actuator);
    }

    /** Answers 503 to everything but Actuator, so that a misguided load balancer turns away. */
    static final class GatewayFilter extends OncePerRequestFilter implements Ordered {

        private final boolean gateway;
        private final String actuator;

        GatewayFilter(boolean gateway, String actuator) {
            this.gateway = gateway;
            this.actuator = actuator;
        }

        @Override
        protected boolean shouldNotFilter(HttpServletRequest request) {
            String path =
                    request.getRequestURI().substring(request.getContextPath().length());
            return gateway || path.equals(actuator) || path.startsWith(actuator + "/");
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
