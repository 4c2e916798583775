package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.SanitizableData;
import org.springframework.boot.actuate.endpoint.Sanitizer;
import org.springframework.boot.actuate.endpoint.SecurityContext;
import org.springframework.boot.convert.DurationStyle;

/**
 * {@code /actuator/forgecluster/crons}, in the shape of Spring Boot's {@code scheduledtasks}: those with an expression under
 * {@code cron}, those with an interval under {@code fixedRate}, each with its last and its next execution.
 */
final class CronsResource {

    private static final int DEFAULT_LIMIT = 20;
    private static final int LARGEST_LIMIT = 1_000;

    private final Crons crons;
    private final Sanitizer sanitizer;
    private final ClusterEndpointProperties properties;

    CronsResource(Crons crons, Sanitizer sanitizer, ClusterEndpointProperties properties) {
        this.crons = crons;
        this.sanitizer = sanitizer;
        this.properties = properties;
    }

    Map<String, Object> list(SecurityContext reader) {
        boolean shown = isShown(reader);
        List<Object> cron = new ArrayList<>();
        List<Object> fixedRate = new ArrayList<>();
        for (CronInfo info : crons.list()) {
            (interval(info) == null ? cron : fixedRate).add(view(info, shown));
        }
        return Map.of("cron", cron, "fixedRate", fixedRate);
    }

    /** One cron with its latest slots; null if there is none. */
    @Nullable
    Map<String, Object> one(String name, @Nullable Integer limit, SecurityContext reader) {
        int most = limit == null ? DEFAULT_LIMIT : limit;
        if (most < 1 || most > LARGEST_LIMIT) {
            throw refusal("limit %d is not between 1 and %d".formatted(most, LARGEST_LIMIT));
        }
        boolean shown = isShown(reader);
        return crons.find(name)
                .map(info -> {
                    Map<String, Object> view = view(info, shown);
                    view.put(
                            "runs",
                            crons.runs(name, most).stream()
                                    .map(run -> run(run, shown))
                                    .toList());
                    return view;
                })
                .orElse(null);
    }

    private boolean isShown(SecurityContext reader) {
        return properties.showValues().isShown(reader, properties.roles());
    }

    /** Null where it is none, or none that can be read: somebody may have written anything into the table. */
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

    private Map<String, Object> view(CronInfo info, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        view.put("name", info.name());
        view.put("runnable", Map.of("target", info.handler()));
        Duration interval = interval(info);
        if (interval == null) {
            view.put("expression", info.expression());
            view.put("zone", info.zone());
        } else {
            view.put("interval", interval.toMillis());
        }
        view.put("declared", info.declared());
        view.put("target", word(info.target()));
        put(view, "capability", info.capability());
        view.put("misfire", word(info.misfire()));
        view.put("overlap", word(info.overlap()));
        view.put("state", info.paused() ? "paused" : info.known() ? "running" : "unknown");
        put(view, "problem", problem(info));
        CronRun last = info.lastRun();
        if (last != null) {
            view.put("lastExecution", run(last, shown));
        }
        CronRun latest = info.latest();
        if (latest != null && !latest.equals(last)) {
            view.put("lastSlot", run(latest, shown));
        }
        if (info.next() != null) {
            view.put("nextExecution", Map.of("time", info.next()));
        }
        return view;
    }

    private static @Nullable String problem(CronInfo info) {
        if (info.problem() != null || info.known()) {
            return info.problem();
        }
        return "no live %s has a handler '%s'; its slots wait"
                .formatted(info.target() == CronTarget.ANY_WORKER ? "worker" : "node", info.handler());
    }

    private Map<String, Object> run(CronRun run, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        view.put("time", run.slot());
        view.put("outcome", word(run.outcome()));
        put(view, "status", status(run));
        put(view, "reason", run.reason());
        put(view, "job", run.job());
        put(view, "attempt", run.attempts());
        if (run.error() != null) {
            put(view, "error", sanitizer.sanitize(new SanitizableData(null, "error", run.error()), shown));
        }
        put(view, "startedAt", run.startedAt());
        put(view, "finishedAt", run.finishedAt());
        put(view, "term", run.term());
        view.put("decidedAt", run.decidedAt());
        return view;
    }

    /** In the words of Spring Boot: started, success or error. */
    private static @Nullable String status(CronRun run) {
        JobStatus status = run.jobStatus();
        return status == null
                ? null
                : switch (status) {
                    case PENDING, CLAIMED, RUNNING -> "STARTED";
                    case COMPLETED -> "SUCCESS";
                    case FAILED, CANCELLED, ABANDONED -> "ERROR";
                };
    }

    private static void put(Map<String, Object> view, String key, @Nullable Object value) {
        if (value != null) {
            view.put(key, value);
        }
    }

    private static String word(Enum<?> value) {
        return ClusterLifecycle.word(value);
    }

    /** An order to a cron; null if there is none of that name. */
    @Nullable
    Object order(String name, String state) {
        if (crons.find(name).isEmpty()) {
            return null;
        }
        try {
            return switch (state) {
                case "paused" -> {
                    crons.pause(name);
                    yield Map.of("name", name, "state", state);
                }
                case "running" -> {
                    // One that is not paused runs already, which is what was ordered.
                    crons.resume(name);
                    yield Map.of("name", name, "state", state);
                }
                case "triggered" -> triggered(name);
                default ->
                    throw refusal("state '%s' of a cron cannot be ordered; 'paused', 'running' and 'triggered' can"
                            .formatted(state));
            };
        } catch (CronRejectedException | MutationRefusedException e) {
            throw new InvalidEndpointRequestException(String.valueOf(e.getMessage()), "Refused", e);
        }
    }

    private Object triggered(String name) {
        Optional<UUID> job = crons.trigger(name);
        if (job.isEmpty()) {
            throw refusal("cron '%s' was not run: its former run has not ended".formatted(name));
        }
        return Map.<String, Object>of("name", name, "state", "triggered", "job", job.get());
    }

    private static InvalidEndpointRequestException refusal(String message) {
        return new InvalidEndpointRequestException(message, message);
    }
}
