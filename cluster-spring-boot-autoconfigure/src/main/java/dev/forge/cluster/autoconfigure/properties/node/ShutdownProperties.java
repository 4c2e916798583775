// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Shutdown of the node.
 *
 * @param drainTimeout How long running jobs may take to finish before they are interrupted and returned to the queue.
 */
public record ShutdownProperties(@DefaultValue("30s") Duration drainTimeout) {
    public ShutdownProperties {
        positive("shutdown.drain-timeout", drainTimeout);
    }
}
