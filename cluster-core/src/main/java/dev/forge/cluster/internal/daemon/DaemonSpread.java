package dev.forge.cluster.internal.daemon;

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
 * <p>A node that has more instances of a daemon than another one which could take the next, or as many and more daemons
 * altogether, leaves it to that one; as a standby, too, so that the idlest node is the one that takes over. Instances of
 * one daemon come before the total: whoever asks for two of them wants to survive the loss of a node.
 *
 * <p>Of the nodes that have at least two more than another one which could take one of them, of one daemon or altogether,
 * the busiest gives one up. A move for the sake of the total never brings instances of one daemon together, so that one
 * move after the other comes to an end.
 */
final class DaemonSpread {

    /** Moving one from a node to another that has only one less would change nothing but their names. */
    private static final int WORTH_MOVING = 2;

    private final Map<String, UUID> holders;
    private final Map<String, Set<UUID>> candidates;
    private final Map<UUID, Integer> loads = new HashMap<>();
    private final Map<UUID, Map<String, Integer>> instances = new HashMap<>();

    /**
     * @param holders nodes by leader role
     * @param candidates nodes that could run it, by leader role
     */
    DaemonSpread(Map<String, UUID> holders, Map<String, Set<UUID>> candidates) {
        this.holders = holders;
        this.candidates = candidates;
        holders.forEach((role, node) -> {
            loads.merge(node, 1, Integer::sum);
            instances.computeIfAbsent(node, n -> new HashMap<>()).merge(DaemonStore.nameOf(role), 1, Integer::sum);
        });
    }

    int load(UUID node) {
        return loads.getOrDefault(node, 0);
    }

    /** How many instances of that daemon the node has. */
    int instances(String daemon, UUID node) {
        return instances.getOrDefault(node, Map.of()).getOrDefault(daemon, 0);
    }

    boolean isFree(String role) {
        return !holders.containsKey(role);
    }

    /**
     * How much worse placed for the role that node is than the best other one that could take it, its present holder left
     * aside: how many instances of the daemon, or how many daemons, it has more. 0 or less if there is none better.
     *
     * @param taking roles that it is about to take besides
     */
    int surplus(String role, UUID node, Collection<String> taking) {
        UUID holder = holders.get(role);
        String daemon = DaemonStore.nameOf(role);
        int siblings = (int) taking.stream()
                .filter(other -> DaemonStore.nameOf(other).equals(daemon))
                .count();
        return candidatesFor(role).stream()
                .filter(other -> !other.equals(node) && !other.equals(holder))
                .mapToInt(other -> {
                    int apart = instances(daemon, node) + siblings - instances(daemon, other);
                    int idler = load(node) + taking.size() - load(other);
                    return apart > 0 ? Math.max(apart, idler) : apart < 0 ? apart : idler;
                })
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
            if (isMovable(role, holder)) {
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

    private boolean isMovable(String role, UUID holder) {
        String daemon = DaemonStore.nameOf(role);
        return candidatesFor(role).stream().anyMatch(other -> {
            int apart = instances(daemon, holder) - instances(daemon, other);
            return apart >= WORTH_MOVING || (apart > 0 && load(holder) - load(other) >= WORTH_MOVING);
        });
    }

    private Set<UUID> candidatesFor(String role) {
        return candidates.getOrDefault(role, Set.of());
    }
}
