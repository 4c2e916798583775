// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.operations.CronsDescriptor.CronDescriptor;
import dev.forge.cluster.autoconfigure.operations.CronsDescriptor.CronStateDescriptor;
import dev.forge.cluster.autoconfigure.operations.CronsDescriptor.NextExecutionDescriptor;
import dev.forge.cluster.autoconfigure.operations.CronsDescriptor.RecentSlotDescriptor;
import dev.forge.cluster.autoconfigure.operations.CronsDescriptor.RunnableDescriptor;
import dev.forge.cluster.autoconfigure.operations.CronsDescriptor.SlotDescriptor;
import dev.forge.cluster.autoconfigure.operations.ValueSanitizer.Sanitized;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.convert.DurationStyle;

/** The resource {@code crons}: lists crons, shows one with its slots, pauses, resumes and triggers crons. */
final class CronsResource implements Resource {

    private static final int DEFAULT_LIMIT = 1_000;
    private static final int DEFAULT_SLOTS = 20;
    private static final int UPCOMING = 5;
    private static final int MOST_RECENT = 20;
    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList("after", "limit", "recent")
            .withEntry("limit")
            .withChange();

    private final Crons crons;
    private final ValueSanitizer values;

    CronsResource(Crons crons, ValueSanitizer values) {
        this.crons = crons;
        this.values = values;
    }

