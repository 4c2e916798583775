// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Defaults of locks.
 *
 * @param leaseDuration How long a lock is held unless it is extended.
 */
public record LockProperties(@DefaultValue("60s") Duration leaseDuration) {
    public LockProperties {
        positive("lock.lease-duration", leaseDuration);
    }
}
