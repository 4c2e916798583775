package dev.forge.cluster.internal.engine;

import dev.forge.cluster.NodeRole;
import dev.forge.cluster.internal.store.NodeStore.Deadlines;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * How a node presents itself and how often it shows that it lives.
 *
 * @param info free text by key, for operators
 */
public record NodeSettings(
        String hostname,
        Set<NodeRole> roles,
        List<String> capabilities,
        String version,
        Map<String, String> info,
        Duration heartbeat,
        Deadlines deadlines) {}
