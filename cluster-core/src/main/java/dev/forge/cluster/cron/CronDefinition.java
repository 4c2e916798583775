// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.time.ZoneId;
import org.jspecify.annotations.Nullable;

/**
 * Defines a cron that is created at run time. Immutable; each {@code with} method returns a changed copy, and throws {@link
 * IllegalArgumentException} for null and for values out of range. Options that are not set use {@code forge.cluster.cron.*}, or are
 * those of the handler. Backoff, {@code noRetryFor} and aliases are always those of the handler: they are code, and the database
 * holds no names of classes.
 *
 * <pre>{@code
 * crons.create(CronDefinition.cron("report-berlin", "0 6 * * MON-FRI")
 *         .withZone(ZoneId.of("Europe/Berlin"))
 *         .withHandler("send-report")
 *         .withPayload(new SendReport("berlin")));
 * }</pre>
 */
public final class CronDefinition {

    /** The largest {@linkplain #withCatchUpLimit catch-up limit}. */
    public static final int LARGEST_CATCH_UP_LIMIT = 1_000;

    /** The longest {@linkplain #withJitter jitter}. */
    public static final Duration LONGEST_JITTER = Duration.ofDays(1);

    private static final Duration LONGEST_DURATION = Duration.ofDays(36_525);

    private final String name;
    private final String handler;
    private final String expression;
    private final @Nullable ZoneId zone;
    private final @Nullable Object payload;
    private final @Nullable CronTarget target;
    private final @Nullable String capability;
    private final Misfire misfire;
    private final @Nullable Integer catchUpLimit;
    private final Overlap overlap;
    private final Duration jitter;
    private final @Nullable Integer maxAttempts;
    private final @Nullable JobPriority priority;
    private final @Nullable Duration timeout;
    private final @Nullable Duration retention;
    private final @Nullable String group;

    private CronDefinition(Draft draft) {
        this.name = draft.name;
        this.handler = draft.handler;
        this.expression = draft.expression;
        this.zone = draft.zone;
        this.payload = draft.payload;
        this.target = draft.target;
        this.capability = draft.capability;
        this.misfire = draft.misfire;
        this.catchUpLimit = draft.catchUpLimit;
        this.overlap = draft.overlap;
        this.jitter = draft.jitter;
        this.maxAttempts = draft.maxAttempts;
        this.priority = draft.priority;
        this.timeout = draft.timeout;
        this.retention = draft.retention;
        this.group = draft.group;
    }

    /** Creates a definition with a cron expression; see {@link ClusterCron#value()}. */
    public static CronDefinition cron(String name, String expression) {
        required("cron", "name", name);
        required("cron", "expression", expression);
        return new CronDefinition(new Draft(name, expression));
    }

    /** Creates a definition with an interval; see {@link ClusterCron#every()}. */
    public static CronDefinition every(String name, Duration interval) {
        required("every", "name", name);
        required("every", "interval", interval);
        return new CronDefinition(new Draft(name, EVERY + interval));
    }

    /** The prefix of an interval that is written as an expression. */
    public static final String EVERY = "@every ";

    /** Sets the handler: the name of a job or cron whose method runs. Default: the name of this cron. */
    public CronDefinition withHandler(String handler) {
        required("withHandler", "handler", handler);
        Draft draft = new Draft(this);
        draft.handler = handler;
        return new CronDefinition(draft);
    }

    /** Sets the payload that the handler receives. */
    public CronDefinition withPayload(Object payload) {
        required("withPayload", "payload", payload);
        Draft draft = new Draft(this);
        draft.payload = payload;
        return new CronDefinition(draft);
    }

    /** Sets the time zone; see {@link ClusterCron#zone()}. */
    public CronDefinition withZone(ZoneId zone) {
        required("withZone", "zone", zone);
        Draft draft = new Draft(this);
        draft.zone = zone;
        return new CronDefinition(draft);
    }

