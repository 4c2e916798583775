// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.job.row.JobConditions;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A walk through jobs in the order of an index, from which it can be continued at any entry.
 *
 * @param from the table, and the condition of the walk, which includes that of the index
 * @param id the column with the id of the job
 * @param matched the expression that says whether a job matches the filter
 * @param order the columns of the index that follow those with a fixed value; together they are unique
 */
public record JobWalk(String from, String id, String matched, List<Column> order) {

    /** Ids begin with a clock of a node, and rows are inserted after the id was made. */
    private static final long ID_SLACK_MILLIS = 24 * 60 * 60 * 1000L;

    /** By how much the clocks of two nodes usually differ at most. */
    private static final long USUAL_SLACK_MILLIS = 60 * 1000L;

    private static final int TIME_BITS_OFFSET = 16;
    private static final int TIME_ORDERED = 7;

    /** For few rows, which are sorted: otherwise the planner may prefer the order of all ids, and read the whole table. */
    private static final Column UNINDEXED_ID = new Column("id::text", Type.TEXT, true);

    private static final String ACTIVE_FLAG = "(status IN ('pending', 'claimed', 'running'))";

    /** A column of an order. */
    record Column(String expression, Type type, boolean descending) {}

    /** How the value of a column is written into a cursor. */
    enum Type {
        ID("uuid", UUID.class),
        TEXT("text", String.class),
        NUMBER("int", Integer.class),
        FLAG("boolean", Boolean.class),
        // Infinite times are the first and the last that Java has.
        TIME("timestamptz", OffsetDateTime.class),
        LOCAL_TIME("timestamp", LocalDateTime.class);

        // What PostgreSQL can store, in UTC. The driver sends the few weeks before the first one as -infinity.
        private static final LocalDateTime EARLIEST = LocalDateTime.of(-4712, 1, 1, 0, 0);
        private static final LocalDateTime AFTER_LATEST = LocalDateTime.of(294_277, 1, 1, 0, 0);

        final String sql;
        final Class<?> java;

        Type(String sql, Class<?> java) {
            this.sql = sql;
            this.java = java;
        }

        /** @throws RuntimeException if the text is no value that the database may have returned */
        void requireStorable(String text) {
            Object value = parse(text);
            boolean infinite = value.equals(OffsetDateTime.MIN)
                    || value.equals(OffsetDateTime.MAX)
                    || value.equals(LocalDateTime.MIN)
                    || value.equals(LocalDateTime.MAX);
            LocalDateTime time = infinite
                    ? EARLIEST
                    : value instanceof OffsetDateTime zoned
                            ? zoned.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime()
                            : value instanceof LocalDateTime local ? local : EARLIEST;
            if (text.indexOf('\0') >= 0 || time.isBefore(EARLIEST) || !time.isBefore(AFTER_LATEST)) {
                throw new IllegalArgumentException("not storable");
            }
        }

        /** @throws RuntimeException if the text is no such value */
        Object parse(String text) {
            return switch (this) {
                case ID -> UUID.fromString(text);
                case TEXT -> text;
                case NUMBER -> Integer.valueOf(text);
                case FLAG -> Boolean.valueOf(text);
                case TIME -> OffsetDateTime.parse(text);
                case LOCAL_TIME -> LocalDateTime.parse(text);
            };
        }
    }

    private static JobWalk ofJobs(String condition, Column... order) {
        return new JobWalk(
                "~.forge_jobs j WHERE " + condition,
                "id",
                "(%s) IS TRUE".formatted(JobConditions.MATCHES),
                List.of(order));
    }

    /** Returns the walks that find all jobs of a filter, one after the other. */
    static List<JobWalk> of(JobFilter filter) {
        if (!filter.ids().isEmpty()) {
            // Few: they may be sorted.
            return List.of(ofJobs("id = ANY (:ids::uuid[])", UNINDEXED_ID));
        }
        if (!filter.tags().isEmpty()) {
            return List.of(ofTag());
        }
        if (filter.group() != null) {
            return List.of(ofGroup(filter));
        }
        Set<JobStatus> statuses = JobConditions.statuses(filter);
        if (filter.uniqueKey() != null && filter.name() != null) {
            return ofKey(statuses);
        }
        if (!statuses.isEmpty()) {
            return ofStatuses(filter, statuses);
        }
        return filter.batch() == null ? List.of(newestFirst(filter)) : ofBatch(filter);
    }

