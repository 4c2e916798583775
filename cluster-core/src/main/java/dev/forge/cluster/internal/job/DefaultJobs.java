package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.job.JobReports.Obstacles;
import dev.forge.cluster.internal.job.JobStore.Cancelled;
import dev.forge.cluster.internal.job.JobStore.NewJob;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.AfterCommit;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.CallerTransaction;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import dev.forge.cluster.internal.runtime.StuckHandler;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.JobExplanation;
import dev.forge.cluster.job.JobExplanation.Reason;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.UnknownJobException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** {@link Jobs} on {@code forge_jobs}. */
public final class DefaultJobs implements Jobs {

    private static final Logger log = GuardedLogger.of(DefaultJobs.class);
    private static final Instant EARLIEST = Instant.EPOCH;
    private static final Instant LATEST = Instant.parse("3000-01-01T00:00:00Z");
    private static final Duration LONGEST = Duration.ofDays(36_500);

    private static final int BATCH = 1_000;
    /** How many names a message lists. */
    private static final int LISTED_NAMES = 20;
    /** How many names of jobs whose handlers are elsewhere are kept in memory. */
    private static final int MOST_KNOWN = 10_000;
    /** A free worker would have taken it long before. */
    private static final Duration LONG_OVERDUE = Duration.ofSeconds(2);

    private final Node node;
    private final JobEngine engine;
    private final JobHandlers handlers;
    private final Setup setup;
    private final JobStore inbox;
    private final TransactionOperations alone;
    private final JobReports reports;
    private final JobStore control;
    private final JobReports controlReports;
    private final JobKeeping keeping;
    private final PayloadJson json;
    private final ReservedNames reserved;
    private final JobIds ids;
    private final Set<String> knownElsewhere = ConcurrentHashMap.newKeySet();

    /**
     * What enqueueing works with.
     *
     * @param application the data source whose transactions enqueueing joins
     * @param control connections of ours
     */
    public record Setup(DataSource application, DataSource control, JobEngine.Tools tools) {}

    public DefaultJobs(Node node, JobEngine engine, JobHandlers handlers, Setup setup) {
        this.node = node;
        this.engine = engine;
        this.handlers = handlers;
        this.setup = setup;
        this.inbox = new JobStore(node.resources().schema(), setup.application);
        this.alone = inbox.transaction();
        this.reports = new JobReports(node.resources().schema(), setup.application);
        this.control = new JobStore(node.resources().schema(), setup.control);
        this.controlReports = new JobReports(node.resources().schema(), setup.control);
        this.keeping = new JobKeeping(node.resources().schema(), setup.control);
        this.ids = new JobIds(node.clock());
        this.reserved = new ReservedNames(node, handlers);
        this.json = new PayloadJson(setup.tools.codec(), setup.tools.maxBytes());
    }

    @Override
    public UUID enqueue(Object payload, JobOptions options) {
        Arguments.required("Jobs.enqueue", "payload", payload);
        Arguments.required("Jobs.enqueue", "options", options);
        requireReady("Jobs.enqueue");
        return add(nameOf(payload), payload, options);
    }

    @Override
    public UUID enqueueNamed(String name, @Nullable Object payload, JobOptions options) {
        Arguments.required("Jobs.enqueueNamed", "name", name);
        Arguments.required("Jobs.enqueueNamed", "options", options);
        requireReady("Jobs.enqueueNamed");
        requireKnown(name);
        return add(name, payload, options);
    }

    /** What every job needs before it is looked at: the right, a transaction that may write, and the handlers. */
    private void requireReady(String call) {
        requireMayChange(call);
        handlers.requireComplete(call);
    }

    private void requireMayChange(String call) {
        node.requireMayMutate();
        CallerTransaction.requireWritable(call, setup.application);
    }

