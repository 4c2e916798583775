// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Detection of dead nodes.
 *
 * @param interval Interval at which a node checks the other nodes.
 * @param livenessLock Whether each node holds a session-bound lock whose loss reveals a crash in under a second.
 */
public record DetectionProperties(
        @DefaultValue("250ms") Duration interval,
        @DefaultValue("true") boolean livenessLock) {
    public DetectionProperties {
        positive("detection.interval", interval);
    }
}
