// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.autoconfigure.web.Submissions.Submission;
import dev.forge.cluster.internal.database.Timestamps;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.http.HttpStatus;
import tools.jackson.databind.util.RawValue;

/**
 * {@code /jobs}: submits, shows and cancels jobs. Of the values of a job only progress and result are shown, which are meant for the
 * client; errors are not, because they may quote anything.
 */
final class WebJobs {

    private static final Set<String> MEMBERS = Set.of(
            "name",
            "payload",
            "key",
            "onDuplicate",
            "uniqueFor",
            "debounce",
            "debounceMax",
            "delay",
            "at",
            "priority",
            "group",
            "tags");
    private static final int LONGEST_WORD = 64;
    private static final int MOST_TAGS = 10;
    private static final int LONGEST_TAG = 100;

    private final Submissions submissions;

    WebJobs(Submissions submissions) {
        this.submissions = submissions;
    }

    /** Enqueues the job that the body describes; returns its id, name and status. */
    Map<String, Object> submit(@Nullable Object body, Submitter client) {
        JsonFields members = JsonFields.of(body, "the body", MEMBERS);
        String name = members.requiredText("name", Submissions.LONGEST_NAME);
        String key = members.text("key", Submissions.LONGEST_KEY);
        var submission = new Submission(client, name, members.value("payload"), key, options(members, key));
        submissions.check(submission);
        EnqueuedJob job = submissions.enqueue(submission);
        // The key may belong to a job that is already running, or that was deleted after its end.
        JobStatus status = key == null
                ? JobStatus.PENDING
                : submissions
                        .find(job.id(), client)
                        .map(JobInfo::status)
                        .orElse(job.created() ? JobStatus.PENDING : JobStatus.COMPLETED);
        return brief(job.id(), name, status);
    }

    private static Map<String, Object> brief(UUID id, String name, JobStatus status) {
        var view = new LinkedHashMap<String, Object>();
        view.put("id", id);
        view.put("name", name);
        view.put("status", EnumText.hyphenated(status));
        return view;
    }

    private static JobOptions options(JsonFields members, @Nullable String key) {
        try {
            return parsedOptions(members, key);
        } catch (IllegalArgumentException e) {
            throw Refusal.malformed(String.valueOf(e.getMessage()));
        }
    }

    private static JobOptions parsedOptions(JsonFields members, @Nullable String key) {
        JobOptions options = JobOptions.defaults();
        String delay = members.text("delay", LONGEST_WORD);
        String at = members.text("at", LONGEST_WORD);
        if (delay != null && at != null) {
            throw Refusal.malformed("delay and at exclude each other");
        }
        if (delay != null) {
            options = options.withDelay(duration("delay", delay));
        }
        if (at != null) {
            options = options.withTime(instant(at));
        }
        String priority = members.text("priority", LONGEST_WORD);
        if (priority != null) {
            options = options.withPriority(priority(priority));
        }
        String group = members.text("group", Submissions.LONGEST_KEY);
        if (group != null) {
            options = options.withGroup(group);
        }
        options = options.withTags(members.texts("tags", MOST_TAGS, LONGEST_TAG).toArray(String[]::new));
        if (key == null) {
            requireKey(members);
            return options;
        }
        return unique(members, options.withUniqueKey(key, policy(members.text("onDuplicate", LONGEST_WORD))));
    }

    private static JobOptions unique(JsonFields members, JobOptions options) {
        JobOptions unique = options;
        String uniqueFor = members.text("uniqueFor", LONGEST_WORD);
        if (uniqueFor != null) {
            unique = unique.withUniqueFor(duration("uniqueFor", uniqueFor));
        }
        String debounce = members.text("debounce", LONGEST_WORD);
        String debounceMax = members.text("debounceMax", LONGEST_WORD);
        if ((debounce == null) != (debounceMax == null)) {
            throw Refusal.malformed("debounce and debounceMax need each other");
        }
        if (debounce != null && debounceMax != null) {
            unique = unique.withDebounce(duration("debounce", debounce), duration("debounceMax", debounceMax));
        }
        return unique;
    }

    private static void requireKey(JsonFields members) {
        for (String member : List.of("onDuplicate", "uniqueFor", "debounce", "debounceMax")) {
            if (members.text(member, LONGEST_WORD) != null) {
                throw Refusal.malformed("%s needs a key".formatted(member));
            }
        }
    }

    // A bare number would be milliseconds to Spring Boot and seconds to most clients.
    private static Duration duration(String member, String text) {
        try {
            if (!Character.isDigit(text.charAt(text.length() - 1))) {
                return DurationStyle.detectAndParse(text);
            }
        } catch (IllegalArgumentException | ArithmeticException | DateTimeException e) {
            // Rejected below.
        }
        throw Refusal.malformed("%s must be a duration such as 30s, 5m or PT1H".formatted(member));
    }

    private static Instant instant(String text) {
        try {
            return Instant.parse(text);
        } catch (DateTimeException e) {
            throw Refusal.malformed("at must be a time such as 2030-01-31T08:00:00Z");
        }
    }

    private static JobPriority priority(String text) {
        try {
            return JobPriority.of(text);
        } catch (IllegalArgumentException e) {
            throw Refusal.malformed("priority must be one of background, low, normal, high, critical");
        }
    }

    private static UniquePolicy policy(@Nullable String text) {
        return switch (text == null ? "keep" : text) {
            case "keep" -> UniquePolicy.KEEP;
            case "replace" -> UniquePolicy.REPLACE;
            default -> throw Refusal.malformed("onDuplicate must be keep or replace");
        };
    }

    /** Returns one job. */
    Map<String, Object> show(String id, Submitter client) {
        return view(find(id, client));
    }

    /** Cancels a job and returns it. */
    Map<String, Object> cancel(String id, Submitter client) {
        JobInfo job = find(id, client);
        boolean cancelled = submissions.cancel(job);
        JobInfo now = submissions.find(job.id(), client).orElse(null);
        if (!cancelled) {
            throw now == null
                    ? unknownJob()
                    : new Refusal(
                            HttpStatus.CONFLICT,
                            "the job has already finished: it is %s".formatted(EnumText.hyphenated(now.status())));
        }
        // With a retention of zero the row is already deleted.
        return now == null ? brief(job.id(), job.name(), JobStatus.CANCELLED) : view(now);
    }

    private JobInfo find(String id, Submitter client) {
        UUID job;
        try {
            job = UUID.fromString(id);
        } catch (IllegalArgumentException e) {
            throw unknownJob();
        }
        return submissions.find(job, client).orElseThrow(WebJobs::unknownJob);
    }

    private static Refusal unknownJob() {
        return new Refusal(HttpStatus.NOT_FOUND, "there is no such job here");
    }

    private static Map<String, Object> view(JobInfo job) {
        Map<String, Object> view = brief(job.id(), job.name(), job.status());
        view.put("attempts", job.attempts());
        view.put("createdAt", job.createdAt().toString());
        put(view, "scheduledAt", Timestamps.finite(job.scheduledAt()));
        put(view, "startedAt", job.startedAt());
        put(view, "finishedAt", job.finishedAt());
        putJson(view, "progress", job.progress());
        putJson(view, "result", job.result());
        return view;
    }

    private static void put(Map<String, Object> view, String key, @Nullable Instant time) {
        if (time != null) {
            view.put(key, time.toString());
        }
    }

    // Written as stored: PostgreSQL has validated it, however deep it is nested.
    private static void putJson(Map<String, Object> view, String key, @Nullable String json) {
        if (json != null) {
            view.put(key, new RawValue(json));
        }
    }
}
