// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Finds queues with due jobs. A {@link Queue} holds the pending jobs of one name, capability and priority, those with a group
 * apart from the others; an index leads directly to its oldest row. So neither a search nor {@link JobClaimStore#claim} reads a row that the node may not take, however
 * many such rows exist.
 */
public final class JobQueueStore {

    /**
     * The timeout of a search. A search takes longer where an old snapshot keeps millions of dead index entries; {@link
     * #recentQueues} still finds jobs then, because it does not read those entries.
     */
    private static final int SEARCH_SECONDS = 2;

    private final Tables tables;

    public JobQueueStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * The result of a search.
     *
     * @param due queues with their oldest job, the most urgent queue first
     * @param nextMillis time until the next job becomes due; null if there is none
     * @param marks for each queue that was seen, the place from which the next search has to read it
     * @param unseen names and capabilities with more queues than the search went through, with the rank of the last one
     */
    public record Queues(
            List<Head> due, @Nullable Long nextMillis, Map<Queue, Mark> marks, Map<Place, Integer> unseen) {}

    /** The queues of one name and capability, of all priorities. */
    public record Place(String name, String capability) {}

    /**
     * What to search.
     *
     * @param marks results of earlier searches. Jobs before the mark of their queue are not read, so that a search does not
     *     read the dead index entries that an old snapshot keeps. Jobs that were committed within a second of their time are
     *     found nevertheless; a job that was committed later, or with a time in the past, is found only by a search without marks
     * @param most the largest number of queues of one {@link Place}, the most urgent first
     * @param continued what an earlier search left {@linkplain Queues#unseen unseen}: this search goes through that many of them
     */
    public record Search(
            Collection<String> names,
            Collection<String> capabilities,
            Map<Queue, Mark> marks,
            int most,
            Map<Place, Integer> continued) {}

    /** A job that is due, and where it is. */
    public record DueJob(
            UUID id, Queue queue, Mark mark, @Nullable String group) {}

    /** Finds a job that is due, waits for no other, and whose name is not paused. */
    public Optional<DueJob> find(UUID job) {
        return tables.sql("""
                        SELECT j.name, coalesce(j.worker_capability, ''), %s, j.scheduled_at, j.job_group FROM ~.forge_jobs j
                        WHERE j.id = ? AND j.status = 'pending' AND j.waits_for IS NULL AND j.scheduled_at <= now()
                          AND NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = j.name)
                        """.formatted(Queue.RANK))
                .param(job)
                .query((row, n) -> new DueJob(
                        job,
                        Queue.ranked(row.getString(1), row.getString(2), row.getInt(3)),
                        new Mark(row.getObject(4, OffsetDateTime.class).toInstant(), job),
                        row.getString(5)))
                .optional();
    }

    /** The oldest due job of a queue. */
    public record Head(Queue queue, Mark mark) {}

    /** Returns the queues of these names and capabilities that are not paused, each read from its beginning. */
    public Queues queues(Collection<String> names, Collection<String> capabilities) {
        return queues(names, capabilities, Map.of());
    }

    /** Returns the queues of these names and capabilities that are not paused, each read from its mark. */
    public Queues queues(Collection<String> names, Collection<String> capabilities, Map<Queue, Mark> marks) {
        return queues(new Search(names, capabilities, marks, Integer.MAX_VALUE, Map.of()));
    }

    /** The last part of a search: what is due in each queue, and what becomes due next. */
    private static final String SEEN = """
            ), seen AS (
                SELECT q.*,
                       CASE WHEN q.head <= now() THEN
                           (SELECT j.scheduled_at FROM ~.forge_jobs j
                            WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = q.name
                              AND coalesce(j.worker_capability, '') = q.capability
                              AND %s = q.rank
                              AND j.scheduled_at > now() AND j.scheduled_at < now() + interval '1 day'
                            ORDER BY j.scheduled_at LIMIT 1)
                           WHEN q.head < now() + interval '1 day' THEN q.head END AS next
                FROM queue q
            )
            SELECT name, capability, rank, CASE WHEN head <= now() THEN head END,
                   (extract(epoch FROM next - now()) * 1000)::bigint,
                   least(head, now() - interval '1 second'),
                   CASE WHEN head < now() - interval '1 second' THEN head_id END, depth, head_id
            FROM seen
            """.formatted(Queue.RANK);

    /** Collects the rows of {@link #SEEN}. */
    private static final class Found {

        private final int most;
        private final List<Head> due = new ArrayList<>();
        private @Nullable Long next;
        private final Map<Queue, Mark> marks = new HashMap<>();
        private final Map<Place, Integer> unseen = new HashMap<>();

        Found(int most) {
            this.most = most;
        }

        void add(ResultSet row) throws SQLException {
            Queue queue = Queue.ranked(row.getString(1), row.getString(2), row.getInt(3));
            OffsetDateTime head = row.getObject(4, OffsetDateTime.class);
            if (head != null) {
                due.add(new Head(queue, new Mark(head.toInstant(), row.getObject(9, UUID.class))));
            }
            Long soon = row.getObject(5, Long.class);
            Long earlier = next;
            if (soon != null && (earlier == null || soon < earlier)) {
                next = soon;
            }
            UUID id = row.getObject(7, UUID.class);
            marks.put(
                    queue,
                    new Mark(row.getObject(6, OffsetDateTime.class).toInstant(), id == null ? Mark.FIRST_ID : id));
            if (row.getInt(8) == most) {
                // The last row of a gap: the next search continues below the least urgent of these.
                unseen.merge(new Place(queue.name(), queue.capability()), queue.rank(), Math::min);
            }
        }

        Queues queues() {
            due.sort(Comparator.comparingInt((Head head) -> -head.queue.priority())
                    .thenComparing(Head::mark));
            // Zero is the lowest rank.
            unseen.values().removeIf(last -> last == 0);
            return new Queues(due, next, marks, unseen);
        }
    }

    /**
     * Returns the queues of these names and capabilities that are not paused, ignoring jobs that were due longer ago than {@code
     * reach}. Such a search reads no older dead index entries, however many a snapshot keeps.
     */
    public Queues recentQueues(Collection<String> names, Collection<String> capabilities, Duration reach) {
        var found = new Found(Integer.MAX_VALUE);
        tables.query(
                // For each possible rank: finding out which ranks exist would read the dead entries.
                """
                            WITH queue (name, capability, rank, head, head_id, depth) AS (
                                SELECT n.name, c.capability, r.rank, first.scheduled_at, first.id, 0
                                FROM unnest(?::text[]) AS n (name) CROSS JOIN unnest(?::text[]) AS c (capability)
                                CROSS JOIN generate_series(0, %2$d) AS r (rank)
                                CROSS JOIN LATERAL (
                                    SELECT j.scheduled_at, j.id FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = n.name
                                      AND coalesce(j.worker_capability, '') = c.capability AND %1$s = r.rank
                                      AND j.scheduled_at >= now() - ? * interval '1 millisecond'
                                    ORDER BY j.scheduled_at, j.id LIMIT 1) AS first
                                WHERE NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = n.name)
                            """.formatted(Queue.RANK, Queue.LARGEST_RANK) + SEEN,
                statement -> {
                    statement.setQueryTimeout(SEARCH_SECONDS);
                    SqlArrays.bind(statement, 1, "text", List.copyOf(names), name -> name);
                    SqlArrays.bind(statement, 2, "text", List.copyOf(capabilities), capability -> capability);
                    statement.setLong(3, reach.toMillis());
                },
                found::add);
        return found.queues();
    }

    /** Returns the queues that are not paused. */
    public Queues queues(Search search) {
        var found = new Found(search.most);
        tables.query(
                // The first pending row of a queue has both its rank and its oldest time, so that dead entries
                // are read once. Between queues with a mark there may be unknown ones: gaps.
                """
                            WITH RECURSIVE gap (name, capability, above, rank, head, head_id, depth) AS (
                                SELECT g.name, g.capability, g.above, first.rank, first.scheduled_at, first.id, 1
                                FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[])
                                         AS g (name, capability, above, below)
                                CROSS JOIN LATERAL (
                                    SELECT %1$s AS rank, j.scheduled_at, j.id FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = g.name
                                      AND coalesce(j.worker_capability, '') = g.capability
                                      AND %1$s > g.above AND %1$s < g.below
                                    ORDER BY %1$s DESC, j.scheduled_at, j.id LIMIT 1) AS first
                                WHERE NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = g.name)
                                UNION ALL
                                SELECT g.name, g.capability, g.above, first.rank, first.scheduled_at, first.id, g.depth + 1
                                FROM gap g
                                CROSS JOIN LATERAL (
                                    SELECT %1$s AS rank, j.scheduled_at, j.id FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = g.name
                                      AND coalesce(j.worker_capability, '') = g.capability
                                      AND %1$s > g.above AND %1$s < g.rank
                                    ORDER BY %1$s DESC, j.scheduled_at, j.id LIMIT 1) AS first
                                WHERE g.depth < ?
                            ), queue (name, capability, rank, head, head_id, depth) AS (
                                SELECT name, capability, rank, head, head_id, depth FROM gap
                                UNION ALL
                                SELECT m.name, m.capability, m.rank, first.scheduled_at, first.id, 0
                                FROM unnest(?::text[], ?::text[], ?::int[], ?::timestamptz[], ?::uuid[])
                                         AS m (name, capability, rank, mark, id)
                                LEFT JOIN LATERAL (
                                    SELECT j.scheduled_at, j.id FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = m.name
                                      AND coalesce(j.worker_capability, '') = m.capability
                                      AND %1$s = m.rank AND (j.scheduled_at, j.id) >= (m.mark, m.id)
                                    ORDER BY j.scheduled_at, j.id LIMIT 1) AS first ON true
                                WHERE NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = m.name)
                            """.formatted(Queue.RANK) + SEEN,
                statement -> {
                    statement.setQueryTimeout(SEARCH_SECONDS);
                    Places.of(search).bind(statement, search.most);
                },
                found::add);
        return found.queues();
    }

    /** What a search reads: queues with a mark, and all ranks between them. */
    private record Places(List<Gap> gaps, List<Head> marked) {

        /** The ranks between two known queues. */
        record Gap(String name, String capability, long above, long below) {}

        static Places of(Search search) {
            Map<String, List<Head>> known = new HashMap<>();
            search.marks.forEach((queue, mark) ->
                    known.computeIfAbsent(queue.name(), n -> new ArrayList<>()).add(new Head(queue, mark)));
            List<Gap> gaps = new ArrayList<>();
            List<Head> marked = new ArrayList<>();
            for (String name : search.names) {
                for (String capability : search.capabilities) {
                    long below = Long.MAX_VALUE;
                    List<Head> here = known.getOrDefault(name, List.of()).stream()
                            .filter(head -> head.queue.capability().equals(capability))
                            .sorted(Comparator.comparingInt(head -> -head.queue.rank()))
                            .toList();
                    for (Head head : here) {
                        gaps.add(new Gap(name, capability, head.queue.rank(), below));
                        below = head.queue.rank();
                    }
                    gaps.add(new Gap(name, capability, Long.MIN_VALUE, below));
                    marked.addAll(here);
                    Integer last = search.continued.get(new Place(name, capability));
                    if (last != null) {
                        gaps.add(new Gap(name, capability, Long.MIN_VALUE, last));
                    }
                }
            }
            return new Places(gaps, marked);
        }

        void bind(PreparedStatement statement, int most) throws SQLException {
            SqlArrays.bind(statement, 1, "text", gaps, Gap::name);
            SqlArrays.bind(statement, 2, "text", gaps, Gap::capability);
            SqlArrays.bind(statement, 3, "int8", gaps, Gap::above);
            SqlArrays.bind(statement, 4, "int8", gaps, Gap::below);
            statement.setInt(5, most);
            SqlArrays.bind(statement, 6, "text", marked, head -> head.queue.name());
            SqlArrays.bind(statement, 7, "text", marked, head -> head.queue.capability());
            SqlArrays.bind(statement, 8, "int4", marked, head -> head.queue.rank());
            SqlArrays.bind(
                    statement,
                    9,
                    "timestamptz",
                    marked,
                    head -> head.mark.scheduledAt().toString());
            SqlArrays.bind(statement, 10, "uuid", marked, head -> head.mark.id());
        }
    }
}
