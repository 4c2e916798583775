// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node.observation;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.node.observation.ObservationStore.Observation;
import dev.forge.cluster.internal.node.observation.ObservationStore.ObservedNode;
import dev.forge.cluster.internal.node.observation.Observer.Finding;
import dev.forge.cluster.internal.node.observation.Observer.Look;
import dev.forge.cluster.internal.node.observation.Observer.Verdict;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.node.NodeJoined;
import dev.forge.cluster.node.NodeLeft;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** What an observer decides about one other node, which is stale after ten seconds of silence and dead after fifteen. */
class ObserverTests {

    private static final OffsetDateTime SERVER_START = Instant.EPOCH.atOffset(ZoneOffset.UTC);

    private final AtomicLong nanos = new AtomicLong();
    private final Pace pace = new Pace(nanos::get, RandomGenerator.getDefault());
    private final UUID self = UUID.randomUUID();
    private final UUID other = UUID.randomUUID();
    private final List<ClusterEvent> events = new ArrayList<>();
    private Observer observer = new Observer(pace, Duration.ofMillis(250), true);
    private OffsetDateTime serverStart = SERVER_START;

    // The row of the other node.
    private boolean exists = true;
    private NodeStatus status = NodeStatus.ACTIVE;
    private long beats;
    private boolean lockMissing;
    private Duration staleAfter = Duration.ofSeconds(10);
    private Duration deadAfter = Duration.ofSeconds(15);
    private @Nullable Duration sessionIdle;

    /** Looks after a time, and does as the observer decides. */
    private Look look(Duration after) {
        nanos.addAndGet(after.toNanos());
        Look look = observer.look(observation(), self);
        events.addAll(look.events());
        for (Verdict verdict : look.verdicts()) {
            if (verdict.finding() == Finding.DEAD) {
                status = NodeStatus.DEAD;
                observer.declaredDead(verdict.node().id());
            } else if (verdict.finding() == Finding.STALE) {
                status = NodeStatus.STALE;
            }
        }
        return look;
    }

    private Look look() {
        return look(Duration.ZERO);
    }

    private void lookEverySecond(int seconds) {
        for (int second = 0; second < seconds; second++) {
            look(Duration.ofSeconds(1));
        }
    }

    private Observation observation() {
        var node = new ObservedNode(
                other, "other", status, beats, lockMissing, true, true, staleAfter, deadAfter, sessionIdle);
        return new Observation(serverStart, exists ? List.of(node) : List.of());
    }

    private boolean isSuspicious() {
        return observer.view(observation(), self, false).suspicious();
    }

    @Test
    void nodes_of_the_first_look_did_not_join_just_now() {
        assertThat(look().events()).isEmpty();
        exists = false;
        look();
        exists = true;
        look();
        assertThat(events).containsExactly(new NodeLeft(other, "other"), new NodeJoined(other, "other"));
    }

    @Test
    void death_that_another_observer_has_declared_is_told_once() {
        look();
        status = NodeStatus.DEAD;
        assertThat(look().verdicts()).isEmpty();
        look();
        exists = false;
        look();
        assertThat(events).containsExactly(new NodeDied(other, "other"));
    }

    @Test
    void silent_node_is_stale_and_then_dead_as_it_declared() {
        look();
        lookEverySecond(10);
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
        lookEverySecond(5);
        assertThat(status).isEqualTo(NodeStatus.STALE);
        assertThat(look(Duration.ofSeconds(1)).verdicts())
                .extracting(Verdict::reason)
                .containsExactly("no heartbeat for 16000 ms");
        assertThat(status).isEqualTo(NodeStatus.DEAD);
        assertThat(look(Duration.ofSeconds(1)).verdicts()).isEmpty();
    }

    @Test
    void heartbeat_restarts_the_count_of_silence() {
        look();
        for (int period = 0; period < 3; period++) {
            lookEverySecond(14);
            beats++;
            status = NodeStatus.ACTIVE;
            look();
            assertThat(status).isEqualTo(NodeStatus.ACTIVE);
        }
    }

    @Test
    void gap_between_two_looks_restarts_the_count_of_silence() {
        look();
        look(Duration.ofMinutes(5));
        look(Duration.ofSeconds(1));
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
    }

    @Test
    void restart_of_the_server_restarts_the_count_of_silence() {
        look();
        lookEverySecond(14);
        serverStart = SERVER_START.plusDays(1);
        lookEverySecond(14);
        assertThat(status).isNotEqualTo(NodeStatus.DEAD);
        lookEverySecond(3);
        assertThat(status).isEqualTo(NodeStatus.DEAD);
    }

