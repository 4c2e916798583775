package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.LeaderRole;
import dev.forge.cluster.Leadership;
import dev.forge.cluster.internal.store.DaemonStore;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;

/** Stands for election to the roles that beans are annotated with. */
final class LeaderRoleRegistrar implements SmartInitializingSingleton {

    private static final String DAEMONS = DaemonStore.PREFIX;

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
            if (role != null && role.value().startsWith(DAEMONS)) {
                throw new ClusterStartupException(
                        "@LeaderRole(\"%s\") on bean '%s': names that begin with %s are those of daemons"
                                .formatted(role.value(), name, DAEMONS),
                        "Give the role another name.");
            }
            if (role != null) {
                leadership.getObject().join(role.value());
            }
        }
    }
}
