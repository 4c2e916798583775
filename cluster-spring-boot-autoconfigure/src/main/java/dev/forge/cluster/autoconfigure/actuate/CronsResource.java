// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.actuate.CronsDescriptor.CronDescriptor;
import dev.forge.cluster.autoconfigure.actuate.CronsDescriptor.CronStateDescriptor;
import dev.forge.cluster.autoconfigure.actuate.CronsDescriptor.NextExecutionDescriptor;
import dev.forge.cluster.autoconfigure.actuate.CronsDescriptor.RunnableDescriptor;
import dev.forge.cluster.autoconfigure.actuate.CronsDescriptor.SlotDescriptor;
import dev.forge.cluster.autoconfigure.actuate.EndpointValues.Sanitized;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;
import org.springframework.boot.convert.DurationStyle;

/** {@code /actuator/forgecluster/crons}: lists crons, shows one with its slots, pauses, resumes and triggers crons. */
final class CronsResource {

    private static final int DEFAULT_LIMIT = 1_000;
    private static final int DEFAULT_SLOTS = 20;

    private final Crons crons;
    private final EndpointValues values;

    CronsResource(Crons crons, EndpointValues values) {
        this.crons = crons;
        this.values = values;
    }

    /** @param after the name after which the list begins; null: the first one */
    CronsDescriptor list(@Nullable String after, @Nullable Integer limit, SecurityContext user) {
        Sanitized shown = values.shownTo(user);
        List<CronDescriptor> cron = new ArrayList<>();
        List<CronDescriptor> fixedRate = new ArrayList<>();
        for (CronInfo info : crons.list(after, EndpointRequests.limit(limit, DEFAULT_LIMIT))) {
            CronDescriptor descriptor = descriptor(info, null, shown);
            (descriptor.interval() == null ? cron : fixedRate).add(descriptor);
        }
        return new CronsDescriptor(cron, fixedRate);
    }

    /** Returns one cron with its latest slots; null if there is no such cron. */
    @Nullable
    CronDescriptor find(String name, @Nullable Integer limit, SecurityContext user) {
        int slots = EndpointRequests.limit(limit, DEFAULT_SLOTS);
        Sanitized shown = values.shownTo(user);
        return crons.find(name)
                .map(info -> descriptor(
                        info,
                        crons.runs(name, slots).stream()
                                .map(run -> slot(run, shown))
                                .toList(),
                        shown))
                .orElse(null);
    }

    private static CronDescriptor descriptor(CronInfo info, @Nullable List<SlotDescriptor> runs, Sanitized shown) {
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
                runs);
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

    /** Changes the state of a cron; returns null if there is no such cron. */
    @Nullable
    CronStateDescriptor changeState(String name, String state) {
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
                    throw EndpointRequests.invalid(
                            "Unsupported state '%s' for a cron: use 'paused', 'running' or 'triggered'"
                                    .formatted(state));
            };
        } catch (CronRejectedException | MutationRefusedException e) {
            throw EndpointRequests.refused(e);
        }
    }

    private UUID trigger(String name) {
        return crons.trigger(name)
                .orElseThrow(() -> EndpointRequests.invalid(
                        "Cron '%s' was not triggered: its previous run has not finished".formatted(name)));
    }
}
