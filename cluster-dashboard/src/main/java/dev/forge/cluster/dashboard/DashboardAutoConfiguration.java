// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.autoconfigure.operations.web.Access;
import dev.forge.cluster.autoconfigure.operations.web.OperationsApi;
import dev.forge.cluster.autoconfigure.operations.web.OperationsApiAutoConfiguration;
import dev.forge.cluster.autoconfigure.operations.web.SitesAutoConfiguration;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.ImportRuntimeHints;
import org.springframework.core.env.Environment;
import org.springframework.core.io.ResourceLoader;

/** Serves the dashboard where the HTTP API for operators can be served: on nodes with the role gateway. */
@AutoConfiguration(after = OperationsApiAutoConfiguration.class, before = SitesAutoConfiguration.class)
@ConditionalOnBean(OperationsApi.class)
@ConditionalOnBooleanProperty(name = "forge.cluster.dashboard.enabled", matchIfMissing = true)
@ImportRuntimeHints(Assets.Hints.class)
public final class DashboardAutoConfiguration {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    @Bean
    Dashboard clusterDashboard(
            ClusterProperties properties, ResourceLoader classes, Environment environment, OperationsApi api) {
        String path = properties.dashboard().path();
        Access access = Access.of(classes.getClassLoader());
        access.announce(log, "Dashboard", environment, path, properties.operations());
        return new Dashboard(path, access, Assets.load(), api);
    }
}
