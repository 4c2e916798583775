// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataIntegrityViolationException;

/** The search for rows that make a statement fail. */
class BisectTests {

    private final List<Integer> done = new ArrayList<>();
    private final List<Integer> culprits = new ArrayList<>();
    private final List<Integer> sizes = new ArrayList<>();

    private Bisect<Integer> rejecting(Set<Integer> bad, boolean ofRow, int mostFailures) {
        return new Bisect<>(
                rows -> {
                    sizes.add(rows.size());
                    if (rows.stream().anyMatch(bad::contains)) {
                        throw new DataIntegrityViolationException("rejected");
                    }
                    done.addAll(rows);
                },
                failure -> ofRow,
                mostFailures,
                (row, failure) -> culprits.add(row));
    }

    private static List<Integer> rows(int count) {
        return IntStream.range(0, count).boxed().toList();
    }

    @Test
    void all_rows_but_the_rejected_ones_are_done_in_their_order() {
        rejecting(Set.of(3, 17, 18), true, 100).run(rows(50));
        assertThat(culprits).containsExactly(3, 17, 18);
        assertThat(done).hasSize(47).isSorted().doesNotContain(3, 17, 18);
    }

    @Test
    void rows_that_are_all_accepted_take_one_statement_and_no_rows_none() {
        rejecting(Set.of(), true, 100).run(rows(50));
        rejecting(Set.of(), true, 100).run(List.of());
        assertThat(sizes).containsExactly(50);
    }

    @Test
    void failure_that_no_row_has_caused_ends_the_search() {
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> rejecting(Set.of(3), false, 100).run(rows(50)));
        assertThat(sizes).containsExactly(50);
    }

    @Test
    void number_of_failures_is_limited_over_several_runs() {
        Bisect<Integer> bisect = rejecting(Set.of(0), true, 3);
        bisect.run(rows(2));
        assertThatExceptionOfType(DataIntegrityViolationException.class).isThrownBy(() -> bisect.run(rows(2)));
        assertThat(culprits).containsExactly(0);
    }
}
