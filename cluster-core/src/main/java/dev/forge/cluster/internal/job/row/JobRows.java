// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.function.ToLongFunction;

/** What the stores of {@code forge_jobs} share: status words, conditions on claims, the attempt history, the size of statements. */
public final class JobRows {

    /** The statuses of jobs that have not ended, as an SQL list. */
    public static final String ACTIVE = "('pending', 'claimed', 'running')";

    /** The statuses of jobs that a node holds, as an SQL list. */
    public static final String HELD = "('claimed', 'running')";

    /** The largest number of entries in {@code attempt_history}; the oldest entry is dropped first. */
    public static final int LONGEST_HISTORY = 20;

    /** The largest number of characters that one entry keeps of its error. */
    public static final int LONGEST_HISTORY_ERROR = 2_000;

    /** The largest count of attempts or recoveries that the constraints of the table allow. Statements stop counting there. */
    static final int MOST_COUNTED = 1_000_000_000;

    /**
     * Whether the node of a parameter holds row {@code j}. Written so that the planner does not use the index on holders:
     * that index is full of dead entries for a busy node, and rows must be found by their ids.
     */
    static final String HELD_BY_NODE = """
            j.worker_id IS NOT DISTINCT FROM ?
            AND j.status NOT IN ('pending', 'completed', 'failed', 'cancelled', 'abandoned')""";

    /** The claims among ids and epochs of parameters that the node of a third parameter holds, as rows {@code j}. */
    static final String CLAIMS_OF_NODE = """
            unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
            JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch WHERE %s""".formatted(HELD_BY_NODE);

    /** Whether the name of row {@code j} begins with none of the prefixes of an array. */
    static final String NOT_RESERVED =
            "NOT EXISTS (SELECT FROM unnest(?::text[]) AS r (prefix) WHERE starts_with(j.name, r.prefix))";

    static final String UNIQUE_VIOLATION = "23505";

    /** The largest number of JSON characters in the parameters of one statement, approximately. */
    private static final long STATEMENT_LENGTH = 8_000_000;

    private JobRows() {}

    /**
     * Returns an SQL expression for the attempt history of row {@code j} plus one entry, for the statement that ends the
     * attempt. A job that succeeds at its first attempt never has a history. The expression tolerates a column that was edited by
     * hand.
     */
    static String historyWith(String outcome, String ranMillis, String error) {
        return """
                CASE WHEN jsonb_typeof(j.attempt_history) = 'array'
                    THEN CASE WHEN jsonb_array_length(j.attempt_history) >= %d THEN j.attempt_history - 0
                              ELSE j.attempt_history END
                    ELSE '[]'::jsonb END
                || jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
                    'attempt', j.attempts, 'epoch', j.claim_epoch, 'node', j.worker_id,
                    'startedAt', date_trunc('milliseconds',
                        coalesce(j.started_at, clock_timestamp() - coalesce(%3$s, 0) * interval '1 millisecond')),
                    'millis', %3$s, 'outcome', %2$s, 'error', left(%4$s, %5$d))))""".formatted(LONGEST_HISTORY, outcome, ranMillis, error, LONGEST_HISTORY_ERROR);
    }

    /** Divides rows into parts of about {@link #STATEMENT_LENGTH} characters, each with at least one row. */
    static <T> List<List<T>> inParts(List<T> all, ToLongFunction<T> length) {
        List<List<T>> parts = new ArrayList<>();
        int from = 0;
        long size = 0;
        for (int i = 0; i < all.size(); i++) {
            size += length.applyAsLong(all.get(i));
            if (size > STATEMENT_LENGTH || i == all.size() - 1) {
                parts.add(all.subList(from, i + 1));
                from = i + 1;
                size = 0;
            }
        }
        return parts;
    }

    /** Returns claims in the order of their job ids: statements that lock rows in one order cannot deadlock. */
    static List<ClaimKey> sorted(Collection<ClaimKey> keys) {
        return keys.stream().sorted(Comparator.comparing(ClaimKey::id)).toList();
    }
}
