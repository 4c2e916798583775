// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.DefaultJobs;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.enqueue.JobIds;
import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.RecordedOutcome;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import dev.forge.cluster.internal.job.row.UniqueJobStore;
import dev.forge.cluster.internal.job.run.JobRunner;
import dev.forge.cluster.internal.job.run.JobStores;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.purge.PurgeBatch;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.runtime.DatabaseFaultPauses;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.internal.workflow.StepExecutor.StepRuntime;
import dev.forge.cluster.internal.workflow.store.CoalescedStatements;
import dev.forge.cluster.internal.workflow.store.WorkflowBatches;
import dev.forge.cluster.internal.workflow.store.WorkflowCommandStore;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RunClaim;
import dev.forge.cluster.internal.workflow.store.WorkflowJobs;
import dev.forge.cluster.internal.workflow.store.WorkflowKeeping;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.NewRun;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.Wait;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionException;

/**
 * Executes workflows. Each version is a job with its own name, and one job carries a run for its whole life: claims, leases,
 * recovery, routing and draining are those of jobs. A node claims only runs of versions that it has.
 */
public final class WorkflowEngine implements NodeComponent {

    private static final Logger log = GuardedLogger.of(WorkflowEngine.class);
    private static final String DEPRECATED_FACT = "workflows.deprecated";
    private static final Duration DEADLINES_INTERVAL = Duration.ofMillis(100);
    private static final Duration LEADER_INTERVAL = Duration.ofSeconds(2);
    private static final int PURGE_BATCH = 5_000;

    private final Node node;
    private final JobEngine jobEngine;
    private final JobHandlers handlers;
    private final DefaultJobs jobs;
    private final Resources resources;
    private final WorkflowSettings settings;
    private final WorkflowRunStore runs;
    private final WorkflowSignalStore signals;
    private final WorkflowCommandStore commands;
    private final CoalescedStatements statements;
    private final WorkflowReports reports;
    private final WorkflowKeeping keeping;
    private final PurgeBatch purge;
    private final PurgeBatch.SetAside undeletable;
    private final WorkflowWatch watch;
    private final UniqueJobStore jobStore;
    private final JobReleaseStore successors;
    private final JobReports jobReports;
    private final PayloadJson json;
    private final JobIds ids;
    private final StepDeadlines deadlines;
    private final StepRuntime stepRuntime;
    private final DatabaseFaultPauses pauses = new DatabaseFaultPauses();
    private final InstalledVersions versions;
    private volatile StepProbe probe = StepProbe.NONE;

    /**
     * What the engine takes from the application.
     *
     * @param control the data source of the cluster
     * @param stepTransactions the transactions of transactional steps
     */
    public record Resources(
            JobEngine.Dependencies jobs, DataSource control, PlatformTransactionManager stepTransactions) {}

    public WorkflowEngine(
            Node node, JobEngine jobEngine, JobHandlers handlers, Resources resources, WorkflowSettings settings) {
        this.node = node;
        this.jobEngine = jobEngine;
        this.handlers = handlers;
        this.resources = resources;
        this.settings = settings;
        Schema schema = node.resources().schema();
        // Executions write on the connections of the application: they are its work, and there may be many.
        DataSource application = resources.jobs.application();
        this.jobs = new DefaultJobs(node, jobEngine, handlers, resources.jobs, resources.control);
        this.runs = new WorkflowRunStore(schema, application);
        this.signals = new WorkflowSignalStore(schema, application);
        this.commands = new WorkflowCommandStore(schema, application);
        this.statements = new CoalescedStatements(
                new WorkflowHistoryStore(schema, application), runs, new WorkflowBatches(schema, application));
        this.reports = new WorkflowReports(schema, application);
        handlers.reserve(new WorkflowJobs(reports::waitOf));
        this.versions = new InstalledVersions(new WorkflowKeeping(schema, application), jobEngine::isWorking);
        this.keeping = new WorkflowKeeping(schema, node.resources().control());
        this.purge = new PurgeBatch("ended runs of workflows", PURGE_BATCH, node::nanos);
        this.undeletable = new PurgeBatch.SetAside(
                new UndeletableStore(schema, node.resources().control()),
                "forge_workflow_runs",
                WorkflowKeeping.FINISHED_RUN);
        this.watch =
                new WorkflowWatch(node, node.resources(), jobEngine, keeping, settings.strandedCheck(), versions::all);
        this.jobStore = new UniqueJobStore(schema, application);
        this.successors = new JobReleaseStore(schema, application);
        this.jobReports = new JobReports(schema, application);
        this.json = new PayloadJson(resources.jobs.codec(), resources.jobs.maxBytes());
        this.ids = new JobIds(node.clock());
        this.deadlines = new StepDeadlines(node::nanos, jobEngine.stuckHandlersWatch(), resources.jobs.monitor());
        this.stepRuntime = new StepRuntime(
                settings,
                resources.stepTransactions,
                resources.jobs.monitor(),
                deadlines,
                new SimpleAsyncTaskExecutor("forge-cluster-step-"),
                node::nanos,
                RandomGenerator.getDefault(),
                new InstalledProbe(),
                new RowLog());
    }

