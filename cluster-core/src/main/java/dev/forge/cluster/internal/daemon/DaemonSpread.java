// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
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
 * The distribution of the daemons of the cluster over its nodes. Every node computes it from the same rows and decides for
 * itself.
 *
 * <p>A node leaves a role to another candidate that has fewer instances of the daemon, or as many and fewer daemons in total.
 * This holds for standbys too, so that the least loaded node takes over. Instances of one daemon count before the total: two
 * instances are meant to survive the loss of a node.
 *
 * <p>A node is overloaded if it has at least two instances of a daemon, or two daemons in total, more than another candidate
 * for one of its roles. The most loaded of these nodes gives one role up. A move because of the total never puts two
 * instances of one daemon on the same node, so that the moves come to an end.
 */
final class DaemonSpread {

    /** A move between nodes that differ by one would only swap their loads. */
    private static final int MIN_DIFFERENCE = 2;

    private final Map<String, UUID> holders;
    private final Map<String, Set<UUID>> candidates;
    private final Map<UUID, Integer> loads = new HashMap<>();
    private final Map<UUID, Map<String, Integer>> instances = new HashMap<>();

    /**
     * @param holders the node that holds each leader role
     * @param candidates the nodes that could run each leader role
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

    /** Returns how many instances of a daemon the node has. */
    int instances(String daemon, UUID node) {
        return instances.getOrDefault(node, Map.of()).getOrDefault(daemon, 0);
    }

    boolean isFree(String role) {
        return !holders.containsKey(role);
    }

    /**
     * Returns how many instances of the daemon, or daemons in total, the node has more than the least loaded other candidate.
     * The current holder does not count. 0 or less if no other candidate is better placed.
     *
     * @param taking further roles that the node is about to take
     */
    int surplus(String role, UUID node, Collection<String> taking) {
        UUID holder = holders.get(role);
        String daemon = DaemonStore.nameOf(role);
        int takingOfSame = (int) taking.stream()
                .filter(other -> DaemonStore.nameOf(other).equals(daemon))
                .count();
        return candidatesFor(role).stream()
                .filter(other -> !other.equals(node) && !other.equals(holder))
                .mapToInt(other -> {
                    int moreInstances = instances(daemon, node) + takingOfSame - instances(daemon, other);
                    int moreInTotal = load(node) + taking.size() - load(other);
                    return moreInstances > 0
                            ? Math.max(moreInstances, moreInTotal)
                            : moreInstances < 0 ? moreInstances : moreInTotal;
                })
                .max()
                .orElse(0);
    }

    /**
     * Returns the roles in the order in which the node should stand for them. The order differs between nodes, so that nodes
     * that start together do not all stand for the same role first.
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

    /** Returns the roles of which the node should give one up; empty unless it is the most loaded of the overloaded nodes. */
    Set<String> toGiveUp(UUID node) {
        var movable = new HashMap<UUID, Set<String>>();
        holders.forEach((role, holder) -> {
            if (isMovable(role, holder)) {
                movable.computeIfAbsent(holder, n -> new TreeSet<>()).add(role);
            }
        });
        @Nullable UUID mostLoaded = null;
        for (UUID giver : movable.keySet()) {
            if (mostLoaded == null
                    || load(giver) > load(mostLoaded)
                    || (load(giver) == load(mostLoaded) && giver.compareTo(mostLoaded) < 0)) {
                mostLoaded = giver;
            }
        }
        return node.equals(mostLoaded) ? movable.getOrDefault(node, Set.of()) : Set.of();
    }

    private boolean isMovable(String role, UUID holder) {
        String daemon = DaemonStore.nameOf(role);
        return candidatesFor(role).stream().anyMatch(other -> {
            int moreInstances = instances(daemon, holder) - instances(daemon, other);
            return moreInstances >= MIN_DIFFERENCE
                    || (moreInstances > 0 && load(holder) - load(other) >= MIN_DIFFERENCE);
        });
    }

    private Set<UUID> candidatesFor(String role) {
        return candidates.getOrDefault(role, Set.of());
    }
}