    private static JobWalk ofTag() {
        return new JobWalk(
                // The other tags are checked for each job.
                "~.forge_job_tags t WHERE t.tag = (:tags::text[])[1]",
                "t.job_id",
                "coalesce((SELECT (%s) IS TRUE FROM ~.forge_jobs j WHERE j.id = t.job_id), false)"
                        .formatted(JobConditions.MATCHES),
                List.of(new Column("t.job_id", Type.ID, true)));
    }

    private static JobWalk ofGroup(JobFilter filter) {
        var order = new ArrayList<Column>();
        if (filter.name() == null) {
            order.add(new Column("name", Type.TEXT, true));
        }
        order.add(new Column(ACTIVE_FLAG, Type.FLAG, true));
        order.add(new Column("created_at", Type.TIME, true));
        order.add(new Column("id", Type.ID, true));
        return ofJobs(
                "job_group = :group AND job_group <> ''" + (filter.name() == null ? "" : " AND name = :name"),
                order.toArray(Column[]::new));
    }

    private static List<JobWalk> ofKey(Set<JobStatus> statuses) {
        var walks = new ArrayList<JobWalk>();
        if (statuses.isEmpty() || statuses.stream().anyMatch(status -> !status.isFinal())) {
            walks.add(ofJobs("name = :name AND unique_key = :key AND status IN " + JobRows.ACTIVE, UNINDEXED_ID));
        }
        if (statuses.isEmpty() || statuses.stream().anyMatch(JobStatus::isFinal)) {
            // Keys of jobs that have ended are in no index.
            walks.add(new JobWalk(
                    "~.forge_jobs j WHERE true",
                    "id",
                    "(%s AND j.status NOT IN %s) IS TRUE".formatted(JobConditions.MATCHES, JobRows.ACTIVE),
                    List.of(new Column("id", Type.ID, true))));
        }
        return walks;
    }

    private static JobWalk newestFirst(JobFilter filter) {
        return ofJobs("true" + bounds(filter), new Column("id", Type.ID, true));
    }

    /**
     * Jobs are enqueued after their batch was opened. Those whose ids say otherwise come last, because their node's clock would have
     * to be wrong, and a day before the batch may hold more jobs than all searches read.
     */
    private static List<JobWalk> ofBatch(JobFilter filter) {
        var oldestFirst = new Column("id", Type.ID, false);
        return List.of(
                ofJobs("id >= :batchId" + bounds(filter), oldestFirst),
                ofJobs("id >= :earliestBatchId AND id < :batchId" + bounds(filter), oldestFirst));
    }

    private static String bounds(JobFilter filter) {
        return (filter.createdBefore() == null ? "" : " AND id < :lastId")
                + (filter.createdFrom() == null ? "" : " AND id >= :firstId");
    }

    /**
     * Returns the smallest id that a job of the batch may have.
     *
     * @param usual whether the clocks of all nodes differ by as much as usual; otherwise by up to a day
     */
    static @Nullable UUID firstOf(@Nullable UUID batch, boolean usual) {
        if (batch == null) {
            return null;
        }
        if (batch.version() != TIME_ORDERED) {
            return new UUID(0, 0);
        }
        long opened = batch.getMostSignificantBits() >>> TIME_BITS_OFFSET;
        return new UUID(Math.max(0, opened - (usual ? USUAL_SLACK_MILLIS : ID_SLACK_MILLIS)) << TIME_BITS_OFFSET, 0);
    }

    /** Returns the smallest id that may have been made a day before that time, or after it. */
    static @Nullable UUID idAround(@Nullable Instant time, boolean after) {
        if (time == null) {
            return null;
        }
        long most = (1L << 48) - 1;
        long millis;
        try {
            millis = time.toEpochMilli() + (after ? ID_SLACK_MILLIS : -ID_SLACK_MILLIS);
        } catch (ArithmeticException e) {
            millis = time.isAfter(Instant.EPOCH) ? most : 0;
        }
        return new UUID(Math.min(Math.max(millis, 0), most) << TIME_BITS_OFFSET, 0);
    }

