// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.purge;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.dao.QueryTimeoutException;

/** Batches of rows with a given cost, on a clock that the test moves. */
class PurgeBatchTests {

    private final AtomicLong nanos = new AtomicLong();
    private final List<Integer> limits = new ArrayList<>();
    private final PurgeBatch batch = new PurgeBatch("rows", 5_000, nanos::get);
    private int rows;
    private Duration each = Duration.ZERO;
    /** The timeout of a statement. */
    private Duration timeout = Duration.ofDays(1);

    private int delete(int limit) {
        limits.add(limit);
        int deleted = Math.min(limit, rows);
        Duration took = each.multipliedBy(deleted);
        if (took.compareTo(timeout) > 0) {
            nanos.addAndGet(timeout.toNanos());
            throw new QueryTimeoutException("canceled", new SQLException("canceling statement", "57014"));
        }
        nanos.addAndGet(took.toNanos());
        rows -= deleted;
        return deleted;
    }

    @Test
    void fast_statements_delete_twice_as_many_rows_each_time_up_to_a_limit() {
        rows = 12_000;
        batch.deleteAll(this::delete);
        assertThat(limits).containsExactly(500, 1_000, 2_000, 4_000, 5_000);
        assertThat(rows).isZero();
    }

    @Test
    void slow_statements_delete_half_as_many_rows_each_time() {
        rows = 1_000;
        each = Duration.ofMillis(2);
        batch.deleteAll(this::delete);
        // 500 rows take a second, 250 half a second, which is neither slow nor fast.
        assertThat(limits).containsExactly(500, 250, 250, 250);
        assertThat(rows).isZero();
    }

    @Test
    void statement_that_times_out_is_repeated_with_a_quarter_of_the_rows() {
        rows = 40;
        each = Duration.ofSeconds(1);
        timeout = Duration.ofSeconds(3);
        batch.deleteAll(this::delete);
        // 40, 31 and 7 rows are too many. One row takes a second, which is slow, but a batch has at least one row.
        assertThat(limits.subList(0, 5)).containsExactly(500, 125, 31, 7, 1);
        assertThat(rows).isZero();
    }

    @Test
    void size_is_kept_for_the_next_pass() {
        rows = 500;
        each = Duration.ofMillis(2);
        batch.deleteAll(this::delete);
        limits.clear();
        batch.deleteAll(this::delete);
        assertThat(limits).containsExactly(250);
    }

    @Test
    void single_row_that_cannot_be_deleted_in_time_ends_the_pass() {
        rows = 10;
        each = Duration.ofSeconds(5);
        timeout = Duration.ofSeconds(4);
        assertThatExceptionOfType(QueryTimeoutException.class).isThrownBy(() -> batch.deleteAll(this::delete));
        assertThat(limits).endsWith(1);
        assertThat(rows).isEqualTo(10);
    }

    @Test
    void permanent_failure_ends_the_pass() {
        assertThatExceptionOfType(DataAccessException.class)
                .isThrownBy(() -> batch.deleteAll(limit -> {
                    limits.add(limit);
                    throw new DataIntegrityViolationException("referenced", new SQLException("referenced", "23503"));
                }));
        assertThat(limits).containsExactly(500);
    }
}
