// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.autoconfigure.properties.web.WebProperties;
import dev.forge.cluster.autoconfigure.properties.web.WebProperties.VisibleJobs;
import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.job.enqueue.SubmitterKeys;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UniquePolicy;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpStatus;
import tools.jackson.core.JacksonException;

/**
 * The jobs that clients may submit, read and cancel. Their names must be allowed; to be read or cancelled, a job must also have been
 * submitted by the client, unless the properties say otherwise. All other jobs are treated as if they did not exist.
 */
final class Submissions {

    static final int LONGEST_NAME = 255;
    /** Together with the name, well below the largest row of the index. */
    static final int LONGEST_KEY = 255;

    private static final Logger log = LoggerFactory.getLogger(Submissions.class);

    private final Node node;
    private final Predicate<String> allowed;
    private final WebProperties web;
    private final Jobs jobs;
    private final JobHandlers handlers;
    private final PayloadCodec codec;

    /**
     * A job to be enqueued.
     *
     * @param key the key of the client, unique among its own jobs
     */
    record Submission(
            Submitter submitter,
            String name,
            @Nullable Object payload,
            @Nullable String key,
            JobOptions options) {}

    Submissions(Node node, WebProperties web, Jobs jobs, JobHandlers handlers, PayloadCodec codec) {
        this.node = node;
        this.allowed = web.allowed();
        this.web = web;
        this.jobs = jobs;
        this.handlers = handlers;
        this.codec = codec;
    }

    /** Rejects a submission as far as possible without the database. */
    void check(Submission submission) {
        requireDatabase();
        // Checked first, so that other rejections do not reveal whether a name is allowed.
        requireAllowed(submission.options);
        if (!allowed.test(submission.name)) {
            throw Refusal.unknownName();
        }
        JobHandler handler = handlers.named(submission.name);
        Type type = handler == null ? null : handler.target().payloadType();
        if (type != null) {
            requireReadable(submission, type);
        }
    }

    private void requireAllowed(JobOptions options) {
        Integer priority = options.priority();
        if (priority != null && priority > web.maxPriority().value()) {
            throw new Refusal(
                    HttpStatus.FORBIDDEN,
                    "priority must not exceed %s (forge.cluster.web.max-priority); omit it to use the priority of the job"
                            .formatted(EnumText.hyphenated(web.maxPriority())));
        }
        if (options.group() != null && !web.allowGroup()) {
            // Limits apply to each group: with groups of its own choice a client could evade them.
            throw new Refusal(HttpStatus.FORBIDDEN, "group must not be set (forge.cluster.web.allow-group is false)");
        }
        if (options.uniquePolicy() == UniquePolicy.REPLACE && !web.allowReplace()) {
            throw new Refusal(
                    HttpStatus.FORBIDDEN, "onDuplicate must not be replace (forge.cluster.web.allow-replace is false)");
        }
        if (options.debounceDelay() != null && !web.allowReplace()) {
            throw new Refusal(
                    HttpStatus.FORBIDDEN,
                    "debounce must not be set, because it replaces payloads (forge.cluster.web.allow-replace is false)");
        }
        Duration window = options.uniqueFor();
        if (window != null && window.compareTo(web.maxUniqueFor()) > 0) {
            // Each window is a row that outlives its job.
            throw new Refusal(
                    HttpStatus.FORBIDDEN,
                    web.maxUniqueFor().isZero()
                            ? "uniqueFor must not be set (forge.cluster.web.max-unique-for is 0)"
                            : "uniqueFor must not exceed %s (forge.cluster.web.max-unique-for)"
                                    .formatted(web.maxUniqueFor()));
        }
    }

    /** Rejects a request at once that would otherwise wait for the timeout of the driver. */
    private void requireDatabase() {
        if (node.state() == Node.State.RUNNING && !node.contact().isRecent()) {
            throw Refusal.unavailable();
        }
    }

    /** Rejects a payload that the handler cannot read. Not possible for handlers of other nodes. */
    private void requireReadable(Submission submission, Type type) {
        try {
            String text = submission.payload == null ? "{}" : codec.write(submission.payload);
            requireShortNumbers(submission.name, text);
            codec.read(text, type);
        } catch (Refusal e) {
            throw e;
        } catch (RuntimeException e) {
            // The message of the exception names classes of the application.
            log.debug("HTTP: job '{}' cannot read the submitted payload", submission.name, e);
            throw Refusal.malformed("job '%s' cannot read the payload%s".formatted(submission.name, place(e)));
        }
    }

    /** Checked before parsing: a few bytes can be a number of a hundred thousand digits, which takes seconds to parse. */
    private static void requireShortNumbers(String name, String json) {
        try {
            PrintedJson.requireBytes(json);
        } catch (IllegalArgumentException e) {
            throw Refusal.malformed("the payload of job '%s' %s".formatted(name, e.getMessage()));
        }
    }

    private static String place(RuntimeException failure) {
        if (!(failure instanceof JacksonException e) || e.getPath().isEmpty()) {
            return "";
        }
        var place = new StringBuilder(": see ");
        e.getPath()
                .forEach(step -> place.append(
                        step.getPropertyName() != null
                                ? "/" + step.getPropertyName()
                                : "/" + Math.max(step.getIndex(), 0)));
        return place.toString();
    }

    /** Enqueues a job that was {@linkplain #check checked}. */
    EnqueuedJob enqueue(Submission submission) {
        JobOptions options = submission.options;
        if (submission.key != null) {
            options = options.withUniqueKey(
                    submission.submitter.uniqueKey(submission.key), submission.options.uniquePolicy());
        }
        return SubmitterKeys.submit(
                submission.submitter.text(),
                options,
                submitted -> jobs.enqueueNamed(submission.name, submission.payload, submitted));
    }

    /** Returns the job if the client may see it. */
    Optional<JobInfo> find(UUID id, Submitter client) {
        requireDatabase();
        return jobs.find(id)
                .filter(job -> allowed.test(job.name()))
                .filter(job -> web.visibleJobs() == VisibleJobs.ALL || client.hasSubmitted(job));
    }

    /** Cancels a job; returns false if it has already finished. */
    boolean cancel(JobInfo job) {
        return jobs.cancel(job.id());
    }
}
