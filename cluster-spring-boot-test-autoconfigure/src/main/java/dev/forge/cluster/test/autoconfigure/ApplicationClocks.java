// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import java.time.Clock;
import java.time.InstantSource;
import org.springframework.beans.factory.config.BeanPostProcessor;

/**
 * Replaces the clocks that the application defines by the time of the test, in their own zones. Beans of the application's own
 * classes stay: they may be injected by these.
 */
final class ApplicationClocks implements BeanPostProcessor {

    private final Clock clock;

    ApplicationClocks(Clock clock) {
        this.clock = clock;
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        boolean replaceable = bean instanceof InstantSource
                && bean.getClass().getPackageName().equals("java.time");
        if (!replaceable) {
            return bean;
        }
        return bean instanceof Clock own ? clock.withZone(own.getZone()) : clock;
    }
}
