package dev.forge.cluster.cron;

import java.time.Duration;
import java.time.ZoneId;
import org.jspecify.annotations.Nullable;

/**
 * A cron that is made at run time. Immutable; each method answers a changed copy. What is not said is as {@code
 * forge.cluster.cron.*} says.
 *
 * <pre>{@code
 * crons.create(CronDefinition.cron("report-berlin", "0 6 * * MON-FRI")
 *         .withZone(ZoneId.of("Europe/Berlin"))
 *         .withHandler("send-report")
 *         .withPayload(new SendReport("berlin")));
 * }</pre>
 */
public final class CronDefinition {

    private final String name;
    private final String handler;
    private final String expression;
    private final @Nullable ZoneId zone;
    private final @Nullable Object payload;
    private final CronTarget target;
    private final @Nullable String capability;
    private final Misfire misfire;
    private final @Nullable Integer catchUpLimit;
    private final Overlap overlap;
    private final Duration jitter;
    private final @Nullable Integer maxAttempts;

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
    }

    /** A cron with an expression as {@link ClusterCron#value()} takes it. */
    public static CronDefinition cron(String name, String expression) {
        return new CronDefinition(new Draft(name, expression));
    }

    /** A cron that fires at every multiple of that time, counted from 1970. */
    public static CronDefinition every(String name, Duration interval) {
        return new CronDefinition(new Draft(name, EVERY + interval));
    }

    /** How an interval is written where an expression is expected. */
    public static final String EVERY = "@every ";

    /** The name of the job or cron whose method runs; by default the cron's own name. */
    public CronDefinition withHandler(String handler) {
        Draft draft = new Draft(this);
        draft.handler = handler;
        return new CronDefinition(draft);
    }

    /** What the handler gets. */
    public CronDefinition withPayload(Object payload) {
        Draft draft = new Draft(this);
        draft.payload = payload;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#zone()}. */
    public CronDefinition withZone(ZoneId zone) {
        Draft draft = new Draft(this);
        draft.zone = zone;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#target()}; here by default {@link CronTarget#ANY_WORKER}. */
    public CronDefinition withTarget(CronTarget target) {
        Draft draft = new Draft(this);
        draft.target = target;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#capability()}. */
    public CronDefinition withCapability(String capability) {
        Draft draft = new Draft(this);
        draft.capability = capability;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#misfire()}. */
    public CronDefinition withMisfire(Misfire misfire) {
        Draft draft = new Draft(this);
        draft.misfire = misfire;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#catchUpLimit()}. */
    public CronDefinition withCatchUpLimit(int limit) {
        Draft draft = new Draft(this);
        draft.catchUpLimit = limit;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#overlap()}. */
    public CronDefinition withOverlap(Overlap overlap) {
        Draft draft = new Draft(this);
        draft.overlap = overlap;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#jitter()}. */
    public CronDefinition withJitter(Duration jitter) {
        Draft draft = new Draft(this);
        draft.jitter = jitter;
        return new CronDefinition(draft);
    }

    /** See {@link ClusterCron#maxAttempts()}. */
    public CronDefinition withMaxAttempts(int maxAttempts) {
        Draft draft = new Draft(this);
        draft.maxAttempts = maxAttempts;
        return new CronDefinition(draft);
    }

    /** Its name. */
    public String name() {
        return name;
    }

    /** See {@link #withHandler}. */
    public String handler() {
        return handler;
    }

    /** See {@link ClusterCron#value()}; an interval as {@code @every PT30S}. */
    public String expression() {
        return expression;
    }

    /** See {@link #withZone}. */
    public @Nullable ZoneId zone() {
        return zone;
    }

    /** See {@link #withPayload}. */
    public @Nullable Object payload() {
        return payload;
    }

    /** See {@link #withTarget}. */
    public CronTarget target() {
        return target;
    }

    /** See {@link #withCapability}. */
    public @Nullable String capability() {
        return capability;
    }

    /** See {@link #withMisfire}. */
    public Misfire misfire() {
        return misfire;
    }

    /** See {@link #withCatchUpLimit}. */
    public @Nullable Integer catchUpLimit() {
        return catchUpLimit;
    }

    /** See {@link #withOverlap}. */
    public Overlap overlap() {
        return overlap;
    }

    /** See {@link #withJitter}. */
    public Duration jitter() {
        return jitter;
    }

    /** See {@link #withMaxAttempts}. */
    public @Nullable Integer maxAttempts() {
        return maxAttempts;
    }

    private static final class Draft {
        final String name;
        final String expression;
        String handler;

        @Nullable
        ZoneId zone;

        @Nullable
        Object payload;

        CronTarget target = CronTarget.ANY_WORKER;

        @Nullable
        String capability;

        Misfire misfire = Misfire.DEFAULT;

        @Nullable
        Integer catchUpLimit;

        Overlap overlap = Overlap.SKIP;
        Duration jitter = Duration.ZERO;

        @Nullable
        Integer maxAttempts;

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
        }
    }
}
