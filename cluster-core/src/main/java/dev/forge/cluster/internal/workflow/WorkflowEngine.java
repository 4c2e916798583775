package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.job.DefaultJobs;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.JobHandler;
import dev.forge.cluster.internal.job.JobHandlers;
import dev.forge.cluster.internal.job.JobIds;
import dev.forge.cluster.internal.job.JobReports;
import dev.forge.cluster.internal.job.JobStore;
import dev.forge.cluster.internal.job.JobStore.NewJob;
import dev.forge.cluster.internal.job.RecordedOutcome;
import dev.forge.cluster.internal.job.RunningJob;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.CallerTransaction;
import dev.forge.cluster.internal.runtime.DatabaseFaultPauses;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PurgeBatch;
import dev.forge.cluster.internal.workflow.WorkflowStore.Claim;
import dev.forge.cluster.internal.workflow.WorkflowStore.Loaded;
import dev.forge.cluster.internal.workflow.WorkflowStore.NewRun;
import dev.forge.cluster.internal.workflow.WorkflowStore.SignalLimits;
import dev.forge.cluster.internal.workflow.WorkflowStore.Version;
import dev.forge.cluster.internal.workflow.WorkflowStore.Wait;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.random.RandomGenerator;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionException;

/**
 * Runs workflows. Each version is a job of its own name, and one job carries a run for its whole life: claims, leases,
 * recovery, routing and draining are those of jobs. A node claims only versions that it has.
 */
public final class WorkflowEngine implements NodeComponent {

    /** What the metadata of a job says that a run waits for. */
    static final String AWAITED = WorkflowStore.AWAITED;

    private static final Logger log = GuardedLogger.of(WorkflowEngine.class);
    private static final String DEPRECATED = "workflows.deprecated";
    private static final Duration WATCH = Duration.ofMillis(100);
    private static final Duration LOOK = Duration.ofSeconds(2);
    private static final int BATCH = 5_000;

    private final PurgeBatch purge;
    private final JobEngine engine;
    private final JobHandlers handlers;
    private final DefaultJobs jobs;
    private final Setup setup;
    private final Settings settings;
    private final WorkflowStore store;
    private final RunStatements statements;
    private final WorkflowReports reports;
    private final WorkflowKeeping application;
    private final WorkflowKeeping control;
    private final WorkflowWatch watch;
    private final JobStore inbox;
    private final JobReports inboxReports;
    private final PayloadJson json;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private final JobIds ids;
    private final StepDeadlines deadlines;
    private final WorkflowSteps.Tools tools;
    private final DatabaseFaultPauses pauses = new DatabaseFaultPauses();
    private final Map<String, WorkflowHandler> versions = new TreeMap<>();

    /**
     * What runs work with.
     *
     * @param transactions those of transactional steps
     */
    public record Setup(DefaultJobs.Setup jobs, PlatformTransactionManager transactions) {}

    /**
     * How they run.
     *
     * @param attempts of steps that do not say themselves
     * @param backoff the same
     */
    public record Settings(
            int attempts,
            BackoffStrategy backoff,
            double jitter,
            Retention retention,
            Stranded stranded,
            Limits limits) {}

    /**
     * How large a run may become.
     *
     * @param signals how many may wait to be taken, and how large they may be
     * @param historyBytes how large its input and recorded results may be
     */
    public record Limits(SignalLimits signals, long historyBytes) {

        /** What the properties say by default. */
        public static final Limits USUAL = new Limits(new SignalLimits(1_000, 16 << 20), 32 << 20);
    }

    /**
     * How long runs are kept once they have ended.
     *
     * @param failed all that have not completed
     */
    public record Retention(Duration completed, Duration failed) {}

    /**
     * What makes a node unready.
     *
     * @param interval between two looks
     * @param clusterWide only runs that no live node can go on with; otherwise those that this node cannot
     */
    public record Stranded(Duration interval, boolean clusterWide) {}

