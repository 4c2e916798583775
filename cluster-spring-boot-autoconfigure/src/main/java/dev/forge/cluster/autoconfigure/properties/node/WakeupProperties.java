// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Wake-ups of workers.
 *
 * @param type What notifies workers of new jobs. A ClusterCoordinator bean takes precedence.
 */
public record WakeupProperties(@DefaultValue("postgres") Type type) {

    /** What notifies workers of new jobs. */
    public enum Type {
        /** LISTEN and NOTIFY of PostgreSQL. */
        POSTGRES,
        /** Redis publish and subscribe. */
        REDIS,
        /** A JMS topic. */
        JMS,
        /** Nothing: workers poll. */
        NONE
    }
}