    // Versions ----------------------------------------------------------------------------------------------

    /**
     * Adds a version, before the node starts.
     *
     * @throws ClusterStartupException if another method declares the same version
     */
    public void add(WorkflowHandler handler) {
        versions.add(handler);
        handlers.add(new JobHandler(
                handler.version().jobName(),
                List.of(),
                null,
                JobPriority.NORMAL.value(),
                new JobHandler.Limits(settings.attempts(), settings.backoff(), settings.jitter(), Set.of(), null, null),
                new JobHandler.Target(null, null, (nothing, job) -> run(handler, job), handler.description())));
    }

    /** Returns the versions that this node has, as messages print them. */
    public Set<String> names() {
        return versions.labels();
    }

    /** Requires that all versions of this node are known. */
    void requireVersions(String call) {
        handlers.requireComplete(call);
    }

    /** Returns the data source of the application, on which runs are changed. */
    DataSource application() {
        return resources.jobs.application();
    }

    // New runs ----------------------------------------------------------------------------------------------

    /**
     * The run that waits for a new run.
     *
     * @param jobKey the unique key of the new run's job
     */
    record Parent(UUID id, String jobKey) {}

    NewRun prepare(String workflow, @Nullable Object input, @Nullable String key, @Nullable Parent parent) {
        WorkflowVersion version = versions.newest(workflow);
        WorkflowHandler handler = versions.find(version);
        String text;
        try {
            text = input == null ? null : json.write(input);
            Type type = handler == null ? null : handler.inputType();
            if (text != null && handler != null && type != null) {
                json.requireReadable(input, text, type, handler.description());
            }
        } catch (IllegalArgumentException e) {
            throw new WorkflowRejectedException("The input of workflow '%s' %s".formatted(workflow, e.getMessage()), e);
        }
        var metadata = new TreeMap<>(resources.jobs.monitor().origin(version.jobName()));
        if (parent != null) {
            metadata.put(WorkflowJobs.AWAITED_KEY, parent.id.toString());
        }
        return new NewRun(
                ids.next(),
                version,
                key,
                text,
                parent == null ? null : parent.id,
                parent == null ? null : parent.jobKey,
                JobPriority.NORMAL.value(),
                metadata.isEmpty() ? "{}" : json.write(metadata));
    }

    UUID nextId() {
        return ids.next();
    }

    // Execution ---------------------------------------------------------------------------------------------

    /** Executes a claimed run until it has to wait, or has ended. */
    private Object run(WorkflowHandler handler, Claim job) throws Throwable {
        var claim = new RunClaim(job.claimed().key(), job.node());
        RecordedRun recorded;
        try {
            recorded = statements.load(claim).orElse(null);
        } catch (DataAccessException e) {
            return snooze("could not be read", handler, job, e);
        }
        if (recorded == null) {
            return Outcome.fail("The run was deleted");
        }
        if (recorded.status().isFinal()) {
            return Outcome.complete();
        }
        if (recorded.status() == WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH) {
            return suspendBlocked(handler, job, claim, recorded);
        }
        return new WorkflowExecution(this, handler, job, recorded).run();
    }

    /** Suspends a blocked run, which was claimed nevertheless, until it is retried. */
    private Object suspendBlocked(WorkflowHandler handler, Claim job, RunClaim claim, RecordedRun recorded) {
        job.ending();
        var wait = new Wait(List.of(), null, null, null, "", null, recorded.wakeSeq(), recorded.compensating());
        try {
            return runs.suspend(claim, wait, () -> {}) ? RecordedOutcome.SNOOZED : RecordedOutcome.LOST;
        } catch (DataAccessException | TransactionException e) {
            return snooze("could not be suspended", handler, job, e);
        }
    }

    private Outcome snooze(String problem, WorkflowHandler handler, Claim job, RuntimeException failure) {
        Duration pause = pauses.next(job.id());
        log.info(
                "Workflow {} run {}: {}; repeated in {} ms: {}",
                handler.version().label(),
                job.id(),
                problem,
                pause.toMillis(),
                ErrorText.brief(failure));
        return Outcome.snooze(pause);
    }

    // Tests -------------------------------------------------------------------------------------------------

    /** Sets an observer of all attempts of steps, for tests. */
    public void probe(StepProbe observer) {
        probe = observer;
    }

    private final class InstalledProbe implements StepProbe {

        @Override
        public void before(Claim run, String step, boolean compensation) throws Exception {
            probe.before(run, step, compensation);
        }

        @Override
        public void after(Claim run, String step, boolean compensation) {
            probe.after(run, step, compensation);
        }
    }

