// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import jakarta.servlet.http.HttpServletRequest;
import java.util.Set;
import java.util.function.Function;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.security.access.hierarchicalroles.NullRoleHierarchy;
import org.springframework.security.access.hierarchicalroles.RoleHierarchy;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.ServerResponse;
import reactor.core.publisher.Mono;

/** Serves all {@linkplain Site sites}. Authentication is left to the application. */
@AutoConfiguration(after = OperationsApiAutoConfiguration.class)
@ConditionalOnBean(Site.class)
public final class SitesAutoConfiguration {

    private static Visitor anonymous() {
        return new Visitor(null, Set.of(Permission.VIEW), () -> null);
    }

    /** Spring Security with its web module; there need not be a filter chain, and without one nobody is authenticated. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(SecurityFilterChain.class)
    static class SecurityConfiguration {

        @Bean
        SecurityVisitors clusterSiteVisitors(ClusterProperties properties, ObjectProvider<RoleHierarchy> hierarchy) {
            return new SecurityVisitors(
                    properties.operations().authorities(), hierarchy.getIfUnique(NullRoleHierarchy::new));
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
            ServletVisitors clusterSiteServletVisitors(SecurityVisitors visitors) {
                return request -> SecurityVisitors.Servlet.of(visitors, request);
            }
        }

        // Before the application's routes, which may have a pattern for all paths.
        @Bean
        @Order(-1)
        RouterFunction<ServerResponse> clusterSiteRoutes(
                ObjectProvider<Site> sites, ObjectProvider<ServletVisitors> visitors) {
            ServletVisitors known = visitors.getIfAvailable(() -> request -> anonymous());
            return sites.orderedStream()
                    .map(site -> new ServletRoutes(site, known).routes())
                    .reduce(RouterFunction::and)
                    .orElseThrow();
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
            ReactiveVisitors clusterSiteReactiveVisitors(SecurityVisitors visitors) {
                return exchange -> SecurityVisitors.Reactive.of(visitors, exchange);
            }
        }

        @Bean
        ReactiveRoutes clusterSiteFilter(ObjectProvider<Site> sites, ObjectProvider<ReactiveVisitors> visitors) {
            return new ReactiveRoutes(
                    sites.orderedStream().toList(), visitors.getIfAvailable(() -> exchange -> Mono.just(anonymous())));
        }
    }
}