    /**
     * Sets which node runs the cron; see {@link ClusterCron#target()}. Default: the target of the {@link ClusterCron} method that
     * is the handler, or {@link CronTarget#ANY_WORKER} if the handler is a job, which only workers run.
     */
    public CronDefinition withTarget(CronTarget target) {
        required("withTarget", "target", target);
        Draft draft = new Draft(this);
        draft.target = target;
        return new CronDefinition(draft);
    }

    /** Sets the capability that a worker needs; see {@link ClusterCron#capability()}. */
    public CronDefinition withCapability(String capability) {
        required("withCapability", "capability", capability);
        Draft draft = new Draft(this);
        draft.capability = capability;
        return new CronDefinition(draft);
    }

    /** Sets what happens to overdue slots; see {@link ClusterCron#misfire()}. */
    public CronDefinition withMisfire(Misfire misfire) {
        required("withMisfire", "misfire", misfire);
        Draft draft = new Draft(this);
        draft.misfire = misfire;
        return new CronDefinition(draft);
    }

    /** Sets how many overdue slots are caught up at most; see {@link ClusterCron#catchUpLimit()}. */
    public CronDefinition withCatchUpLimit(int limit) {
        requireRange("withCatchUpLimit", "limit", limit, 1, LARGEST_CATCH_UP_LIMIT);
        Draft draft = new Draft(this);
        draft.catchUpLimit = limit;
        return new CronDefinition(draft);
    }

    /** Sets what happens while the previous run has not ended; see {@link ClusterCron#overlap()}. */
    public CronDefinition withOverlap(Overlap overlap) {
        required("withOverlap", "overlap", overlap);
        Draft draft = new Draft(this);
        draft.overlap = overlap;
        return new CronDefinition(draft);
    }

    /** Sets the longest random delay of a run; see {@link ClusterCron#jitter()}. */
    public CronDefinition withJitter(Duration jitter) {
        required("withJitter", "jitter", jitter);
        requireRange("withJitter", "jitter", jitter, Duration.ZERO, LONGEST_JITTER);
        Draft draft = new Draft(this);
        draft.jitter = jitter;
        return new CronDefinition(draft);
    }

    /** Sets the number of attempts of a run. Default: as the handler declares. */
    public CronDefinition withMaxAttempts(int maxAttempts) {
        requireRange("withMaxAttempts", "maxAttempts", maxAttempts, 1, Integer.MAX_VALUE);
        Draft draft = new Draft(this);
        draft.maxAttempts = maxAttempts;
        return new CronDefinition(draft);
    }

    /** Sets the priority of runs. Default: as the handler declares; {@link JobPriority#NORMAL} if this node does not have it. */
    public CronDefinition withPriority(JobPriority priority) {
        required("withPriority", "priority", priority);
        Draft draft = new Draft(this);
        draft.priority = priority;
        return new CronDefinition(draft);
    }

    /** Sets the time after which an attempt is interrupted and counts as failed. Default: as the handler declares. */
    public CronDefinition withTimeout(Duration timeout) {
        required("withTimeout", "timeout", timeout);
        requireRange("withTimeout", "timeout", timeout, Duration.ofMillis(1), LONGEST_DURATION);
        Draft draft = new Draft(this);
        draft.timeout = timeout;
        return new CronDefinition(draft);
    }

    /** Sets how long a finished run is kept; zero deletes it at completion. Default: as the handler declares. */
    public CronDefinition withRetention(Duration retention) {
        required("withRetention", "retention", retention);
        requireRange("withRetention", "retention", retention, Duration.ZERO, LONGEST_DURATION);
        Draft draft = new Draft(this);
        draft.retention = retention;
        return new CronDefinition(draft);
    }