    private static List<JobWalk> ofStatuses(JobFilter filter, Set<JobStatus> statuses) {
        var walks = new ArrayList<JobWalk>();
        if (statuses.contains(JobStatus.PENDING)) {
            walks.add(pending(filter));
            walks.add(ofJobs(
                    "waits_for IS NOT NULL AND status = 'pending'",
                    new Column("waits_for", Type.ID, false),
                    new Column("id", Type.ID, false)));
        }
        if (statuses.contains(JobStatus.CLAIMED) || statuses.contains(JobStatus.RUNNING)) {
            // As many as the nodes have slots for: they may be sorted.
            walks.add(ofJobs("status IN " + JobRows.HELD, UNINDEXED_ID));
        }
        for (JobPurgeStore.Kind kind : JobPurgeStore.Kind.values()) {
            if (statuses.stream().anyMatch(kind::mayInclude)) {
                walks.add(ended(kind, filter));
            }
        }
        return walks;
    }

    private static JobWalk pending(JobFilter filter) {
        var order = new ArrayList<Column>();
        if (filter.name() == null) {
            order.add(new Column("name", Type.TEXT, false));
        }
        order.add(new Column("coalesce(worker_capability, '')", Type.TEXT, false));
        order.add(new Column(Queue.RANK, Type.NUMBER, true));
        order.add(new Column("scheduled_at", Type.TIME, false));
        order.add(new Column("id", Type.ID, false));
        return ofJobs(
                "status = 'pending' AND waits_for IS NULL" + (filter.name() == null ? "" : " AND name = :name"),
                order.toArray(Column[]::new));
    }

    private static JobWalk ended(JobPurgeStore.Kind kind, JobFilter filter) {
        var condition = new StringBuilder(kind.condition);
        if (kind == JobPurgeStore.Kind.RETAINED) {
            return ofJobs(
                    condition.toString(), new Column(kind.age, Type.LOCAL_TIME, true), new Column("id", Type.ID, true));
        }
        // Jobs that were ended by hand get a time within a minute.
        condition.append(" AND finished_at IS NOT NULL");
        if (filter.finishedFrom() != null) {
            condition.append(" AND finished_at >= :finishedFrom");
        }
        if (filter.finishedBefore() != null) {
            condition.append(" AND finished_at < :finishedBefore");
        }
        return ofJobs(condition.toString(), new Column(kind.age, Type.TIME, true), new Column("id", Type.ID, true));
    }

    /**
     * Returns the statement that reads the next jobs of the walk: their ids, whether they match, and the columns of the order.
     *
     * @param continued whether the walk continues after the entry with the parameters {@code k0}, {@code k1} ...
     */
    String statement(boolean continued) {
        String keys = "";
        String sorted = "";
        String outer = "branch";
        for (int i = 0; i < order.size(); i++) {
            Column column = order.get(i);
            String direction = column.descending ? " DESC" : "";
            keys += ", %s AS key%d".formatted(column.expression, i);
            sorted += (i == 0 ? "" : ", ") + column.expression + direction;
            outer += ", key%d%s".formatted(i, direction);
        }
        // One branch for each column in which the next entry may differ first. Each is one range of the index; a
        // condition that
        // combines them is none. The planner does not know the limit: where it expects fewer rows, it would read and
        // sort all.
        var branches = new ArrayList<String>();
        for (int differing = continued ? order.size() - 1 : 0; differing >= 0; differing--) {
            branches.add(
                    "(SELECT %d AS branch, %s AS job_id, %s AS matched%s FROM %s%s ORDER BY %s LIMIT (SELECT :chunk::int))"
                            .formatted(
                                    order.size() - differing,
                                    id,
                                    matched,
                                    keys,
                                    from,
                                    continued ? after(differing) : "",
                                    sorted));
        }
        return "SELECT * FROM (%s) AS chunk ORDER BY %s LIMIT :chunk"
                .formatted(String.join(" UNION ALL ", branches), outer);
    }

    private String after(int differing) {
        var condition = new StringBuilder();
        for (int i = 0; i <= differing; i++) {
            Column column = order.get(i);
            String comparison = i < differing ? "=" : column.descending ? "<" : ">";
            condition.append(" AND %s %s :k%d::%s".formatted(column.expression, comparison, i, column.type.sql));
        }
        return condition.toString();
    }
}