    @Test
    void observer_of_a_large_cluster_looks_less_often_and_still_finds_nodes_dead() {
        pace.liveNodes(400);
        look();
        for (int look = 0; look < 3; look++) {
            look(Duration.ofSeconds(10));
        }
        assertThat(status).isEqualTo(NodeStatus.DEAD);
    }

    @Test
    void silence_does_not_count_while_the_observers_own_heartbeats_fail() {
        look();
        for (int second = 0; second < 30; second++) {
            observer.ownBeatFailed();
            look(Duration.ofSeconds(1));
        }
        observer.ownBeatArrived();
        lookEverySecond(14);
        assertThat(status).isNotEqualTo(NodeStatus.DEAD);
        look(Duration.ofSeconds(2));
        assertThat(status).isEqualTo(NodeStatus.DEAD);
    }

    @Test
    void silence_does_not_count_while_the_server_refuses_writes() {
        look();
        for (int second = 0; second < 30; second++) {
            nanos.addAndGet(Duration.ofSeconds(1).toNanos());
            if (!observer.look(observation(), self).verdicts().isEmpty()) {
                observer.writesRefused();
            }
        }
        lookEverySecond(2);
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
    }

    @Test
    void node_of_mode_observer_presumes_death_once_and_does_not_count_the_node() {
        observer = new Observer(pace, Duration.ofMillis(250), false);
        look();
        lookEverySecond(15);
        assertThat(look(Duration.ofSeconds(1)).verdicts())
                .extracting(Verdict::finding)
                .containsExactly(Finding.PRESUMED_DEAD);
        assertThat(look(Duration.ofSeconds(1)).verdicts()).isEmpty();
        assertThat(observer.view(observation(), self, false).live()).isZero();
        beats++;
        look();
        assertThat(observer.view(observation(), self, false).live()).isOne();
    }

    // Liveness locks ------------------------------------------------------------------------------------------

    @Test
    void node_without_lock_and_heartbeats_is_dead_after_a_grace_period() {
        look();
        lockMissing = true;
        look();
        assertThat(isSuspicious()).isTrue();
        look(Duration.ofMillis(500));
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
        look(Duration.ofMillis(100));
        assertThat(status).isEqualTo(NodeStatus.DEAD);
        assertThat(isSuspicious()).isFalse();
    }

    @Test
    void node_that_lost_its_lock_lives_as_long_as_it_sends_heartbeats() {
        look();
        lockMissing = true;
        for (int look = 0; look < 8; look++) {
            beats++;
            look(Duration.ofMillis(250));
        }
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
    }

    @Test
    void node_whose_lock_was_never_seen_gets_time_to_take_it() {
        lockMissing = true;
        look();
        for (int look = 0; look < 11; look++) {
            look(Duration.ofMillis(500));
        }
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
        look(Duration.ofMillis(500));
        assertThat(status).isEqualTo(NodeStatus.DEAD);
    }

    @Test
    void missing_lock_does_not_count_for_a_while_after_the_observers_own_session_was_lost() {
        look();
        lockMissing = true;
        observer.sessionLost();
        for (int second = 0; second < 14; second++) {
            look(Duration.ofSeconds(1));
            beats += second % 5 == 0 ? 1 : 0;
        }
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
        look(Duration.ofSeconds(1));
        look(Duration.ofMillis(700));
        assertThat(status).isEqualTo(NodeStatus.DEAD);
    }

    /** A node with a heartbeat every 30 s, whose session was used that long ago when it ended. */
    private void slowNode(Duration idle) {
        staleAfter = Duration.ofSeconds(60);
        deadAfter = Duration.ofSeconds(90);
        sessionIdle = Duration.ZERO;
        look();
        lookEverySecond(13);
        for (Duration since = Duration.ZERO; since.compareTo(idle) < 0; since = since.plusSeconds(1)) {
            sessionIdle = since;
            look(Duration.ofSeconds(1));
        }
        lockMissing = true;
        sessionIdle = null;
        look();
    }

    @Test
    void crashed_node_with_a_slow_heartbeat_is_dead_soon_after_its_session_ended() {
        slowNode(Duration.ofSeconds(2));
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
        look(Duration.ofMillis(600));
        assertThat(status).isEqualTo(NodeStatus.DEAD);
    }

    @Test
    void node_that_may_only_be_cut_off_gets_time_to_notice() {
        slowNode(Duration.ofSeconds(8));
        lookEverySecond(12);
        assertThat(status).isEqualTo(NodeStatus.ACTIVE);
        lookEverySecond(1);
        assertThat(status).isEqualTo(NodeStatus.DEAD);
    }
}
