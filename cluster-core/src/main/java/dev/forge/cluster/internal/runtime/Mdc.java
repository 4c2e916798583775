// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.node.NodeIdentity;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.MDC;

/** Puts the node's id and name into the diagnostic context of the cluster's threads. Ignores a logging library that throws. */
public final class Mdc {

    static final String NODE_ID = "forge.node.id";
    public static final String NODE_NAME = "forge.node.name";

    private Mdc() {}

    public static void put(@Nullable UUID id, NodeIdentity identity) {
        if (id != null) {
            put(NODE_ID, id.toString());
        }
        put(NODE_NAME, identity.name());
    }

    public static void put(String key, String value) {
        try {
            MDC.put(key, value);
        } catch (RuntimeException | Error e) {
            // Log lines then lack the entry.
        }
    }

    /** Restores a context that {@link MDC#getCopyOfContextMap()} has returned. */
    public static void restore(@Nullable Map<String, String> before) {
        if (before == null) {
            MDC.clear();
        } else {
            MDC.setContextMap(before);
        }
    }
}