    @Override
    public String name() {
        return "crons";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    @Override
    public OperationResult read(OperationRequest request) {
        return request.result(request.hasEntry() ? find(request) : list(request));
    }

    /** The parameter {@code after} is the name after which the list begins, {@code recent} the number of slots of each cron. */
    private CronsDescriptor list(OperationRequest request) {
        Sanitized shown = values.shownTo(request.caller());
        List<CronDescriptor> cron = new ArrayList<>();
        List<CronDescriptor> fixedRate = new ArrayList<>();
        List<CronInfo> page = crons.list(request.text("after"), request.limit(DEFAULT_LIMIT));
        Map<String, List<CronRun>> recent = recent(page, request.integer("recent"));
        for (CronInfo info : page) {
            CronDescriptor descriptor = descriptor(
                    info,
                    null,
                    null,
                    recent == null ? null : brief(recent.getOrDefault(info.name(), List.of())),
                    shown);
            (descriptor.interval() == null ? cron : fixedRate).add(descriptor);
        }
        return new CronsDescriptor(cron, fixedRate);
    }

    /** Returns the latest slots of all crons of a page; null if none are asked for. */
    private @Nullable Map<String, List<CronRun>> recent(List<CronInfo> page, @Nullable Integer slots) {
        if (slots == null) {
            return null;
        }
        if (slots < 1 || slots > MOST_RECENT) {
            throw new InvalidOperationException(
                    "Parameter 'recent' (%d) must be between 1 and %d".formatted(slots, MOST_RECENT));
        }
        return crons.latestRuns(page.stream().map(CronInfo::name).toList(), slots);
    }

    private static List<RecentSlotDescriptor> brief(List<CronRun> runs) {
        return runs.stream()
                .map(run -> new RecentSlotDescriptor(
                        run.slot(),
                        EnumText.hyphenated(run.outcome()),
                        status(run.jobStatus()),
                        run.reason(),
                        run.job()))
                .toList();
    }

    /** Returns one cron with its latest slots; null if there is no such cron. */
    private @Nullable CronDescriptor find(OperationRequest request) {
        String name = request.entry();
        int slots = request.limit(DEFAULT_SLOTS);
        Sanitized shown = values.shownTo(request.caller());
        return crons.find(name)
                .map(info -> descriptor(
                        info,
                        crons.upcoming(name, UPCOMING),
                        crons.runs(name, slots).stream()
                                .map(run -> slot(run, shown))
                                .toList(),
                        null,
                        shown))
                .orElse(null);
    }

    private static CronDescriptor descriptor(
            CronInfo info,
            @Nullable List<Instant> upcoming,
            @Nullable List<SlotDescriptor> runs,
            @Nullable List<RecentSlotDescriptor> recent,
            Sanitized shown) {
        Duration interval = interval(info);
        CronRun last = info.lastRun();
        CronRun latest = info.latest();
        return new CronDescriptor(
                info.name(),
                new RunnableDescriptor(info.handler()),
                interval == null ? info.expression() : null,
                interval == null ? info.zone() : null,
                interval == null ? null : interval.toMillis(),
                info.declared(),
                EnumText.hyphenated(info.target()),
                info.capability(),
                shown.value("group", info.group()),
                EnumText.hyphenated(info.misfire()),
                EnumText.hyphenated(info.overlap()),
                info.paused() ? "paused" : info.runnable() ? "running" : "unknown",
                problem(info),
                last == null ? null : slot(last, shown),
                latest == null || latest.equals(last) ? null : slot(latest, shown),
                info.next() == null ? null : new NextExecutionDescriptor(info.next()),
                upcoming,
                runs,
                recent);
    }

    /** Parses the interval; null if the cron has an expression, or the table holds an unreadable one. */
    private static @Nullable Duration interval(CronInfo info) {
        if (!info.expression().startsWith(CronDefinition.EVERY)) {
            return null;
        }
        try {
            return DurationStyle.detectAndParse(
                    info.expression().substring(CronDefinition.EVERY.length()).trim());
        } catch (IllegalArgumentException | ArithmeticException e) {
            return null;
        }
    }

    private static @Nullable String problem(CronInfo info) {
        if (info.problem() != null || info.runnable()) {
            return info.problem();
        }
        return "No live %s has a handler '%s'; slots wait until one does"
                .formatted(info.target() == CronTarget.ANY_WORKER ? "worker" : "node", info.handler());
    }

    private static SlotDescriptor slot(CronRun run, Sanitized shown) {
        return new SlotDescriptor(
                run.slot(),
                EnumText.hyphenated(run.outcome()),
                status(run.jobStatus()),
                run.reason(),
                run.job(),
                run.attempts(),
                shown.value("error", run.error()),
                run.startedAt(),
                run.finishedAt(),
                run.term(),
                run.decidedAt());
    }

    /** Maps the status of the job to the words of Spring Boot's {@code scheduledtasks}. */
    private static @Nullable String status(@Nullable JobStatus status) {
        return status == null
                ? null
                : switch (status) {
                    case PENDING, CLAIMED, RUNNING -> "STARTED";
                    case COMPLETED -> "SUCCESS";
                    case FAILED, CANCELLED, ABANDONED -> "ERROR";
                };
    }

    @Override
    public OperationResult change(OperationRequest request, String state) {
        return request.result(changeState(request.entry(), state));
    }

    /** Changes the state of a cron; returns null if there is no such cron. */
    private @Nullable CronStateDescriptor changeState(String name, String state) {
        if (crons.find(name).isEmpty()) {
            return null;
        }
        try {
            return switch (state) {
                case "paused" -> {
                    crons.pause(name);
                    yield new CronStateDescriptor(name, state, null);
                }
                case "running" -> {
                    // Resuming a cron that is not paused succeeds without a change.
                    crons.resume(name);
                    yield new CronStateDescriptor(name, state, null);
                }
                case "triggered" -> new CronStateDescriptor(name, state, trigger(name));
                default ->
                    throw new InvalidOperationException(
                            "Unsupported state '%s' for a cron: use 'paused', 'running' or 'triggered'"
                                    .formatted(state));
            };
        } catch (CronRejectedException | MutationRefusedException e) {
            throw InvalidOperationException.because(e);
        }
    }

    private UUID trigger(String name) {
        return crons.trigger(name)
                .orElseThrow(() -> new InvalidOperationException(
                        "Cron '%s' was not triggered: its previous run has not finished".formatted(name)));
    }
}
