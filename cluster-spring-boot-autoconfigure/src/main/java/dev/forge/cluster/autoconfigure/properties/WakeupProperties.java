package dev.forge.cluster.autoconfigure.properties;

import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How workers learn of new work before they poll.
 *
 * @param type What tells workers of new work; a ClusterCoordinator bean takes precedence.
 */
public record WakeupProperties(@DefaultValue("postgres") Type type) {

    /** What carries the news. */
    public enum Type {
        /** LISTEN and NOTIFY. */
        POSTGRES,
        /** Redis publish and subscribe. */
        REDIS,
        /** A JMS topic. */
        JMS,
        /** Nothing: workers poll. */
        NONE
    }
}
