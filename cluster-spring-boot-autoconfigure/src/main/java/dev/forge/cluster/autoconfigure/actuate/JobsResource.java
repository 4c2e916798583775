package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.internal.job.JobReports;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobExplanation;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.SanitizableData;
import org.springframework.boot.actuate.endpoint.Sanitizer;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/**
 * {@code /actuator/forgecluster/jobs}. What is in a job passes the application's sanitizing functions, value by value,
 * and is masked altogether unless values are to be shown.
 */
public final class JobsResource {

    private static final int DEFAULT_LIMIT = 50;
    private static final int LARGEST_LIMIT = 1_000;

    private final Jobs jobs;
    private final JobReports reports;
    private final PayloadCodec codec;
    private final Sanitizer sanitizer;
    private final ClusterEndpointProperties properties;

    JobsResource(
            Jobs jobs,
            JobReports reports,
            PayloadCodec codec,
            Sanitizer sanitizer,
            ClusterEndpointProperties properties) {
        this.jobs = jobs;
        this.reports = reports;
        this.codec = codec;
        this.sanitizer = sanitizer;
        this.properties = properties;
    }

    /** How many unfinished jobs there are, by status; of one name no more than 10,000 pending ones are counted. */
    Map<String, Long> counts() {
        var counts = new TreeMap<String, Long>();
        reports.unfinished().forEach(count -> counts.merge(word(count.status()), count.jobs(), Long::sum));
        return counts;
    }

    /** The newest jobs, without what is in them; see {@link JobReports#list} for how far back. */
    Map<String, Object> list(@Nullable String name, @Nullable String status, @Nullable Integer limit) {
        int most = limit == null ? DEFAULT_LIMIT : limit;
        if (most < 1 || most > LARGEST_LIMIT) {
            throw refusal("limit %d is not between 1 and %d".formatted(most, LARGEST_LIMIT));
        }
        return Map.<String, Object>of(
                "paused",
                jobs.paused(),
                "jobs",
                reports.list(name, status == null ? null : status(status), most).stream()
                        .map(JobsResource::summary)
                        .toList());
    }