    private UUID add(String name, @Nullable Object payload, JobOptions options) {
        NewJob job = job(name, payload, options);
        String key = options.uniqueKey();
        if (key == null) {
            inbox.insert(job);
            announce(name, job.priority(), null);
            return job.id();
        }
        requireStorable("unique key", key);
        reserved.requireFreeKey(key, options.metadata());
        UUID id = inbox.insertUnique(job, key, options.uniquePolicy());
        announce(
                name,
                job.priority(),
                options.uniquePolicy() == UniquePolicy.REPLACE && id.equals(job.id()) ? id : null);
        return id;
    }

    @Override
    public List<UUID> enqueueAll(Collection<?> payloads, JobOptions options) {
        Arguments.required("Jobs.enqueueAll", "payloads", payloads);
        Arguments.required("Jobs.enqueueAll", "options", options);
        requireReady("Jobs.enqueueAll");
        if (options.uniqueKey() != null) {
            throw new JobRejectedException(
                    "enqueueAll with the unique key '%s' would enqueue one job only".formatted(options.uniqueKey()));
        }
        List<NewJob> jobs = new ArrayList<>(payloads.size());
        for (Object payload : payloads) {
            if (payload == null) {
                Arguments.required("Jobs.enqueueAll", "payloads[%d]".formatted(jobs.size()), null);
            }
            jobs.add(job(nameOf(payload), payload, options));
        }
        if (jobs.size() <= BATCH || TransactionSynchronizationManager.isActualTransactionActive()) {
            insert(jobs);
        } else {
            // All or nothing, as in a transaction of the caller's.
            alone.executeWithoutResult(status -> insert(jobs));
        }
        jobs.stream()
                .map(NewJob::name)
                .distinct()
                .forEach(name -> announce(name, jobs.get(0).priority(), null));
        return jobs.stream().map(NewJob::id).toList();
    }

    private void insert(List<NewJob> jobs) {
        for (int from = 0; from < jobs.size(); from += BATCH) {
            inbox.insertAll(jobs.subList(from, Math.min(from + BATCH, jobs.size())));
        }
    }

    /** After the commit: before it there is nothing to be found. */
    private void announce(String name, int priority, @Nullable UUID perhapsSuccessor) {
        Runnable announcement = () -> {
            if (perhapsSuccessor != null) {
                // Its predecessor may have ended while neither saw the other.
                free(() -> control.freeSuccessor(perhapsSuccessor));
            }
            engine.announceEnqueued(name, JobPriority.of(priority));
        };
        AfterCommit.run(announcement);
    }

    private static void free(Runnable statement) {
        try {
            statement.run();
        } catch (DataAccessException e) {
            // What it follows is committed: the caller must not hear of this.
            log.debug("the sweeper will see which jobs still have to wait for another", e);
        }
    }

    /** A job that is enqueued in a transaction of the caller's, as {@link #enqueueNamed} would. */
    public NewJob prepare(String name, @Nullable Object payload, JobOptions options) {
        requireKnown(name);
        return job(name, payload, options);
    }

    private NewJob job(String name, @Nullable Object payload, JobOptions options) {
        JobHandler handler = handlers.named(name);
        if (handler == null) {
            // @JobName names a job whose handler is elsewhere.
            requireStorable("job name", name);
        }
        String text = payloadText(name, payload, handler);
        Integer priority = options.priority();
        String capability = options.capability();
        Integer maxAttempts = options.maxAttempts();
        if (maxAttempts != null && maxAttempts < 1) {
            throw new JobRejectedException("job '%s' with max attempts %d".formatted(name, maxAttempts));
        }
        if (capability != null) {
            requireStorable("capability", capability);
            if (capability.startsWith("@")) {
                throw new JobRejectedException(
                        "capability '%s': those that begin with @ are the cluster's own".formatted(capability));
            }
        }
        return new NewJob(
                ids.next(),
                name,
                text,
                priority != null ? priority : handler != null ? handler.priority() : JobPriority.NORMAL.value(),
                capability != null ? capability : handler != null ? handler.capability() : null,
                delay(name, options.delay()),
                time(name, options.at()),
                maxAttempts,
                metadata(name, options));
    }

