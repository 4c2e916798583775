// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.audit;

import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.OperatorSource;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.audit.AuditStore;
import dev.forge.cluster.internal.audit.DefaultAuditTrail;
import dev.forge.cluster.internal.database.Schema;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.security.core.context.SecurityContextHolder;

/** Configures the audit trail. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class AuditAutoConfiguration {

    @Bean
    @ConditionalOnMissingBean
    AuditTrail clusterAuditTrail(ClusterDatabase database, Schema schema, NodeRuntime runtime) {
        return new DefaultAuditTrail(
                runtime.node().resources().audit(), new AuditStore(schema, database.application()));
    }

    @Bean
    @Order(ComponentOrder.CLEAN_UP)
    AuditCleanUp clusterAuditCleanUp(ClusterProperties properties, Schema schema, NodeRuntime runtime) {
        return new AuditCleanUp(
                new AuditStore(schema, runtime.control()), properties.audit().retention(), runtime.node()::nanos);
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(SecurityContextHolder.class)
    static class SecurityConfiguration {

        @Bean
        @ConditionalOnMissingBean
        OperatorSource clusterOperatorSource() {
            return new AuthenticatedOperator();
        }
    }
}