    public WorkflowEngine(Node node, JobEngine engine, JobHandlers handlers, Setup setup, Settings settings) {

        handlers.reserve(new WorkflowJobs());
        this.purge = new PurgeBatch("ended runs of workflows", BATCH, node::nanos);
        this.engine = engine;
        this.handlers = handlers;
        this.setup = setup;
        this.settings = settings;
        Node.Resources resources = node.resources();
        this.jobs = new DefaultJobs(node, engine, handlers, setup.jobs);
        // Runs write on the application's connections: they are the application's work, and there may be many.
        this.store = new WorkflowStore(resources.schema(), setup.jobs.application());
        this.statements = new RunStatements(store, new WorkflowBatches(resources.schema(), setup.jobs.application()));
        this.reports = new WorkflowReports(resources.schema(), setup.jobs.application());
        this.application = new WorkflowKeeping(resources.schema(), setup.jobs.application());
        this.control = new WorkflowKeeping(resources.schema(), resources.control());
        this.watch = new WorkflowWatch(node, engine, control, settings.stranded, this::versions);
        this.inbox = new JobStore(resources.schema(), setup.jobs.application());
        this.inboxReports = new JobReports(resources.schema(), setup.jobs.application());
        this.json =
                new PayloadJson(setup.jobs.tools().codec(), setup.jobs.tools().maxBytes());
        this.ids = new JobIds(node.clock());
        this.deadlines = new StepDeadlines(
                node::nanos, engine.stuckHandlersWatch(), setup.jobs.tools().monitor());
        this.tools = new WorkflowSteps.Tools(
                settings,
                setup.transactions,
                setup.jobs.tools().monitor(),
                deadlines,
                new SimpleAsyncTaskExecutor("forge-cluster-step-"),
                node::nanos,
                random);
    }

    // Versions ----------------------------------------------------------------------------------------------

    /**
     * Adds a version, before the node starts.
     *
     * @throws ClusterStartupException if there is one already
     */
    public void add(WorkflowHandler handler) {
        String name = handler.version().jobName();
        WorkflowHandler other = versions.putIfAbsent(name, handler);
        if (other != null) {
            throw new ClusterStartupException(
                    "Two methods are version '%s' of workflow '%s': %s and %s"
                            .formatted(
                                    handler.version().version(),
                                    handler.version().workflow(),
                                    other.description(),
                                    handler.description()),
                    "Give one of them another name or version: @ClusterWorkflow(name = ..., version = ...).");
        }
        handlers.add(new JobHandler(
                name,
                List.of(),
                null,
                JobPriority.NORMAL.value(),
                new JobHandler.Limits(settings.attempts, settings.backoff, settings.jitter, Set.of(), null, null),
                new JobHandler.Target(
                        null, null, (nothing, job) -> run(handler, (RunningJob) job), handler.description())));
    }

    /** Demands that all versions of this node are known. */
    void requireVersions(String call) {
        handlers.requireComplete(call);
    }

    /** Demands that runs can be changed in the caller's transaction. */
    void requireWritable(String call) {
        CallerTransaction.requireWritable(call, setup.jobs.application());
    }

    /** The versions this node has. */
    public Set<Version> versions() {
        return versions.values().stream().map(WorkflowHandler::version).collect(Collectors.toSet());
    }

