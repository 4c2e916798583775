// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.ConditionalOnClusterRole;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.web.OperationsProperties;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.node.NodeRole;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;
import org.springframework.core.io.ResourceLoader;
import tools.jackson.databind.json.JsonMapper;

/** Adds the HTTP API for operators on nodes with the role gateway, and serves it at its own path if that is enabled. */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = "dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration")
@ConditionalOnBean(ClusterOperations.class)
@ConditionalOnClusterRole(NodeRole.GATEWAY)
@ConditionalOnWebApplication
@ConditionalOnClass(JsonMapper.class)
public final class OperationsApiAutoConfiguration {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    @Bean
    @ConditionalOnMissingBean
    OperationsApi clusterOperationsApi(
            ClusterProperties properties,
            ClusterAutoConfiguration.ClusterName name,
            NodeRuntime runtime,
            ResourceLoader classes,
            ClusterOperations operations) {
        Node node = runtime.node();
        return new OperationsApi(
                Access.of(classes.getClassLoader()),
                operations,
                () -> new OperationsApi.About(
                        name.text(),
                        ClusterLifecycle.version(),
                        String.valueOf(node.id()),
                        node.identity().name(),
                        properties.dashboard().traceUrl()),
                node::nanos);
    }

    @Bean
    @ConditionalOnBooleanProperty(name = "forge.cluster.operations.enabled")
    Site clusterOperationsSite(
            ClusterProperties properties, ResourceLoader classes, Environment environment, OperationsApi api) {
        OperationsProperties settings = properties.operations();
        Access.of(classes.getClassLoader()).announce(log, "Operations", environment, settings.path(), settings);
        return new Site() {
            @Override
            public String path() {
                return settings.path();
            }

            @Override
            public SiteResponse serve(SiteRequest request) {
                return api.serve(request, AuditSource.HTTP);
            }
        };
    }
}
