// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.leader;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.leader.LeaderRole;
import dev.forge.cluster.leader.Leadership;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;

/** Makes the node a candidate for the roles of beans with {@link LeaderRole}. */
final class LeaderRoleRegistrar implements SmartInitializingSingleton {

    private final ConfigurableListableBeanFactory beans;
    private final ObjectProvider<Leadership> leadership;

    LeaderRoleRegistrar(ConfigurableListableBeanFactory beans, ObjectProvider<Leadership> leadership) {
        this.beans = beans;
        this.leadership = leadership;
    }

    @Override
    public void afterSingletonsInstantiated() {
        for (String name : beans.getBeanNamesForAnnotation(LeaderRole.class)) {
            LeaderRole role = beans.findAnnotationOnBean(name, LeaderRole.class);
            if (role != null) {
                join(name, role.value());
            }
        }
    }

    private void join(String bean, String role) {
        try {
            leadership.getObject().join(role);
        } catch (IllegalArgumentException e) {
            throw new ClusterStartupException(
                    "@LeaderRole(\"%s\") on bean '%s': %s".formatted(role, bean, e.getMessage()),
                    "Give the role another name.",
                    e);
        }
    }
}