    /** The same for people. */
    public Set<String> names() {
        return versions.keySet().stream()
                .map(name -> name.substring(WorkflowStore.PREFIX.length()))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** The version that new runs have: this node's own if it works, otherwise what somebody can run. */
    private Version newest(String workflow) {
        Optional<Version> own = newest(
                versions.values().stream()
                        .filter(handler -> !handler.deprecated())
                        .map(WorkflowHandler::version)
                        .toList(),
                version -> version.workflow().equals(workflow));
        if (own.isPresent() && engine.isWorking()) {
            return own.get();
        }
        Map<Version, Boolean> elsewhere = application.advertised();
        return newest(
                        elsewhere.keySet(),
                        version -> version.workflow().equals(workflow)
                                && Boolean.FALSE.equals(elsewhere.get(version))
                                && !isDeprecated(version))
                // Nobody can run it now; whoever comes with what this node has will.
                .or(() -> own)
                // Or with what some node has had: it may be restarting.
                .or(() -> newest(
                        application.everAdvertised(workflow),
                        version -> !elsewhere.containsKey(version) && !isDeprecated(version)))
                .orElseThrow(() -> new WorkflowRejectedException(
                        "Unknown workflow '%s': no node has, or has had, a version of it that is not deprecated; known here are %s, on live workers %s"
                                .formatted(
                                        workflow,
                                        names(),
                                        elsewhere.keySet().stream()
                                                .map(Version::label)
                                                .collect(Collectors.toCollection(TreeSet::new)))));
    }

    private static String label(String job) {
        return Version.of(job).map(Version::label).orElse(job);
    }

    private boolean isDeprecated(Version version) {
        WorkflowHandler handler = versions.get(version.jobName());
        return handler != null && handler.deprecated();
    }

    private static Optional<Version> newest(Iterable<Version> versions, Predicate<Version> which) {
        Version newest = null;
        Comparator<Version> order = Comparator.comparing(Version::version, WorkflowVersions.ORDER);
        for (Version version : versions) {
            if (which.test(version) && (newest == null || order.compare(version, newest) > 0)) {
                newest = version;
            }
        }
        return Optional.ofNullable(newest);
    }

    /**
     * Whoever waits for a run.
     *
     * @param key the unique key of the run's job
     */
    record Parent(UUID id, String key) {}

    NewRun prepare(String workflow, @Nullable Object input, @Nullable String key, @Nullable Parent parent) {
        Version version = newest(workflow);
        WorkflowHandler handler = versions.get(version.jobName());
        String text;
        try {
            text = input == null ? null : json.write(input);
            Type type = handler == null ? null : handler.inputType();
            if (text != null && handler != null && type != null) {
                json.requireReadable(input, text, type, handler.description());
            }
        } catch (IllegalArgumentException e) {
            throw new WorkflowRejectedException("the input of workflow '%s' %s".formatted(workflow, e.getMessage()), e);
        }
        var metadata = new TreeMap<>(setup.jobs.tools().monitor().origin(version.jobName()));
        if (parent != null) {
            metadata.put(AWAITED, parent.id.toString());
        }
        return new NewRun(
                ids.next(),
                version,
                key,
                text,
                parent == null ? null : parent.id,
                parent == null ? null : parent.key,
                JobPriority.NORMAL.value(),
                metadata.isEmpty() ? "{}" : json.write(metadata));
    }

    UUID nextId() {
        return ids.next();
    }

    // Running -----------------------------------------------------------------------------------------------

    /** Runs a claimed run until it has to wait, or has ended. */
    private Object run(WorkflowHandler handler, RunningJob job) throws Throwable {
        var claim = new Claim(job.key(), job.node());
        Loaded loaded;
        try {
            loaded = statements.load(claim).orElse(null);
        } catch (DataAccessException e) {
            log.info("workflow {} run {}: cannot be read now: {}", label(job.name()), job.id(), ErrorText.brief(e));
            return Outcome.snooze(pauses.next(job.id()));
        }
        if (loaded == null) {
            return Outcome.fail("its run is gone");
        }
        if (loaded.status().isFinal()) {
            return Outcome.complete();
        }
        if (loaded.status() == WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH) {
            job.returned();
            job.ending();
            // Until somebody lets it go on.
            var parked = new Wait(List.of(), null, null, null, "", null, loaded.wakeSeq(), loaded.unwinding());
            try {
                return store.suspend(claim, parked, () -> {}) ? RecordedOutcome.PENDING : RecordedOutcome.LOST;
            } catch (DataAccessException | TransactionException e) {
                log.info(
                        "workflow {} run {}: cannot be parked now: {}",
                        label(job.name()),
                        job.id(),
                        ErrorText.brief(e));
                return Outcome.snooze(pauses.next(job.id()));
            }
        }
        return new WorkflowRun(this, handler, job, loaded).run();
    }

    WorkflowStore store() {
        return store;
    }

    DatabaseFaultPauses pauses() {
        return pauses;
    }

    Limits limits() {
        return settings.limits;
    }

    RunStatements statements() {
        return statements;
    }

    WorkflowReports reports() {
        return reports;
    }

    PayloadJson json() {
        return json;
    }

    DefaultJobs jobs() {
        return jobs;
    }

    /** What steps are done with. */
    WorkflowSteps.Tools tools() {
        return tools;
    }

    /**
     * Adds a job in the transaction that runs.
     *
     * @throws DataAccessException if another active job has its key: the run would wait for a job that it has not started
     */
    void insert(NewJob job, String key) {
        inbox.insertWithOwnKey(job, key);
    }

    /** Lets the run go on that waits for this one. */
    void freeParent(UUID run) {
        try {
            inbox.freeSuccessorOf(run);
        } catch (DataAccessException e) {
            log.debug("run {}: whoever waits for it is freed by the sweeper", run, e);
        }
    }

    /** A child as it stands; it has failed if its job has ended without it, so that nobody waits for it any more. */
    Optional<WorkflowInfo> findChild(UUID run) {
        Optional<WorkflowInfo> child = reports.find(run);
        boolean open = child.isPresent() && !child.get().status().isFinal();
        return open && store.failIfJobEnded(run) ? reports.find(run) : child;
    }

    Optional<JobInfo> find(UUID job) {
        return inboxReports.find(job);
    }

    // Duties ------------------------------------------------------------------------------------------------

    @Override
    public Map<String, String> facts() {
        String deprecated = versions.values().stream()
                .filter(WorkflowHandler::deprecated)
                .map(handler -> handler.version().jobName())
                .collect(Collectors.joining("\n"));
        return deprecated.isEmpty() ? Map.of() : Map.of(DEPRECATED, deprecated);
    }

    @Override
    public List<String> summary() {
        return versions.isEmpty()
                ? List.of()
                : List.of("Workflows: "
                        + versions.keySet().stream()
                                .map(name -> name.substring(WorkflowStore.PREFIX.length()))
                                .sorted()
                                .toList());
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(
                // Asking nobody: nothing may delay it.
                NodeLoop.of("watch-steps", () -> WATCH, deadlines::watch),
                NodeLoop.of("workflows", () -> LOOK, watch::look),
                NodeLoop.of("watch-stranded", settings.stranded::interval, this::lookForStranded),
                NodeLoop.cleanUp("clean-up-workflows", this::cleanUp));
    }

    /** Deletes what was kept long enough. */
    public void cleanUp() {
        purge.deleteAll(limit -> control.purge(settings.retention.completed, settings.retention.failed, limit));
    }

    // Package-private: a test calls a pass without waiting for the loop.
    void lookForStranded() {
        watch.lookForStranded();
    }

    /** Whether there are runs in flight that this node, or all of them, cannot go on with: it is not ready then. */
    public boolean isStranded() {
        return watch.isStranded();
    }

    @Override
    public void begin() {
        try {
            watch.begin();
        } catch (DataAccessException e) {
            log.debug("could not look for stranded runs; the next look will", e);
        }
    }

    /** Something that can be waited for has happened, and is committed. */
    void announce() {
        engine.announce(JobPriority.NORMAL);
    }

    /** A job was called off, and that is committed: whoever runs it stops. */
    void announceCancelled(UUID job) {
        engine.announceCancelled(job);
    }
}
