// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.web;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.named;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import dev.forge.cluster.autoconfigure.properties.value.NamePattern;
import dev.forge.cluster.autoconfigure.properties.work.WorkerProperties;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.util.List;
import java.util.function.Predicate;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * Submission of jobs over HTTP.
 *
 * @param enabled Whether jobs can be submitted over HTTP.
 * @param path Path under which jobs are submitted.
 * @param jobs Names of the jobs that may be submitted, or patterns as in worker.routing: * within a segment, ** for any number of
 *     segments.
 * @param maxRequestSize Largest size of a request body.
 * @param healthAliases Whether /_api/health and /_api/ready are served. Needs forge.cluster.web.enabled.
 * @param maxPriority Highest priority that a request may set. The priority that a handler declares is not limited.
 * @param allowReplace Whether a request may replace the payload of an unfinished job with the same key.
 * @param allowGroup Whether a request may set the group of a job. The group that a handler derives from the payload needs no
 *     permission.
 * @param maxUniqueFor Longest time for which a request may keep a key unique. 0 forbids it. At most 366 days.
 * @param visibleJobs Jobs that a client may read and cancel: own (those it submitted) or all (every job whose name is in
 *     forge.cluster.web.jobs).
 */
public record WebProperties(
        @DefaultValue("false") boolean enabled,
        @DefaultValue("/forge") String path,
        @DefaultValue List<String> jobs,
        @DefaultValue("1MB") DataSize maxRequestSize,
        @DefaultValue("true") boolean healthAliases,
        @DefaultValue("normal") JobPriority maxPriority,
        @DefaultValue("false") boolean allowReplace,
        @DefaultValue("false") boolean allowGroup,
        @DefaultValue("0s") Duration maxUniqueFor,
        @DefaultValue("own") VisibleJobs visibleJobs) {

    /** Jobs that a client may read and cancel. */
    public enum VisibleJobs {
        /** Jobs that the client submitted over HTTP. */
        OWN,
        /** Every job whose name may be submitted. */
        ALL
    }

    private static final DataSize MAX_REQUEST_SIZE = DataSize.ofMegabytes(64);
    private static final Duration LONGEST_WINDOW = Duration.ofDays(366);

    public WebProperties {
        require(path.startsWith("/"), "web.path", path, "must begin with a slash");
        require(
                path.matches("/|(/[A-Za-z0-9._~-]+)+"),
                "web.path",
                path,
                "must be a plain path such as /forge, without a trailing slash");
        jobs = List.copyOf(jobs);
        require(jobs.stream().noneMatch(String::isBlank), "web.jobs", jobs, "must not contain blank entries");
        require(
                !enabled || !jobs.isEmpty(),
                "web.jobs",
                "",
                "must contain the jobs that may be submitted, because of %s".formatted(named("web.enabled", enabled)));
        jobs.stream()
                .filter(WebProperties::isPattern)
                .forEach(entry -> WorkerProperties.requirePattern("web.jobs", entry));
        require(
                maxRequestSize.toBytes() > 0 && maxRequestSize.compareTo(MAX_REQUEST_SIZE) <= 0,
                "web.max-request-size",
                maxRequestSize,
                "must be between 1B and 64MB, because requests are held in memory");
        require(
                !maxUniqueFor.isNegative() && maxUniqueFor.compareTo(LONGEST_WINDOW) <= 0,
                "web.max-unique-for",
                maxUniqueFor,
                "must be between 0 and 366 days");
    }

    private static boolean isPattern(String entry) {
        return entry.contains("*");
    }

    /** Returns which job names may be submitted. */
    public Predicate<String> allowed() {
        Predicate<String> allowed = name -> false;
        for (String entry : jobs) {
            // Names may contain characters that are invalid in a pattern, such as a single colon.
            allowed = allowed.or(isPattern(entry) ? new NamePattern(entry)::matches : entry::equals);
        }
        return allowed;
    }
}