    private String payloadText(String name, @Nullable Object payload, @Nullable JobHandler handler) {
        try {
            String text = payload == null ? "{}" : json.write(payload);
            if (handler != null) {
                handler.target().requireReadable(json, payload, text);
            }
            return text;
        } catch (IllegalArgumentException e) {
            String type = payload == null ? "none" : payload.getClass().getName();
            // Maps and lists come from clients over HTTP, whom their Java types do not concern.
            String what = type.startsWith("java.") ? "" : " (" + type + ")";
            throw new JobRejectedException("the payload of job '%s'%s %s".formatted(name, what, e.getMessage()), e);
        }
    }

    private String metadata(String name, JobOptions options) {
        Map<String, String> origin = setup.tools.monitor().origin(name);
        if (origin.isEmpty() && options.metadata().isEmpty()) {
            return "{}";
        }
        var all = new TreeMap<>(origin);
        all.putAll(options.metadata());
        try {
            return json.write(all);
        } catch (IllegalArgumentException e) {
            throw new JobRejectedException("the metadata of job '%s' %s".formatted(name, e.getMessage()), e);
        }
    }

    private static long delay(String name, @Nullable Duration delay) {
        if (delay == null) {
            return 0;
        }
        if (delay.isNegative() || delay.compareTo(LONGEST) > 0) {
            throw new JobRejectedException(
                    "job '%s' with a delay of %s; it must lie between none and a hundred years".formatted(name, delay));
        }
        return delay.toMillis();
    }

    private static @Nullable Instant time(String name, @Nullable Instant at) {
        if (at != null && (at.isBefore(EARLIEST) || at.isAfter(LATEST))) {
            throw new JobRejectedException(
                    "job '%s' at %s; it must lie between %s and %s".formatted(name, at, EARLIEST, LATEST));
        }
        return at;
    }

    private static void requireStorable(String what, String text) {
        try {
            Names.require(what, text);
        } catch (IllegalArgumentException e) {
            throw new JobRejectedException(String.valueOf(e.getMessage()), e);
        }
    }

    private String nameOf(Object payload) {
        Class<?> type = payload.getClass();
        JobName declared = type.getAnnotation(JobName.class);
        if (declared == null) {
            return handlers.taking(type).name();
        }
        requireJob(declared.value());
        return declared.value();
    }

    private void requireJob(String name) {
        requireStorable("job name", name);
        reserved.requireFreeName(name);
        String refusal = handlers.ofLeader().get(name);
        if (refusal != null) {
            throw new UnknownJobException("'%s' %s".formatted(name, refusal));
        }
    }

    /** Refuses names that no node has ever had a handler for: jobs of such a name, which SQL may enqueue, do not make it known. */
    private void requireKnown(String name) {
        requireJob(name);
        if (handlers.named(name) != null || knownElsewhere.contains(name)) {
            return;
        }
        if (!controlReports.hasHandler(name)) {
            throw unknown(name);
        }
        if (knownElsewhere.size() < MOST_KNOWN) {
            knownElsewhere.add(name);
        }
    }

    private UnknownJobException unknown(String name) {
        return new UnknownJobException(
                "Unknown job '%s': no node of this cluster has ever had a handler for it; known are %s"
                        .formatted(name, knownNames()));
    }

    private String knownNames() {
        JobKeeping.FewNames everywhere = keeping.handledNames(LISTED_NAMES, reservedPrefixes());
        // Its own first.
        var names = new LinkedHashSet<>(new TreeSet<>(handlers.names()));
        names.removeIf(name -> handlers.ownerOf(name).isPresent());
        names.addAll(everywhere.first().keySet());
        int all = Math.max(names.size(), everywhere.first().size() + everywhere.more());
        List<String> listed =
                names.stream().limit(LISTED_NAMES).map(Names::printable).toList();
        return all == listed.size() ? listed.toString() : "%s and %d more".formatted(listed, all - listed.size());
    }

