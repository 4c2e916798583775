package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.store.DaemonStore;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * How the daemons of the cluster lie on its nodes. Every node looks at the same rows and draws its own conclusions.
 *
 * <p>A node that has more daemons than another one which could take an instance leaves it to that one; as a standby, too,
 * so that the idlest node is the one that takes over. Of the nodes that have at least two more than another one which
 * could take one of them, the busiest gives one up.
 */
final class DaemonSpread {

    /** Moving one from a node to another that has only one less would change nothing but their names. */
    private static final int WORTH_MOVING = 2;

    private final Map<String, UUID> holders;
    private final Map<String, Set<UUID>> candidates;
    private final Map<UUID, Integer> loads = new HashMap<>();

    /**
     * @param holders nodes by leader role
     * @param candidates nodes that could run it, by daemon
     */
    DaemonSpread(Map<String, UUID> holders, Map<String, Set<UUID>> candidates) {
        this.holders = holders;
        this.candidates = candidates;
        holders.values().forEach(node -> loads.merge(node, 1, Integer::sum));
    }

    int load(UUID node) {
        return loads.getOrDefault(node, 0);
    }

    boolean isFree(String role) {
        return !holders.containsKey(role);
    }

    /**
     * How many daemons more that node has than the idlest other one that could take the role, its present holder left
     * aside; 0 if there is none that has less.
     *
     * @param more what it is about to take besides
     */
    int surplus(String role, UUID node, int more) {
        UUID holder = holders.get(role);
        return candidatesFor(role).stream()
                .filter(other -> !other.equals(node) && !other.equals(holder))
                .mapToInt(other -> load(node) + more - load(other))
                .max()
                .orElse(0);
    }

    /**
     * Those roles in the order in which that node should ask for them. It differs from node to node, so that nodes which
     * start together do not all ask for the same one first.
     */
    List<String> inOrder(Collection<String> roles, UUID node) {
        var ordered = new ArrayList<>(new TreeSet<>(roles));
        if (!ordered.isEmpty()) {
            var all = new TreeSet<UUID>();
            candidates.values().forEach(all::addAll);
            Collections.rotate(ordered, -(all.headSet(node).size() % ordered.size()));
        }
        return ordered;
    }

    /** The roles that node should give up one of: none, unless it is the busiest of those that should. */
    Set<String> toGiveUp(UUID node) {
        var movable = new HashMap<UUID, Set<String>>();
        holders.forEach((role, holder) -> {
            if (surplus(role, holder, 0) >= WORTH_MOVING) {
                movable.computeIfAbsent(holder, n -> new TreeSet<>()).add(role);
            }
        });
        @Nullable UUID busiest = null;
        for (UUID giver : movable.keySet()) {
            if (busiest == null
                    || load(giver) > load(busiest)
                    || (load(giver) == load(busiest) && giver.compareTo(busiest) < 0)) {
                busiest = giver;
            }
        }
        return node.equals(busiest) ? movable.getOrDefault(node, Set.of()) : Set.of();
    }

    private Set<UUID> candidatesFor(String role) {
        return candidates.getOrDefault(DaemonStore.nameOf(role), Set.of());
    }
}
