// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class DaemonSpreadTests {

    private static final UUID A = new UUID(0, 1);
    private static final UUID B = new UUID(0, 2);
    private static final UUID C = new UUID(0, 3);
    private static final Map<String, Set<UUID>> EVERYBODY = roles(Map.of("x", Set.of(A, B, C), "y", Set.of(A, B, C)));

    /** Returns the candidates of each role; all instances of a daemon have the same candidates. */
    private static Map<String, Set<UUID>> roles(Map<String, Set<UUID>> byDaemon) {
        var candidates = new HashMap<String, Set<UUID>>();
        byDaemon.forEach((daemon, nodes) -> {
            for (int instance = 0; instance < 20; instance++) {
                candidates.put(DaemonStore.role(daemon, instance), nodes);
            }
        });
        return candidates;
    }

    @Test
    void node_leaves_an_instance_to_a_less_loaded_candidate() {
        var spread = new DaemonSpread(Map.of("daemon:x", A, "daemon:y", B), EVERYBODY);
        assertThat(spread.surplus("daemon:x#1", A, List.of())).isEqualTo(1);
        assertThat(spread.surplus("daemon:x#1", C, List.of())).isNegative();
        // As a standby for x: its holder A does not count, and B has one more than C.
        assertThat(spread.surplus("daemon:x", B, List.of())).isEqualTo(1);
        assertThat(spread.surplus("daemon:x", C, List.of())).isNegative();
        assertThat(spread.surplus("daemon:unknown", A, List.of())).isZero();
    }

    @Test
    void nodes_that_start_together_stand_for_different_instances_first() {
        var spread = new DaemonSpread(Map.of(), EVERYBODY);
        List<String> roles = List.of("daemon:x", "daemon:x#1", "daemon:x#2");
        assertThat(List.of(A, B, C))
                .extracting(node -> spread.inOrder(roles, node).get(0))
                .containsExactlyElementsOf(roles);
        assertThat(spread.inOrder(roles, B)).containsExactly("daemon:x#1", "daemon:x#2", "daemon:x");
        assertThat(spread.inOrder(List.of(), B)).isEmpty();
    }

    @Test
    void most_loaded_node_gives_up_an_instance_if_another_has_two_fewer() {
        Map<String, UUID> holders = Map.of("daemon:x", A, "daemon:x#1", A, "daemon:y", B, "daemon:y#1", B);
        var spread = new DaemonSpread(holders, EVERYBODY);
        assertThat(spread.toGiveUp(A)).containsExactly("daemon:x", "daemon:x#1");
        assertThat(spread.toGiveUp(B)).isEmpty();
        assertThat(spread.toGiveUp(C)).isEmpty();
        var even = new DaemonSpread(Map.of("daemon:x", A, "daemon:y", B), EVERYBODY);
        assertThat(even.toGiveUp(A)).isEmpty();
    }

    @Test
    void loaded_node_without_other_candidates_does_not_block_moves_of_other_nodes() {
        Map<String, UUID> holders = new HashMap<>(Map.of("daemon:own", A, "daemon:own#1", A, "daemon:own#2", A));
        holders.putAll(Map.of("daemon:x", B, "daemon:x#1", B));
        var spread = new DaemonSpread(holders, roles(Map.of("own", Set.of(A), "x", Set.of(B, C))));
        assertThat(spread.toGiveUp(A)).isEmpty();
        assertThat(spread.toGiveUp(B)).containsExactly("daemon:x", "daemon:x#1");
    }

    @Test
    void instances_of_one_daemon_count_before_the_total() {
        var spread = new DaemonSpread(Map.of("daemon:x", A, "daemon:y", B, "daemon:y#1", B), EVERYBODY);
        assertThat(spread.surplus("daemon:x#1", A, List.of())).isEqualTo(1);
        assertThat(spread.surplus("daemon:x#1", B, List.of())).isEqualTo(2);
        assertThat(spread.surplus("daemon:x#1", C, List.of())).isNegative();
        var pair = roles(Map.of("x", Set.of(A, B), "y", Set.of(A, B)));
        // B has more instances in total, but A already has an instance of this daemon.
        assertThat(new DaemonSpread(Map.of("daemon:x", A, "daemon:y", B, "daemon:y#1", B), pair)
                        .surplus("daemon:x#1", B, List.of()))
                .isNegative();
        // Roles that the node is about to take are counted, too.
        var free = new DaemonSpread(Map.of("daemon:y", B), pair);
        assertThat(free.surplus("daemon:x#1", A, List.of("daemon:x"))).isEqualTo(1);
        assertThat(free.surplus("daemon:x#1", A, List.of("daemon:z"))).isZero();
    }

    @Test
    void instances_of_one_daemon_move_apart_and_never_together() {
        var holders = Map.of("daemon:x", A, "daemon:x#1", A, "daemon:y", B, "daemon:y#1", B);
        var pair = roles(Map.of("x", Set.of(A, B), "y", Set.of(A, B)));
        assertThat(new DaemonSpread(holders, pair).toGiveUp(A)).containsExactly("daemon:x", "daemon:x#1");
        var after = new DaemonSpread(Map.of("daemon:x", A, "daemon:x#1", B, "daemon:y", B, "daemon:y#1", B), pair);
        assertThat(after.toGiveUp(A)).isEmpty();
        assertThat(after.toGiveUp(B)).containsExactly("daemon:y", "daemon:y#1");
    }

    @Test
    void instance_that_another_build_does_not_declare_is_not_moved() {
        var holders = Map.of("daemon:x", A, "daemon:x#1", A, "daemon:x#2", A);
        var spread = new DaemonSpread(
                holders, Map.of("daemon:x", Set.of(A, B), "daemon:x#1", Set.of(A), "daemon:x#2", Set.of(A)));
        assertThat(spread.toGiveUp(A)).containsExactly("daemon:x");
        assertThat(spread.surplus("daemon:x#3", A, List.of())).isZero();
    }

    @Test
    void moves_end_with_an_even_spread() {
        var random = new Random(7);
        for (int round = 0; round < 300; round++) {
            List<UUID> nodes = new ArrayList<>();
            for (int i = 0; i < 2 + random.nextInt(8); i++) {
                nodes.add(new UUID(round, i));
            }
            var holders = new HashMap<String, UUID>();
            var daemons = new HashMap<String, Set<UUID>>();
            for (int daemon = 0; daemon <= round % 5; daemon++) {
                daemons.put("x" + daemon, new HashSet<>(nodes));
                for (int i = 0; i < random.nextInt(20); i++) {
                    holders.put(DaemonStore.role("x" + daemon, i), nodes.get(random.nextInt(nodes.size())));
                }
            }
            Map<String, Set<UUID>> candidates = roles(daemons);
            int moves = 0;
            while (move(holders, candidates, nodes)) {
                assertThat(++moves).as("moves").isLessThanOrEqualTo(2 * holders.size());
            }
            var spread = new DaemonSpread(holders, candidates);
            var loads = nodes.stream().mapToInt(spread::load).summaryStatistics();
            assertThat(loads.getMax() - loads.getMin()).isLessThanOrEqualTo(1);
            for (String daemon : daemons.keySet()) {
                var apart = nodes.stream()
                        .mapToInt(node -> spread.instances(daemon, node))
                        .summaryStatistics();
                assertThat(apart.getMax() - apart.getMin()).isLessThanOrEqualTo(1);
            }
        }
    }

    /** Moves one role from the node that should give it up to a node that may stand for it. */
    private static boolean move(Map<String, UUID> holders, Map<String, Set<UUID>> candidates, List<UUID> nodes) {
        var spread = new DaemonSpread(holders, candidates);
        List<UUID> givers =
                nodes.stream().filter(node -> !spread.toGiveUp(node).isEmpty()).toList();
        if (givers.isEmpty()) {
            return false;
        }
        assertThat(givers).hasSize(1);
        String role = spread.toGiveUp(givers.get(0)).iterator().next();
        holders.remove(role);
        var without = new DaemonSpread(holders, candidates);
        UUID taker = nodes.stream()
                .filter(node -> !node.equals(givers.get(0)) && without.surplus(role, node, List.of()) <= 0)
                .findFirst()
                .orElseThrow();
        holders.put(role, taker);
        return true;
    }
}
