// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;

/**
 * Registers the handlers of one kind after all beans have been created, because only then all classes are known. Spring calls this
 * callback after those of the application's beans, so a bean that calls the API there makes the handlers register earlier.
 */
public abstract class HandlerRegistrar implements SmartInitializingSingleton {

    private boolean registered;

    /** Finds the handlers among all beans. */
    public abstract void register();

    @Override
    public final synchronized void afterSingletonsInstantiated() {
        if (!registered) {
            register();
            registered = true;
        }
    }

    private synchronized boolean isRegistered() {
        return registered;
    }

    /** Makes all registrars register their handlers; returns false without effect while beans are still being created. */
    public static boolean complete(ConfigurableListableBeanFactory beans, ObjectProvider<HandlerRegistrar> registrars) {
        if (registrars.stream().allMatch(HandlerRegistrar::isRegistered)) {
            return true;
        }
        boolean created = allCreated(beans);
        if (created) {
            registrars.forEach(HandlerRegistrar::afterSingletonsInstantiated);
        }
        return created;
    }

    private static boolean allCreated(ConfigurableListableBeanFactory beans) {
        for (String name : beans.getBeanDefinitionNames()) {
            BeanDefinition bean = beans.getMergedBeanDefinition(name);
            if (!bean.isAbstract() && bean.isSingleton() && !bean.isLazyInit() && !beans.containsSingleton(name)) {
                return false;
            }
        }
        return true;
    }
}
