// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.support.StaticListableBeanFactory;
import org.springframework.boot.actuate.endpoint.web.PathMappedEndpoints;
import org.springframework.mock.env.MockEnvironment;
import org.springframework.mock.web.MockFilterChain;
import org.springframework.mock.web.MockHttpServletRequest;
import org.springframework.mock.web.MockHttpServletResponse;

/** Request paths that a node without the role gateway serves or refuses. */
class GatewayFilterTests {

    private static int status(String contextPath, String servletPath, String uri) throws Exception {
        var endpoints = new StaticListableBeanFactory();
        endpoints.addBean("endpoints", new PathMappedEndpoints("/actuator", List.of()));
        var paths = new StaticListableBeanFactory();
        paths.addBean(
                "paths",
                new GatewayAutoConfiguration.ActuatorConfiguration()
                        .clusterActuatorPaths(
                                endpoints.getBeanProvider(PathMappedEndpoints.class),
                                new MockEnvironment().withProperty("spring.mvc.servlet.path", servletPath)));
        var filter = new GatewayAutoConfiguration.GatewayFilter(
                false, paths.getBeanProvider(GatewayAutoConfiguration.ActuatorPaths.class));
        var request = new MockHttpServletRequest("GET", uri);
        request.setContextPath(contextPath);
        var response = new MockHttpServletResponse();
        filter.doFilter(request, response, new MockFilterChain());
        return response.getStatus();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/actuator",
                "/actuator/",
                "/actuator/health/liveness",
                "/actuator;v=1/health",
                "/actuator/health;jsessionid=1",
                "/%61ctuator/health",
                "/actuator/health%20x"
            })
    void actuator_is_served_however_its_path_is_written(String path) throws Exception {
        assertThat(status("", "", path)).isEqualTo(200);
        assertThat(status("/shop", "", "/shop" + path)).isEqualTo(200);
        assertThat(status("/shop", "/mvc/", "/shop/mvc" + path)).isEqualTo(200);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/",
                "/orders",
                "/actuatorx",
                "/actuator%2Fhealth",
                "//actuator/health",
                "/orders/actuator/health",
                "/orders;/actuator/health",
                "/actuator/../orders",
                "/actuator/..;x=1/orders",
                "/actuator/%2e%2e/orders",
                "/actuator/%2E./orders",
                "/actuator/x%2F..%2F../orders",
                "/actuator/x%5C..%5C../orders",
                "/actuator/./../orders"
            })
    void other_paths_are_refused_however_they_are_written(String path) throws Exception {
        assertThat(status("", "", path)).isEqualTo(503);
        assertThat(status("/shop", "", "/shop" + path)).isEqualTo(503);
        assertThat(status("/shop", "/mvc", "/shop/mvc" + path)).isEqualTo(503);
    }
}