    private static JobStatus status(String text) {
        return Arrays.stream(JobStatus.values())
                .filter(status -> word(status).equals(text.toLowerCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() -> refusal("status '%s' is unknown; there are %s"
                        .formatted(
                                text,
                                Arrays.stream(JobStatus.values())
                                        .map(JobsResource::word)
                                        .toList())));
    }

    /** One job with all that is in it, and why it is not running; null if there is none. */
    @Nullable
    public Map<String, Object> one(String id, SecurityContext reader) {
        UUID job = id(id);
        if (job == null) {
            throw refusal("'%s' is not the id of a job".formatted(id));
        }
        JobInfo info = jobs.find(job).orElse(null);
        if (info == null) {
            return null;
        }
        boolean shown = isShown(reader);
        Map<String, Object> view = summary(info);
        var metadata = new TreeMap<String, Object>();
        info.metadata().forEach((key, value) -> metadata.put(key, clean("metadata." + key, value, shown)));
        view.put("metadata", metadata);
        Object uniqueKey = clean("uniqueKey", info.uniqueKey(), shown);
        put(view, "uniqueKey", uniqueKey);
        put(view, "progress", json("progress", info.progress(), shown));
        put(view, "payload", json("payload", info.payload(), shown));
        put(view, "result", json("result", info.result(), shown));
        put(view, "error", clean("error", info.lastError(), shown));
        if (!info.attemptHistory().isEmpty()) {
            view.put(
                    "attemptHistory",
                    info.attemptHistory().stream()
                            .map(attempt -> attempt(attempt, shown))
                            .toList());
        }
        JobExplanation explanation = jobs.explain(job);
        // The sentence names the unique key.
        String text = info.uniqueKey() == null
                ? explanation.text()
                : explanation.text().replace("'" + info.uniqueKey() + "'", "'" + uniqueKey + "'");
        view.put("explanation", Map.<String, Object>of("reason", explanation.reason(), "text", text));
        return view;
    }

    private Map<String, Object> attempt(JobAttempt attempt, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        view.put("attempt", attempt.attempt());
        view.put("epoch", attempt.epoch());
        put(view, "node", attempt.nodeId());
        view.put("startedAt", attempt.startedAt());
        Duration duration = attempt.duration();
        put(view, "durationMillis", duration == null ? null : duration.toMillis());
        view.put("result", ClusterLifecycle.word(attempt.result()));
        put(view, "error", clean("error", attempt.error(), shown));
        return view;
    }

    boolean isShown(SecurityContext reader) {
        return properties.showValues().isShown(reader, properties.roles());
    }

    private static Map<String, Object> summary(JobInfo job) {
        var view = new LinkedHashMap<String, Object>();
        view.put("id", job.id());
        view.put("name", job.name());
        view.put("status", word(job.status()));
        view.put("priority", job.priority());
        put(view, "capability", job.capability());
        view.put("createdAt", job.createdAt());
        view.put("scheduledAt", job.scheduledAt());
        put(view, "startedAt", job.startedAt());
        put(view, "finishedAt", job.finishedAt());
        view.put("attempts", job.attempts());
        put(view, "maxAttempts", job.maxAttempts());
        view.put("recoveries", job.recoveries());
        view.put("epoch", job.epoch());
        put(view, "node", job.nodeId());
        return view;
    }

    private static void put(Map<String, Object> view, String key, @Nullable Object value) {
        if (value != null) {
            view.put(key, value);
        }
    }

    @Nullable
    Object json(String key, @Nullable String json, boolean shown) {
        if (json == null) {
            return null;
        }
        try {
            return clean(key, codec.read(json, Object.class), shown);
        } catch (RuntimeException e) {
            // Nothing here reads JSON: then the text as a whole.
            return clean(key, json, shown);
        }
    }

    @Nullable
    Object clean(String key, @Nullable Object value, boolean shown) {
        if (value instanceof Map<?, ?> map) {
            var cleaned = new LinkedHashMap<String, @Nullable Object>();
            map.forEach((name, part) -> cleaned.put(String.valueOf(name), clean(key + "." + name, part, shown)));
            return cleaned;
        }
        if (value instanceof List<?> list) {
            var cleaned = new ArrayList<@Nullable Object>();
            for (int i = 0; i < list.size(); i++) {
                cleaned.add(clean("%s[%d]".formatted(key, i), list.get(i), shown));
            }
            return cleaned;
        }
        return value == null ? null : sanitizer.sanitize(new SanitizableData(null, key, value), shown);
    }

    /** An order to a job, by its id, or to all jobs of a name; null if there is no such job. */
    @Nullable
    Object order(String idOrName, String state) {
        UUID job = id(idOrName);
        try {
            return job == null ? orderName(idOrName, state) : orderJob(job, state);
        } catch (JobRejectedException | MutationRefusedException e) {
            throw new InvalidEndpointRequestException(String.valueOf(e.getMessage()), "Refused", e);
        }
    }

    private @Nullable Object orderJob(UUID job, String state) {
        BooleanSupplier order = switch (state) {
            case "cancelled" -> () -> jobs.cancel(job);
            case "retry" -> () -> jobs.retry(job);
            default ->
                throw refusal("state '%s' of a job cannot be ordered; 'cancelled' and 'retry' can".formatted(state));
        };
        boolean obeyed = order.getAsBoolean();
        JobInfo info = jobs.find(job).orElse(null);
        if (info == null) {
            return null;
        }
        if (!obeyed) {
            throw refusal("job %s is %s: state '%s' cannot be ordered".formatted(job, word(info.status()), state));
        }
        return Map.<String, Object>of("id", job, "status", word(info.status()));
    }

    private @Nullable Object orderName(String name, String state) {
        switch (state) {
            case "paused" -> {
                try {
                    jobs.pause(name);
                } catch (JobRejectedException e) {
                    return ClusterEndpoint.notFound(String.valueOf(e.getMessage()));
                }
            }
            case "running" -> {
                // Those that are not paused run already, which is what was ordered.
                if (!jobs.resume(name) && !reports.knows(name)) {
                    return null;
                }
            }
            default ->
                throw refusal("state '%s' of the jobs named '%s' cannot be ordered; 'paused' and 'running' can"
                        .formatted(state, name));
        }
        return Map.of("name", name, "state", state);
    }

    private static @Nullable UUID id(String text) {
        try {
            UUID id = UUID.fromString(text);
            // It reads shorter forms too, and those may be names.
            return id.toString().equalsIgnoreCase(text) ? id : null;
        } catch (IllegalArgumentException e) {
            return null;
        }
    }

    private static InvalidEndpointRequestException refusal(String message) {
        return new InvalidEndpointRequestException(message, message);
    }

    private static String word(JobStatus status) {
        return ClusterLifecycle.word(status);
    }
}
