// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.Page;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.runtime.EnumText;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.convert.DurationStyle;

/** The resource {@code crons}: lists crons, shows one with its slots, pauses, resumes and triggers crons. */
final class CronsResource extends Resource {

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
        super("crons", PARAMETERS);
        this.crons = crons;
        this.values = values;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        return request.result(request.hasEntry() ? find(request) : list(request));
    }

    /** The parameter {@code after} is {@code next} of the page before, {@code recent} the number of slots of each cron. */
    private JsonObject list(OperationRequest request) {
        Sanitized shown = values.shownTo(request.caller());
        List<JsonObject> cron = new ArrayList<>();
        List<JsonObject> fixedRate = new ArrayList<>();
        Page<CronInfo> page = page(request);
        Map<String, List<CronRun>> recent = recent(page.items(), request.integer("recent"));
        for (CronInfo info : page.items()) {
            JsonObject object = object(info, shown);
            if (recent != null) {
                object.with("recent", shown.summaries(recent.getOrDefault(info.name(), List.of())));
            }
            (interval(info) == null ? cron : fixedRate).add(object);
        }
        return new JsonObject().with("cron", cron).with("fixedRate", fixedRate).with("next", page.next());
    }

    private Page<CronInfo> page(OperationRequest request) {
        try {
            return crons.list(request.limit(DEFAULT_LIMIT), request.text("after"));
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
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

    /** Returns one cron with its latest slots; null if there is no such cron. */
    private @Nullable JsonObject find(OperationRequest request) {
        String name = request.entry();
        int slots = request.limit(DEFAULT_SLOTS);
        Sanitized shown = values.shownTo(request.caller());
        return crons.find(name)
                .map(info -> object(info, shown)
                        .with("upcoming", crons.upcoming(name, UPCOMING))
                        .with("runs", shown.objects(crons.runs(name, slots).items())))
                .orElse(null);
    }

    /** In the shape of Spring Boot's {@code scheduledtasks}. */
    private static JsonObject object(CronInfo info, Sanitized shown) {
        Duration interval = interval(info);
        CronRun last = info.lastRun();
        CronRun latest = info.latest();
        return new JsonObject()
                .with("name", info.name())
                .with("runnable", Map.of("target", info.handler()))
                .with("expression", interval == null ? info.expression() : null)
                .with("zone", interval == null ? info.zone() : null)
                .with("interval", interval == null ? null : interval.toMillis())
                .with("declared", info.declared())
                .with("target", EnumText.hyphenated(info.target()))
                .with("capability", info.capability())
                .with("group", shown.value("group", info.group()))
                .with("misfire", EnumText.hyphenated(info.misfire()))
                .with("overlap", EnumText.hyphenated(info.overlap()))
                .with("state", info.paused() ? "paused" : info.runnable() ? "running" : "unknown")
                .with("problem", problem(info))
                .with("lastExecution", last == null ? null : shown.object(last))
                .with("lastSlot", latest == null || latest.equals(last) ? null : shown.object(latest))
                .with("nextExecution", info.next() == null ? null : Map.of("time", info.next()));
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

    @Override
    protected OperationResult change(OperationRequest request, String state) {
        return request.result(changeState(request.entry(), state));
    }

    /** Changes the state of a cron; returns null if there is no such cron. */
    private @Nullable JsonObject changeState(String name, String state) {
        if (crons.find(name).isEmpty()) {
            return null;
        }
        try {
            return switch (state) {
                case "paused" -> {
                    crons.pause(name);
                    yield new JsonObject().with("name", name).with("state", state);
                }
                case "running" -> {
                    // Resuming a cron that is not paused succeeds without a change.
                    crons.resume(name);
                    yield new JsonObject().with("name", name).with("state", state);
                }
                case "triggered" ->
                    new JsonObject().with("name", name).with("state", state).with("job", trigger(name));
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