    /**
     * Puts the runs into a group of jobs of the handler, so that they take turns with its other groups and obey the limits of
     * groups; see {@link JobOptions#withGroup}. Default: as the handler declares.
     *
     * @param group at most 500 characters without control characters
     */
    public CronDefinition withGroup(Object group) {
        required("withGroup", "group", group);
        Draft draft = new Draft(this);
        draft.group = group.toString();
        return new CronDefinition(draft);
    }

    /** Returns the name of the cron. */
    public String name() {
        return name;
    }

    /** Returns the name of the handler. */
    public String handler() {
        return handler;
    }

    /** Returns the cron expression; an interval as {@code @every PT30S}. */
    public String expression() {
        return expression;
    }

    /** Returns the time zone; null: {@code forge.cluster.cron.zone}. */
    public @Nullable ZoneId zone() {
        return zone;
    }

    /** Returns the payload that the handler receives; null: none. */
    public @Nullable Object payload() {
        return payload;
    }

    /** Returns which node runs the cron; null: as the handler declares. */
    public @Nullable CronTarget target() {
        return target;
    }

    /** Returns the capability that a worker needs; null: as the handler declares. */
    public @Nullable String capability() {
        return capability;
    }

    /** Returns what happens to overdue slots. */
    public Misfire misfire() {
        return misfire;
    }

    /** Returns how many overdue slots are caught up; null: {@code forge.cluster.cron.catch-up-limit}. */
    public @Nullable Integer catchUpLimit() {
        return catchUpLimit;
    }

    /** Returns what happens while the previous run has not ended. */
    public Overlap overlap() {
        return overlap;
    }

    /** Returns the longest random delay of a run. */
    public Duration jitter() {
        return jitter;
    }

    /** Returns the number of attempts of a run; null: as the handler declares. */
    public @Nullable Integer maxAttempts() {
        return maxAttempts;
    }

    /** Returns the priority of runs; null: as the handler declares. */
    public @Nullable JobPriority priority() {
        return priority;
    }

    /** Returns the timeout of an attempt; null: as the handler declares. */
    public @Nullable Duration timeout() {
        return timeout;
    }

    /** Returns how long a finished run is kept; null: as the handler declares. */
    public @Nullable Duration retention() {
        return retention;
    }

    /** Returns the group of the runs; null: as the handler declares. */
    public @Nullable String group() {
        return group;
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("CronDefinition.%s: %s must not be null".formatted(method, parameter));
        }
    }

    private static <T extends Comparable<T>> void requireRange(
            String method, String parameter, T value, T least, T most) {
        if (value.compareTo(least) < 0 || value.compareTo(most) > 0) {
            throw new IllegalArgumentException("CronDefinition.%s: %s (%s) must be between %s and %s"
                    .formatted(method, parameter, value, least, most));
        }
    }

    private static final class Draft {
        final String name;
        final String expression;
        String handler;

        @Nullable
        ZoneId zone;

        @Nullable
        Object payload;

        @Nullable
        CronTarget target;

        @Nullable
        String capability;

        Misfire misfire = Misfire.DEFAULT;

        @Nullable
        Integer catchUpLimit;

        Overlap overlap = Overlap.SKIP;
        Duration jitter = Duration.ZERO;

        @Nullable
        Integer maxAttempts;

        @Nullable
        JobPriority priority;

        @Nullable
        Duration timeout;

        @Nullable
        Duration retention;

        @Nullable
        String group;

        Draft(String name, String expression) {
            this.name = name;
            this.handler = name;
            this.expression = expression;
        }

        Draft(CronDefinition other) {
            this(other.name, other.expression);
            this.handler = other.handler;
            this.zone = other.zone;
            this.payload = other.payload;
            this.target = other.target;
            this.capability = other.capability;
            this.misfire = other.misfire;
            this.catchUpLimit = other.catchUpLimit;
            this.overlap = other.overlap;
            this.jitter = other.jitter;
            this.maxAttempts = other.maxAttempts;
            this.priority = other.priority;
            this.timeout = other.timeout;
            this.retention = other.retention;
            this.group = other.group;
        }
    }
}