    @Override
    public Optional<JobInfo> find(UUID id) {
        Arguments.required("Jobs.find", "id", id);
        return reports.find(id);
    }

    @Override
    public boolean cancel(UUID id) {
        Arguments.required("Jobs.cancel", "id", id);
        requireMayChange("Jobs.cancel");
        Cancelled cancelled = inbox.cancel(id, ownedPrefixes()).orElse(null);
        if (cancelled == null) {
            refuseOwned(id, OwnedJobs::cancelAdvice);
            return false;
        }
        AfterCommit.run(() -> {
            if (cancelled.hasKey()) {
                // The caller's transaction may not have seen its successor.
                free(() -> control.freeSuccessorOf(id));
                engine.announce(JobPriority.NORMAL);
            }
            engine.announceCancelled(id);
        });
        return true;
    }

    @Override
    public boolean retry(UUID id) {
        Arguments.required("Jobs.retry", "id", id);
        requireMayChange("Jobs.retry");
        boolean begun = inbox.retry(id, ownedPrefixes());
        if (begun) {
            AfterCommit.run(() -> engine.announce(JobPriority.NORMAL));
        } else {
            refuseOwned(id, OwnedJobs::retryAdvice);
        }
        return begun;
    }

    /** The owner of a job must hear of its end and of its restart. */
    private void refuseOwned(UUID id, Function<OwnedJobs, String> advice) {
        reports.find(id)
                .ifPresent(job -> handlers.ownerOf(job.name()).ifPresent(owned -> {
                    throw new JobRejectedException("job %s ('%s') is one of the %s; %s"
                            .formatted(id, job.name(), owned.description(), advice.apply(owned)));
                }));
    }

    private List<String> ownedPrefixes() {
        return handlers.owned().stream().map(OwnedJobs::prefix).toList();
    }

    private List<String> reservedPrefixes() {
        return Stream.concat(
                        ownedPrefixes().stream(),
                        node.reservedPrefixes().stream().map(ReservedPrefix::text))
                .toList();
    }

    @Override
    public void pause(String name) {
        Arguments.required("Jobs.pause", "name", name);
        node.requireMayMutate();
        requireStorable("job name", name);
        handlers.requireComplete("Jobs.pause");
        if (!handlers.ofLeader().containsKey(name) && handlers.ownerOf(name).isEmpty()) {
            requireJob(name);
            // Unlike enqueueing: what somebody enqueued from SQL can be paused, too.
            if (handlers.named(name) == null && !controlReports.knows(name)) {
                throw unknown(name);
            }
        }
        keeping.pause(name);
    }

    @Override
    public boolean resume(String name) {
        Arguments.required("Jobs.resume", "name", name);
        node.requireMayMutate();
        requireStorable("job name", name);
        boolean resumed = keeping.resume(name);
        engine.announce(JobPriority.NORMAL);
        return resumed;
    }

    @Override
    public Set<String> paused() {
        return keeping.paused();
    }

    @Override
    public JobExplanation explain(UUID id) {
        Arguments.required("Jobs.explain", "id", id);
        JobInfo job = reports.find(id).orElse(null);
        if (job == null) {
            return new JobExplanation(
                    Reason.NOT_FOUND, "There is no job %s; perhaps its retention has passed.".formatted(id));
        }
        return switch (job.status()) {
            case RUNNING -> explainRunning(job);
            case CLAIMED ->
                new JobExplanation(
                        Reason.CLAIMED, "Node %s has it and will start it in a moment.".formatted(job.nodeId()));
            case COMPLETED, FAILED, CANCELLED, ABANDONED ->
                new JobExplanation(
                        Reason.FINISHED, "It has ended: %s at %s.".formatted(job.status(), job.finishedAt()));
            case PENDING ->
                reports.obstacles(id)
                        .map(obstacles -> explain(job, obstacles))
                        .orElse(new JobExplanation(Reason.ABOUT_TO_START, "It was claimed this very moment."));
        };
    }

