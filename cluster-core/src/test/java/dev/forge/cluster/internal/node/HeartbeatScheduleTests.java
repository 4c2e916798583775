// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.NodeStore.Deadlines;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class HeartbeatScheduleTests {

    private static final boolean WITH_SESSION = true;
    private static final boolean WITHOUT_SESSION = false;

    private static HeartbeatSchedule steady() {
        return pulse(Duration.ofSeconds(5), false);
    }

    private static HeartbeatSchedule adaptive() {
        return pulse(Duration.ofSeconds(5), true);
    }

    private static HeartbeatSchedule pulse(Duration interval, boolean adaptive) {
        return new HeartbeatSchedule(new NodeSettings.Heartbeat(
                interval, adaptive, Duration.ofMinutes(1), Duration.ofSeconds(10), Duration.ofSeconds(15)));
    }

    private static void beat(HeartbeatSchedule pulse) {
        pulse.beating(false);
        pulse.answered(true);
    }

    @Test
    void heartbeats_come_once_an_interval_from_the_start() {
        HeartbeatSchedule pulse = steady();
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(5));
        beat(pulse);
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(5));
    }

    @Test
    void failed_heartbeat_is_repeated_after_half_a_second_until_one_succeeds() {
        HeartbeatSchedule pulse = steady();
        pulse.beating(false);
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofMillis(500));
        pulse.beating(false);
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofMillis(500));
        pulse.answered(true);
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(5));
    }

    @Test
    void node_without_its_session_sends_five_heartbeats_a_second_even_after_a_failed_one() {
        HeartbeatSchedule pulse = steady();
        assertThat(pulse.pause(WITHOUT_SESSION)).isEqualTo(Duration.ofMillis(200));
        pulse.beating(false);
        assertThat(pulse.pause(WITHOUT_SESSION)).isEqualTo(Duration.ofMillis(200));
        pulse.answered(false);
        assertThat(pulse.pause(WITHOUT_SESSION)).isEqualTo(Duration.ofMillis(200));
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(5));
    }

    @Test
    void fast_schedule_keeps_its_pause_after_a_failure_or_without_a_session() {
        HeartbeatSchedule fast = pulse(Duration.ofMillis(100), false);
        assertThat(fast.pause(WITHOUT_SESSION)).isEqualTo(Duration.ofMillis(100));
        fast.beating(false);
        assertThat(fast.pause(WITH_SESSION)).isEqualTo(Duration.ofMillis(100));
    }

    @Test
    void adaptive_schedule_doubles_its_pause_while_nothing_happens_up_to_the_longest() {
        HeartbeatSchedule pulse = adaptive();
        for (int seconds : new int[] {10, 20, 40, 60, 60}) {
            beat(pulse);
            assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(seconds));
        }
    }

    @Test
    void failed_heartbeat_and_one_during_a_change_do_not_slow_the_schedule_down() {
        HeartbeatSchedule pulse = adaptive();
        pulse.beating(false);
        pulse.beating(false);
        pulse.answered(false);
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(5));
    }

    @Test
    void change_ends_the_slow_down_of_an_adaptive_schedule_and_causes_a_heartbeat_at_once() {
        HeartbeatSchedule pulse = adaptive();
        beat(pulse);
        beat(pulse);
        assertThat(pulse.isBeatDue(true, false)).isTrue();
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(5));
        assertThat(pulse.deadlines()).isEqualTo(new Deadlines(Duration.ofSeconds(20), Duration.ofSeconds(30)));
    }

    @Test
    void steady_schedule_keeps_its_pause_and_deadlines_after_a_change() {
        HeartbeatSchedule pulse = steady();
        beat(pulse);
        assertThat(pulse.isBeatDue(true, true)).isFalse();
        assertThat(pulse.deadlines()).isEqualTo(new Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(15)));
    }

    @Test
    void each_heartbeat_declares_deadlines_that_fit_the_pause_after_it() {
        HeartbeatSchedule pulse = adaptive();
        for (int beat = 0; beat < 6; beat++) {
            Deadlines declared = pulse.beating(false);
            pulse.answered(true);
            Duration pause = pulse.pause(WITH_SESSION);
            // Stale after two missed heartbeats and dead after three, so that one may get lost.
            assertThat(declared.stale()).isGreaterThanOrEqualTo(pause.multipliedBy(2));
            assertThat(declared.dead()).isGreaterThanOrEqualTo(pause.multipliedBy(3));
        }
        assertThat(pulse.deadlines()).isEqualTo(new Deadlines(Duration.ofMinutes(2), Duration.ofMinutes(3)));
    }

    @Test
    void deadlines_never_fall_below_those_of_the_settings() {
        assertThat(pulse(Duration.ofMillis(100), true).deadlines())
                .isEqualTo(new Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(15)));
    }

    @Test
    void busy_node_keeps_its_interval_and_deadlines() {
        HeartbeatSchedule pulse = adaptive();
        beat(pulse);
        beat(pulse);
        assertThat(pulse.isBeatDue(false, false)).isFalse();
        assertThat(pulse.isBeatDue(false, true)).isTrue();
        pulse.beating(true);
        assertThat(pulse.deadlines()).isEqualTo(new Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(15)));
        pulse.answered(true);
        assertThat(pulse.pause(WITH_SESSION)).isEqualTo(Duration.ofSeconds(5));
        assertThat(pulse.isBeatDue(false, true)).isFalse();
    }
}
