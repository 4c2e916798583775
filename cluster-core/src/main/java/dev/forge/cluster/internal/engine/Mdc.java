package dev.forge.cluster.internal.engine;

import dev.forge.cluster.NodeIdentity;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.MDC;

/** Who we are, in every line that a thread of ours logs. A logging library that throws is ignored. */
final class Mdc {

    static final String NODE_ID = "forge.node.id";
    static final String NODE_NAME = "forge.node.name";

    private Mdc() {}

    static void put(@Nullable UUID id, NodeIdentity identity) {
        if (id != null) {
            put(NODE_ID, id.toString());
        }
        put(NODE_NAME, identity.name());
    }

    static void put(String key, String value) {
        try {
            MDC.put(key, value);
        } catch (RuntimeException | Error e) {
            // Lines lack it.
        }
    }

    /** Puts back what {@link MDC#getCopyOfContextMap()} has answered, and nothing else. */
    static void restore(@Nullable Map<String, String> before) {
        if (before == null) {
            MDC.clear();
        } else {
            MDC.setContextMap(before);
        }
    }
}
