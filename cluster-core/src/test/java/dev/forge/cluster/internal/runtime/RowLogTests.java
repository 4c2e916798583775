// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.runtime.RowLog.Line;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RowLogTests {

    private long now = 5;
    private final RowLog rows = new RowLog(() -> now);

    private List<Line> lines(String kind, int number) {
        var lines = new ArrayList<Line>();
        for (int i = 0; i < number; i++) {
            lines.add(rows.next(kind));
        }
        return lines;
    }

    @Test
    void first_lines_are_logged_and_further_ones_are_counted_when_their_number_has_doubled() {
        List<Line> lines = lines("bad", 20_000);
        assertThat(lines).filteredOn(Line::first).hasSize(RowLog.FIRST);
        assertThat(lines)
                .extracting(Line::further)
                .filteredOn(further -> further > 0)
                .containsExactly(10L, 20L, 40L, 80L, 160L, 320L, 640L, 1_280L, 2_560L, 5_120L);
    }

    @Test
    void kind_begins_anew_after_a_quiet_time_and_tells_what_was_not_counted() {
        lines("bad", 25);
        now += RowLog.QUIET.toNanos() - 1;
        assertThat(rows.next("bad")).isEqualTo(new Line(0, false, 0));
        now += RowLog.QUIET.toNanos();
        assertThat(rows.next("bad")).isEqualTo(new Line(6, true, 0));
    }

    @Test
    void kinds_do_not_hide_each_other_and_are_bounded() {
        lines("noisy", 1_000);
        assertThat(rows.next("quiet").first()).isTrue();
        for (int i = 0; i < RowLog.MOST_KINDS; i++) {
            rows.next("kind " + i);
        }
        assertThat(rows.next("noisy").first()).as("forgotten").isTrue();
    }
}