    /**
     * Calls the method of a version with the recorded history of a run. Executes and writes nothing.
     *
     * @param recorded the history; {@link RecordedRun#compensating} must be true, so that nothing new begins
     * @return the first call that differs from the history; empty if the method makes the recorded calls
     * @throws IllegalArgumentException if this node lacks the version
     */
    public Optional<String> replay(UUID run, WorkflowVersion version, RecordedRun recorded) {
        WorkflowHandler handler = versions.find(version);
        if (handler == null) {
            throw new IllegalArgumentException(
                    "Workflow %s: the application has no such version; it has %s".formatted(version.label(), names()));
        }
        JobHandler carrier = Objects.requireNonNull(handlers.named(version.jobName()));
        Claim job = JobRunner.unclaimed(
                run, carrier, json, JobStores.of(node.resources().schema(), application(), application()), node::nanos);
        return new WorkflowExecution(this, handler, job, recorded).replay();
    }

    /** Returns what reads and writes recorded values. */
    public PayloadJson json() {
        return json;
    }

    // Execution of runs -------------------------------------------------------------------------------------

    WorkflowRunStore runs() {
        return runs;
    }

    WorkflowSignalStore signals() {
        return signals;
    }

    WorkflowCommandStore commands() {
        return commands;
    }

    CoalescedStatements statements() {
        return statements;
    }

    WorkflowReports reports() {
        return reports;
    }

    DatabaseFaultPauses pauses() {
        return pauses;
    }

    /** Returns a clock whose differences are those of the database's time. */
    LongSupplier databaseNanos() {
        return node::databaseNanos;
    }

    WorkflowSettings.Limits limits() {
        return settings.limits();
    }

    DefaultJobs jobs() {
        return jobs;
    }

    StepRuntime stepRuntime() {
        return stepRuntime;
    }

    /**
     * Inserts a job in the active transaction.
     *
     * @throws DataAccessException if another active job has its key: the run would wait for a job that it has not started
     */
    void insert(NewJob job, String key) {
        jobStore.insertWithOwnKey(job, key);
    }

    /** Frees the run that waits for this one. */
    void freeParent(UUID run) {
        try {
            successors.freeSuccessorsOf(run);
        } catch (DataAccessException e) {
            log.debug("Workflow run {}: could not free the run that waits for it; the sweeper will", run, e);
        }
    }

    /** Finds a child; fails it first if its job has ended without it, so that its parent does not wait for ever. */
    Optional<WorkflowInfo> findChild(UUID run) {
        Optional<WorkflowInfo> child = reports.find(run);
        boolean open = child.isPresent() && !child.get().status().isFinal();
        return open && runs.failIfJobEnded(run) ? reports.find(run) : child;
    }

    Optional<JobBatchInfo> findBatch(UUID batch) {
        return jobs.batch(batch).info();
    }

    Optional<JobInfo> findJob(UUID job) {
        return jobReports.find(job);
    }

    /** Announces runs that can continue, after the commit. */
    void announce() {
        jobEngine.announce(JobPriority.NORMAL);
    }

    /** Announces a cancelled job, after the commit, so that its node interrupts it. */
    void announceCancelled(UUID job) {
        jobEngine.announceCancelled(job);
    }

    // Node component ----------------------------------------------------------------------------------------

    @Override
    public void timeMoved() {
        deadlines.interruptOverdue();
    }

    @Override
    public Map<String, String> facts() {
        String deprecated = versions.deprecatedJobNames();
        return deprecated.isEmpty() ? Map.of() : Map.of(DEPRECATED_FACT, deprecated);
    }

    @Override
    public List<String> summary() {
        Set<String> labels = versions.labels();
        return labels.isEmpty() ? List.of() : List.of("Workflows: " + labels);
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(
                // Sends no statement: a slow database must not delay it.
                NodeLoop.upkeep("watch-steps", () -> DEADLINES_INTERVAL, deadlines::interruptOverdue),
                NodeLoop.of("workflows", () -> LEADER_INTERVAL, watch::blockAndRepair),
                NodeLoop.upkeep("watch-stranded", settings.strandedCheck()::interval, this::checkStranded),
                NodeLoop.cleanUp("clean-up-workflows", this::cleanUp));
    }

    /** Deletes ended runs whose retention has passed. */
    public void cleanUp() {
        WorkflowSettings.Retention retention = settings.retention();
        var expiry = new WorkflowKeeping.Expiry(retention.completed(), retention.failed());
        purge.deleteAll(
                new PurgeBatch.Rows(
                        most -> keeping.purge(expiry, most),
                        most -> keeping.expired(expiry, most),
                        runs -> keeping.purge(expiry, runs)),
                undeletable);
    }

    // Package-private: a test calls a pass without waiting for the loop.
    void checkStranded() {
        watch.checkStranded();
    }

    /** Returns whether runs in flight make this node unready: it, or every live node, lacks their version. */
    public boolean isStranded() {
        return watch.isStranded();
    }

    @Override
    public void begin() {
        try {
            watch.begin();
        } catch (DataAccessException e) {
            log.debug("Could not check for stranded runs; the next check will", e);
        }
    }
}
