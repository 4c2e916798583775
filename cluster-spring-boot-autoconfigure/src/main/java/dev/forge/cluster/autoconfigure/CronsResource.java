package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.CronDefinition;
import dev.forge.cluster.CronInfo;
import dev.forge.cluster.CronRejectedException;
import dev.forge.cluster.CronRun;
import dev.forge.cluster.Crons;
import dev.forge.cluster.JobStatus;
import dev.forge.cluster.MutationRefusedException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;

/**
 * {@code /actuator/forgecluster/crons}, in the shape of Spring Boot's {@code scheduledtasks}: those with an expression under
 * {@code cron}, those with an interval under {@code fixedRate}, each with its last and its next execution.
 */
final class CronsResource {

    private static final int DEFAULT_LIMIT = 20;
    private static final int LARGEST_LIMIT = 1_000;

    private final Crons crons;

    CronsResource(Crons crons) {
        this.crons = crons;
    }

    Map<String, Object> list() {
        List<Object> cron = new ArrayList<>();
        List<Object> fixedRate = new ArrayList<>();
        for (CronInfo info : crons.list()) {
            (isInterval(info) ? fixedRate : cron).add(view(info));
        }
        return Map.of("cron", cron, "fixedRate", fixedRate);
    }

    /** One cron with its latest slots; null if there is none. */
    @Nullable
    Map<String, Object> one(String name, @Nullable Integer limit) {
        int most = limit == null ? DEFAULT_LIMIT : limit;
        if (most < 1 || most > LARGEST_LIMIT) {
            throw refusal("limit %d is not between 1 and %d".formatted(most, LARGEST_LIMIT));
        }
        return crons.find(name)
                .map(info -> {
                    Map<String, Object> view = view(info);
                    view.put(
                            "runs",
                            crons.runs(name, most).stream()
                                    .map(CronsResource::run)
                                    .toList());
                    return view;
                })
                .orElse(null);
    }

    private static boolean isInterval(CronInfo info) {
        return info.expression().startsWith(CronDefinition.EVERY);
    }

    private static Map<String, Object> view(CronInfo info) {
        var view = new LinkedHashMap<String, Object>();
        view.put("name", info.name());
        view.put("runnable", Map.of("target", info.handler()));
        if (isInterval(info)) {
            view.put(
                    "interval",
                    Duration.parse(info.expression().substring(CronDefinition.EVERY.length()))
                            .toMillis());
        } else {
            view.put("expression", info.expression());
            view.put("zone", info.zone());
        }
        view.put("declared", info.declared());
        view.put("target", word(info.target()));
        put(view, "capability", info.capability());
        view.put("misfire", word(info.misfire()));
        view.put("overlap", word(info.overlap()));
        view.put("state", info.paused() ? "paused" : info.known() ? "running" : "unknown");
        if (!info.known()) {
            view.put("problem", "no live node has a handler '%s'; its slots wait".formatted(info.handler()));
        }
        CronRun last = info.lastRun();
        if (last != null) {
            view.put("lastExecution", run(last));
        }
        if (info.next() != null) {
            view.put("nextExecution", Map.of("time", info.next()));
        }
        return view;
    }

    private static Map<String, Object> run(CronRun run) {
        var view = new LinkedHashMap<String, Object>();
        view.put("time", run.slot());
        view.put("outcome", word(run.outcome()));
        put(view, "status", status(run));
        put(view, "reason", run.reason());
        put(view, "job", run.job());
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
