// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Actions that run once in the cluster when nodes start.
 *
 * @param leaseDuration How long StartupCoordinator.tryAcquire reserves an action. StartupCoordinator.once renews a lease of its own.
 * @param waitTimeout How long StartupCoordinator.once waits for another node that runs the action.
 */
public record StartupProperties(
        @DefaultValue("5m") Duration leaseDuration,
        @DefaultValue("10m") Duration waitTimeout) {
    public StartupProperties {
        positive("startup.lease-duration", leaseDuration);
        notNegative("startup.wait-timeout", waitTimeout);
    }
}
