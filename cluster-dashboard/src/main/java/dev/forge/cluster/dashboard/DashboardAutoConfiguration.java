// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.ConditionalOnClusterRole;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.ClusterOperationsAutoConfiguration;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.DashboardProperties;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.node.NodeRole;
import jakarta.servlet.http.HttpServletRequest;
import java.util.Set;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.ImportRuntimeHints;
import org.springframework.core.annotation.Order;
import org.springframework.core.env.Environment;
import org.springframework.core.io.ResourceLoader;
import org.springframework.security.access.hierarchicalroles.NullRoleHierarchy;
import org.springframework.security.access.hierarchicalroles.RoleHierarchy;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.ServerResponse;
import reactor.core.publisher.Mono;

/** Serves the dashboard on nodes with the role gateway. Authentication is left to the application. */
@AutoConfiguration(after = {ClusterAutoConfiguration.class, ClusterOperationsAutoConfiguration.class})
@ConditionalOnBean(ClusterOperations.class)
@ConditionalOnClusterRole(NodeRole.GATEWAY)
@ConditionalOnWebApplication
@ConditionalOnBooleanProperty(name = "forge.cluster.dashboard.enabled", matchIfMissing = true)
@ImportRuntimeHints(Assets.Hints.class)
public final class DashboardAutoConfiguration {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    /** Spring Security with its web module; there need not be a filter chain, and without one nobody is authenticated. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(SecurityFilterChain.class)
    static class SecurityConfiguration {

        @Bean
        SecurityVisitors clusterDashboardVisitors(
                ClusterProperties properties, ObjectProvider<RoleHierarchy> hierarchy) {
            return new SecurityVisitors(
                    properties.dashboard().authorities(), hierarchy.getIfUnique(NullRoleHierarchy::new));
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class HandlerConfiguration {

        @Bean
        Dashboard clusterDashboard(
                ClusterProperties properties,
                ClusterAutoConfiguration.ClusterName name,
                NodeRuntime runtime,
                ResourceLoader classes,
                Environment environment,
                ClusterOperations operations) {
            DashboardProperties settings = properties.dashboard();
            Node node = runtime.node();
            Access access = Access.of(classes.getClassLoader());
            var api = new DashboardApi(
                    access,
                    new OperationsData(operations),
                    () -> new DashboardApi.About(
                            name.text(),
                            ClusterLifecycle.version(),
                            String.valueOf(node.id()),
                            node.identity().name(),
                            settings.traceUrl()),
                    node::nanos);
            String address = environment.getProperty("server.servlet.context-path", "")
                    + environment.getProperty("spring.webflux.base-path", "")
                    + settings.path();
            if (access == Access.SECURED) {
                log.info(
                        "Dashboard: {}/ for users with one of {}",
                        address,
                        settings.authorities().view());
            } else {
                log.info(
                        "Dashboard: {}/ is read-only and hides values, because the application has no Spring Security",
                        address);
            }
            return new Dashboard(settings.path(), access, Assets.load(), api);
        }

        private static Visitor anonymous() {
            return new Visitor(null, Set.of(Permission.VIEW), () -> null);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    @ConditionalOnClass(RouterFunction.class)
    static class ServletConfiguration {

        /** Tells who sends a request. */
        interface ServletVisitors extends Function<HttpServletRequest, Visitor> {}

        @Configuration(proxyBeanMethods = false)
        @ConditionalOnClass(SecurityFilterChain.class)
        static class Secured {

            @Bean
            ServletVisitors clusterDashboardServletVisitors(SecurityVisitors visitors) {
                return request -> SecurityVisitors.Servlet.of(visitors, request);
            }
        }

        // Before the application's routes, which may have a pattern for all paths.
        @Bean
        @Order(-1)
        RouterFunction<ServerResponse> clusterDashboardRoutes(
                ClusterProperties properties, Dashboard dashboard, ObjectProvider<ServletVisitors> visitors) {
            return new ServletRoutes(
                            properties.dashboard().path(),
                            dashboard,
                            visitors.getIfAvailable(() -> request -> HandlerConfiguration.anonymous()))
                    .routes();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
    @ConditionalOnClass(WebFilter.class)
    static class ReactiveConfiguration {

        /** Tells who sends a request. */
        interface ReactiveVisitors extends Function<ServerWebExchange, Mono<Visitor>> {}

        @Configuration(proxyBeanMethods = false)
        @ConditionalOnClass(SecurityFilterChain.class)
        static class Secured {

            @Bean
            ReactiveVisitors clusterDashboardReactiveVisitors(SecurityVisitors visitors, ClusterProperties properties) {
                int base = properties.dashboard().path().length();
                return exchange -> SecurityVisitors.Reactive.of(
                        visitors,
                        exchange.getRequest()
                                .getPath()
                                .pathWithinApplication()
                                .value()
                                .substring(base),
                        exchange);
            }
        }

        @Bean
        ReactiveRoutes clusterDashboardFilter(
                ClusterProperties properties, Dashboard dashboard, ObjectProvider<ReactiveVisitors> visitors) {
            return new ReactiveRoutes(
                    properties.dashboard().path(),
                    dashboard,
                    visitors.getIfAvailable(() -> exchange -> Mono.just(HandlerConfiguration.anonymous())));
        }
    }
}
