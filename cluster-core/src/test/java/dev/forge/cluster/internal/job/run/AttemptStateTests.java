// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.Claim.Stop;
import dev.forge.cluster.internal.job.run.AttemptState.Event;
import dev.forge.cluster.internal.job.run.AttemptState.Phase;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Applies every event in every state, and compares the result with the table of the package documentation. */
class AttemptStateTests {

    /** The phase that an event leads to from QUEUED, RUNNING, RETURNED, ENDING and ENDED, if nothing else decides; "-": none. */
    private static final Map<Event, String> PHASES = new EnumMap<>(Map.of(
            Event.START, "RUNNING - - - -",
            Event.RETURN, "- RETURNED - - -",
            Event.TIMEOUT, "- - - - -",
            Event.ASK, "- - - - -",
            Event.DRAIN, "- - - - -",
            Event.LOSE, "ENDED - - - -",
            Event.WITHDRAW, "ENDED - - - -",
            Event.ISOLATE, "- QUEUED QUEUED QUEUED -",
            Event.END, "- ENDING ENDING - -",
            Event.SETTLE, "- - - ENDED -"));

    /** The reason to stop that an event gives to an attempt without one. */
    private static final Map<Event, String> STOPS = new EnumMap<>(Map.of(
            Event.TIMEOUT, "- TIMEOUT - - -",
            Event.DRAIN, "DRAIN DRAIN - - -",
            Event.LOSE, "LOST LOST LOST LOST -"));

    private static List<AttemptState> states() {
        var states = new ArrayList<AttemptState>();
        for (Phase phase : Phase.values()) {
            for (boolean asked : new boolean[] {false, true}) {
                states.add(new AttemptState(phase, null, asked));
                for (Stop stop : Stop.values()) {
                    states.add(new AttemptState(phase, stop, asked));
                }
            }
        }
        return states;
    }

    private static Stream<Event> events() {
        return Stream.of(Event.values());
    }

    private static @Nullable String cell(@Nullable String row, Phase phase) {
        String cell = row == null
                ? "-"
                : List.of(row.split(" ", -1)).get(List.of(Phase.values()).indexOf(phase));
        return cell.equals("-") ? null : cell;
    }

    private static AttemptState expected(AttemptState state, Event event) {
        String phase = cell(PHASES.get(event), state.phase());
        String stop = cell(STOPS.get(event), state.phase());
        Phase next = phase == null ? state.phase() : Phase.valueOf(phase);
        Stop reason = stop != null && (state.stop() == null || event == Event.LOSE) ? Stop.valueOf(stop) : state.stop();
        boolean asked = state.asked() || (event == Event.ASK && state.phase() != Phase.ENDED);
        if (event == Event.START && state.stop() != null) {
            next = state.phase();
        }
        if (event == Event.ISOLATE && phase != null) {
            next = state.stop() == Stop.LOST ? Phase.ENDED : Phase.QUEUED;
            reason = state.stop() == Stop.TIMEOUT ? null : state.stop();
        }
        if (event == Event.LOSE && state.stop() == Stop.LOST) {
            next = state.phase();
        }
        return new AttemptState(next, reason, asked);
    }

    @ParameterizedTest
    @MethodSource("events")
    void event_changes_each_state_as_documented(Event event) {
        for (AttemptState state : states()) {
            assertThat(state.after(event)).as("%s in %s", event, state).isEqualTo(expected(state, event));
        }
    }

    @ParameterizedTest
    @MethodSource("events")
    void event_that_changes_nothing_returns_the_same_state(Event event) {
        for (AttemptState state : states()) {
            AttemptState after = state.after(event);
            if (after.equals(state)) {
                assertThat(after).as("%s in %s", event, state).isSameAs(state);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("events")
    void lost_claim_is_never_forgotten(Event event) {
        states().stream()
                .filter(state -> state.stop() == Stop.LOST)
                .forEach(state -> assertThat(state.after(event).stop()).isEqualTo(Stop.LOST));
    }

    @ParameterizedTest
    @MethodSource("events")
    void ended_attempt_does_not_change(Event event) {
        states().stream()
                .filter(state -> state.phase() == Phase.ENDED && state.stop() != null)
                .forEach(state -> assertThat(state.after(event)).isSameAs(state));
    }

    @Test
    void handler_that_has_returned_is_not_stopped_by_a_timeout_or_a_drain() {
        AttemptState returned = AttemptState.CLAIMED.after(Event.START).after(Event.RETURN);
        assertThat(returned.after(Event.TIMEOUT).after(Event.DRAIN).stop()).isNull();
        assertThat(returned.after(Event.LOSE).stop()).isEqualTo(Stop.LOST);
    }
}
