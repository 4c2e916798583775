package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.named;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;

import dev.forge.cluster.internal.runtime.NamePattern;
import dev.forge.cluster.job.JobPriority;
import java.util.List;
import java.util.function.Predicate;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * Submission of work over HTTP.
 *
 * @param enabled Whether jobs can be submitted over HTTP.
 * @param path Path under which jobs are submitted.
 * @param jobs Names of the jobs that may be submitted, or patterns as in worker.routing: * within a segment, ** for any
 *     number of segments.
 * @param maxRequestSize How large the body of a request may be.
 * @param healthAliases Whether /_api/health and /_api/ready answer, too.
 * @param maxPriority The highest priority that a request may ask for. The priority that a handler declares is not
 *     limited.
 * @param allowReplace Whether a request may replace the payload of the unfinished job that has its key.
 * @param visibleJobs Which jobs a client may read and cancel: own, those that it has submitted; all, every job whose
 *     name is in forge.cluster.web.jobs.
 */
public record WebProperties(
        @DefaultValue("false") boolean enabled,
        @DefaultValue("/forge") String path,
        @DefaultValue List<String> jobs,
        @DefaultValue("1MB") DataSize maxRequestSize,
        @DefaultValue("true") boolean healthAliases,
        @DefaultValue("normal") JobPriority maxPriority,
        @DefaultValue("false") boolean allowReplace,
        @DefaultValue("own") VisibleJobs visibleJobs) {

    /** Which jobs a client may read and cancel. */
    public enum VisibleJobs {
        /** Those that it has submitted over HTTP. */
        OWN,
        /** Every job whose name may be submitted, whoever enqueued it. */
        ALL
    }

    private static final DataSize LARGEST_REQUEST = DataSize.ofMegabytes(64);

    public WebProperties {
        require(path.startsWith("/"), "web.path", path, "must begin with a slash");
        require(
                path.matches("/|(/[A-Za-z0-9._~-]+)+"),
                "web.path",
                path,
                "must be a plain path such as /forge, without a slash at its end");
        jobs = List.copyOf(jobs);
        require(jobs.stream().noneMatch(String::isBlank), "web.jobs", jobs, "must not have a blank entry");
        require(
                !enabled || !jobs.isEmpty(),
                "web.jobs",
                "",
                "must name the jobs that may be submitted: %s opens nothing else"
                        .formatted(named("web.enabled", enabled)));
        jobs.stream()
                .filter(WebProperties::isPattern)
                .forEach(entry -> WorkerProperties.requirePattern("web.jobs", entry));
        require(
                maxRequestSize.toBytes() > 0 && maxRequestSize.compareTo(LARGEST_REQUEST) <= 0,
                "web.max-request-size",
                maxRequestSize,
                "must lie between one byte and 64MB: a request is held in memory");
    }

    private static boolean isPattern(String entry) {
        return entry.contains("*");
    }

    /** Whether jobs of a name may be submitted. */
    public Predicate<String> allowed() {
        Predicate<String> allowed = name -> false;
        for (String entry : jobs) {
            // Names may hold what a pattern may not, a single colon for one.
            allowed = allowed.or(isPattern(entry) ? new NamePattern(entry)::matches : entry::equals);
        }
        return allowed;
    }
}
