// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.internal.cron.CronEngine;
import org.springframework.beans.factory.config.BeanPostProcessor;

/** Has the crons of a context fire no slots, from its start on. */
final class CronsLeftOut implements BeanPostProcessor {

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        if (bean instanceof CronEngine crons) {
            crons.fireSlots(false);
        }
        return bean;
    }
}