    private JobExplanation explainRunning(JobInfo job) {
        String running = "It runs on node %s since %s".formatted(job.nodeId(), job.startedAt());
        StuckHandler stuck = engine.stuckHandlers().stream()
                .filter(one -> one.id().equals(job.id()) && Objects.equals(job.nodeId(), node.id()))
                .findFirst()
                .orElse(null);
        if (stuck != null) {
            return new JobExplanation(
                    Reason.RUNNING_PAST_TIMEOUT,
                    "%s. %s: %s, and its handler ignores the interrupt; the log of the node has its stack."
                            .formatted(running, stuck.label(), stuck.cause()));
        }
        JobHandler handler = handlers.named(job.name());
        Duration timeout = handler == null ? null : handler.limits().timeout();
        // On another node: as long as the interrupt may take, the attempt is only about to end.
        if (timeout != null && reports.runningFor(job.id()).compareTo(timeout.plus(StuckHandlers.GRACE)) > 0) {
            return new JobExplanation(
                    Reason.RUNNING_PAST_TIMEOUT,
                    "%s. The attempt exceeded its timeout of %s, and its handler ignores the interrupt; the log of the node has its stack."
                            .formatted(running, timeout));
        }
        return new JobExplanation(Reason.RUNNING, running + ".");
    }

    /** A run of a cron that the leader is to work on. */
    private static boolean isForLeaders(JobInfo job) {
        String capability = job.capability();
        return capability != null && capability.startsWith("@");
    }

    private JobExplanation explain(JobInfo job, Obstacles obstacles) {
        if (obstacles.waitsFor() != null) {
            return new JobExplanation(
                    Reason.WAITING_FOR_PREDECESSOR,
                    job.uniqueKey() == null || handlers.ownerOf(job.name()).isPresent()
                            ? "Job %s must end first: its run waits for it.".formatted(obstacles.waitsFor())
                            : "Job %s has the unique key '%s' and must end first."
                                    .formatted(obstacles.waitsFor(), job.uniqueKey()));
        }
        if (obstacles.paused()) {
            return new JobExplanation(Reason.PAUSED, "Jobs named '%s' are paused.".formatted(job.name()));
        }
        if (obstacles.dueInMillis() > 0) {
            return new JobExplanation(
                    Reason.NOT_DUE,
                    "It is due at %s, in %s.%s"
                            .formatted(
                                    job.scheduledAt(),
                                    Duration.ofMillis(obstacles.dueInMillis()),
                                    job.attempts() > 0 ? " Attempt %d has failed.".formatted(job.attempts()) : ""));
        }
        if (obstacles.workers() == 0) {
            return new JobExplanation(
                    Reason.NO_LIVE_WORKER,
                    "No active node has the role %s.".formatted(isForLeaders(job) ? "scheduler" : "worker"));
        }
        if (obstacles.knowing() == 0) {
            return new JobExplanation(
                    Reason.UNKNOWN_NAME,
                    "None of %d active workers has a handler named '%s'; was it renamed? @ClusterJob(aliases = \"%2$s\")"
                            .formatted(obstacles.workers(), job.name()));
        }
        if (obstacles.capable() == 0 && isForLeaders(job)) {
            return new JobExplanation(
                    Reason.NO_CAPABLE_WORKER,
                    "None of %d active nodes that know it leads the scheduler role.".formatted(obstacles.knowing()));
        }
        if (obstacles.capable() == 0) {
            return new JobExplanation(
                    Reason.NO_CAPABLE_WORKER,
                    "None of %d active workers that know it offers the capability '%s'."
                            .formatted(obstacles.knowing(), job.capability()));
        }
        if (obstacles.free() == 0 || obstacles.dueInMillis() < -LONG_OVERDUE.toMillis()) {
            return new JobExplanation(
                    Reason.WORKERS_FULL,
                    "The executors of all %d workers that could take it are busy.".formatted(obstacles.capable()));
        }
        return new JobExplanation(Reason.ABOUT_TO_START, "Nothing stands in its way; a worker will take it.");
    }
}
