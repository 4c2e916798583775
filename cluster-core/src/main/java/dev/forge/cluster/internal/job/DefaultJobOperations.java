// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.audit.AuditedChanges;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.enqueue.JobEnqueuer;
import dev.forge.cluster.internal.job.enqueue.JobIds;
import dev.forge.cluster.internal.job.enqueue.NewJobFactory;
import dev.forge.cluster.internal.job.enqueue.RegisteredJobNames;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.history.JobHistoryReports;
import dev.forge.cluster.internal.job.operate.BulkJobs;
import dev.forge.cluster.internal.job.operate.FilterChecks;
import dev.forge.cluster.internal.job.operate.JobBatchReports;
import dev.forge.cluster.internal.job.operate.JobCountReports;
import dev.forge.cluster.internal.job.operate.JobDemandReader;
import dev.forge.cluster.internal.job.operate.JobDemandReports;
import dev.forge.cluster.internal.job.operate.JobExplainer;
import dev.forge.cluster.internal.job.operate.JobExportReports;
import dev.forge.cluster.internal.job.operate.JobExports;
import dev.forge.cluster.internal.job.operate.JobLimitReports;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.operate.JobSearchReports;
import dev.forge.cluster.internal.job.operate.LimitText;
import dev.forge.cluster.internal.job.row.JobBulkStore;
import dev.forge.cluster.internal.job.row.JobDependencyStore;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobLimitStore;
import dev.forge.cluster.internal.job.row.JobLogStore;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.job.row.JobRestartStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobHistory;
import dev.forge.cluster.job.operations.JobHistoryQuery;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobLogLine;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.job.operations.JobSummary;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** {@link JobOperations} on the tables of jobs. */
public final class DefaultJobOperations implements JobOperations {

    private static final int MOST_LISTED = 1_000;

    private static final int HEAVIEST = 1_000;

    private final Node node;
    private final JobEngine engine;
    private final JobHandlers handlers;
    private final CallerTransaction caller;
    private final CallerTransaction separately;
    private final JobRestartStore restarts;
    private final JobReports reports;
    private final JobCountReports counts;
    private final JobSearchReports search;
    private final JobLogStore logs;
    private final BulkJobs bulk;
    private final JobExports exports;
    private final JobNameStore nameStore;
    private final JobLimitStore limits;
    private final RegisteredJobNames names;
    private final NewJobFactory newJobs;
    private final JobEnqueuer enqueuer;
    private final JobBatchReports batchReports;
    private final JobExplainer explainer;
    private final JobDemandReader demand;
    private final JobHistoryReports history;
    private final AuditedChanges auditedInCallersTransaction;
    private final AuditedChanges audited;

    /**
     * @param tools what the engine depends on; changes of single jobs join the transactions of its data source
     * @param control the data source of the cluster
     */
    public DefaultJobOperations(
            Node node, JobEngine engine, JobHandlers handlers, JobEngine.Dependencies tools, DataSource control) {
        this.node = node;
        this.engine = engine;
        this.handlers = handlers;
        Schema schema = node.resources().schema();
        DataSource application = tools.application();
        this.caller = new CallerTransaction(application);
        this.separately = new CallerTransaction(control);
        this.restarts = new JobRestartStore(schema, application);
        this.reports = new JobReports(schema, application);
        this.counts = new JobCountReports(schema, application);
        this.search = new JobSearchReports(schema, application, node::nanos);
        this.logs = new JobLogStore(schema, application);
        Audit audit = node.resources().audit();
        this.auditedInCallersTransaction = audit.on(application);
        this.audited = audit.on(control);
        this.bulk = new BulkJobs(
                new BulkJobs.Stores(search, new JobBulkStore(schema, application), auditedInCallersTransaction),
                handlers,
                engine.news(),
                caller,
                node::nanos);
        this.exports = new JobExports(search, new JobExportReports(schema, application), tools.maxBytes());
        this.nameStore = new JobNameStore(schema, control);
        this.limits = new JobLimitStore(schema, control);
        this.names = new RegisteredJobNames(node, handlers, control);
        this.newJobs = new NewJobFactory(
                handlers, tools.monitor(), new PayloadJson(tools.codec(), tools.maxBytes()), new JobIds(node.clock()));
        this.enqueuer = new JobEnqueuer(engine.news(), names, newJobs, caller, schema, application, control);
        this.batchReports = new JobBatchReports(schema, application);
        this.explainer = new JobExplainer(
                node,
                engine.stuckHandlersWatch(),
                handlers,
                new JobExplainer.Reports(
                        reports,
                        new JobLimitReports(schema, application),
                        batchReports,
                        new JobDependencyStore(schema, application),
                        new NodeReports(schema, application)));
        this.demand = new JobDemandReader(
                new JobDemandReports(schema, control), handlers, engine.executors(), engine::executorOf);
        this.history = new JobHistoryReports(schema, application);
    }

    @Override
    public Page<JobInfo> search(JobFilter filter, int limit, @Nullable String cursor) {
        Arguments.required("JobOperations.search", "filter", filter);
        Arguments.limit("JobOperations.search", limit, MOST_LISTED);
        FilterChecks.require(filter);
        return search.page("JobOperations.search", filter, limit, cursor);
    }

    @Override
    public JobCount count(JobFilter filter) {
        Arguments.required("JobOperations.count", "filter", filter);
        FilterChecks.require(filter);
        return FilterChecks.isSimple(filter) ? counts.count(filter) : search.count("JobOperations.count", filter);
    }

    @Override
    public List<JobLogLine> logs(UUID id) {
        Arguments.required("JobOperations.logs", "id", id);
        return logs.read(id);
    }

    @Override
    public Page<JobBatchInfo> batches(int limit, @Nullable String cursor) {
        Arguments.limit("JobOperations.batches", limit, MOST_LISTED);
        var cursors = new Cursors("JobOperations.batches", "batches");
        List<JobBatchInfo> found = batchReports.list(cursors.decodeOne(cursor, UUID::fromString), limit);
        return cursors.page(found, limit, batch -> batch.id().toString());
    }

    // Bulk operations ---------------------------------------------------------------------------------------

    @Override
    public BulkResult cancelAll(JobFilter filter, BulkOptions options) {
        requireBulk("JobOperations.cancelAll", filter, options);
        return bulk.cancel(filter, options);
    }

    @Override
    public BulkResult retryAll(JobFilter filter, BulkOptions options) {
        requireBulk("JobOperations.retryAll", filter, options);
        return bulk.retry(filter, options);
    }

    @Override
    public BulkResult rescheduleAll(JobFilter filter, Instant at, BulkOptions options) {
        Arguments.required("JobOperations.rescheduleAll", "at", at);
        requireBulk("JobOperations.rescheduleAll", filter, options);
        return bulk.reschedule(filter, NewJobFactory.requireTime("JobOperations.rescheduleAll", at), options);
    }

    @Override
    public BulkResult deleteAll(JobFilter filter, BulkOptions options) {
        requireBulk("JobOperations.deleteAll", filter, options);
        return bulk.delete(filter, options);
    }

    private void requireBulk(String call, JobFilter filter, BulkOptions options) {
        Arguments.required(call, "filter", filter);
        Arguments.required(call, "options", options);
        node.requireMayMutate();
        handlers.requireComplete(call);
        FilterChecks.require(filter);
    }

    // Copies and exports ------------------------------------------------------------------------------------

    @Override
    public Page<String> export(JobFilter filter, int limit, @Nullable String cursor) {
        Arguments.required("JobOperations.export", "filter", filter);
        Arguments.limit("JobOperations.export", limit, MOST_LISTED);
        FilterChecks.require(filter);
        return exports.export(filter, limit, cursor);
    }

    @Override
    public EnqueuedJob enqueueExported(String line) {
        Arguments.required("JobOperations.enqueueExported", "line", line);
        requireReady("JobOperations.enqueueExported");
        JobExports.Line exported = exports.parse(line);
        return enqueue(exported, "job.enqueue-exported", null);
    }

    @Override
    public Optional<EnqueuedJob> enqueueCopy(UUID id, @Nullable String json) {
        Arguments.required("JobOperations.enqueueCopy", "id", id);
        requireReady("JobOperations.enqueueCopy");
        JobInfo job = reports.find(id).orElse(null);
        if (job == null) {
            return Optional.empty();
        }
        JobExports.Line copy = exports.copy(id, json == null ? null : newJobs.edit(job, json));
        return Optional.ofNullable(copy).map(line -> enqueue(line, "job.copy", id));
    }

    /** @param original the job that is copied; null: it is not known here */
    private EnqueuedJob enqueue(JobExports.Line exported, String action, @Nullable UUID original) {
        names.requireRegistered(exported.name());
        NewJob job = newJobs.createFromJson(exported.name(), exported.payload(), exported.options());
        return auditedInCallersTransaction.record(
                original == null
                        ? new Operation(action, job.id(), job.name())
                        : new Operation(action, original, "as " + job.id()),
                () -> enqueuer.enqueue(job, exported.options()),
                enqueued -> enqueued.created() ? 1 : 0);
    }

    @Override
    public boolean retryWithPayload(UUID id, String json) {
        Arguments.required("JobOperations.retryWithPayload", "id", id);
        Arguments.required("JobOperations.retryWithPayload", "json", json);
        requireReady("JobOperations.retryWithPayload");
        JobInfo job = reports.find(id).orElse(null);
        if (job == null) {
            return false;
        }
        handlers.rejectOwned(job, OwnedJobs::retryAdvice);
        JobRestartStore.Edit edit = newJobs.edit(job, json);
        boolean restarted = auditedInCallersTransaction.record(
                new Operation("job.retry", id, "with another payload"),
                () -> restarts.retry(id, handlers.ownedPrefixes(), edit));
        if (restarted) {
            caller.afterCommit(() -> engine.announce(JobPriority.NORMAL));
        }
        return restarted;
    }

    @Override
    public Set<String> paused() {
        return separately.run(nameStore::paused);
    }

    // Limits ------------------------------------------------------------------------------------------------

    @Override
    public JobLimits limits(String name) {
        Arguments.required("JobOperations.limits", "name", name);
        NewJobFactory.requireListable("job name", name);
        return separately.run(() -> limits.find(handlerName(name))).orElse(JobLimits.none());
    }

    @Override
    public void setLimits(String name, JobLimits allowed) {
        Arguments.required("JobOperations.setLimits", "name", name);
        Arguments.required("JobOperations.setLimits", "limits", allowed);
        requireLimitable("JobOperations.setLimits", name);
        String handler = handlerName(name);
        audited.record(
                new Operation("limit.change", handler, LimitText.of(allowed)), () -> limits.override(handler, allowed));
        announceLimits();
    }

    @Override
    public boolean resetLimits(String name) {
        Arguments.required("JobOperations.resetLimits", "name", name);
        node.requireMayMutate();
        NewJobFactory.requireListable("job name", name);
        String handler = handlerName(name);
        boolean reset = audited.record(new Operation("limit.reset", handler), () -> limits.reset(handler));
        announceLimits();
        return reset;
    }

    @Override
    public void setGroupWeight(String name, String group, int weight) {
        Arguments.required("JobOperations.setGroupWeight", "name", name);
        Arguments.required("JobOperations.setGroupWeight", "group", group);
        Arguments.between("JobOperations.setGroupWeight", "weight", weight, HEAVIEST);
        requireLimitable("JobOperations.setGroupWeight", name);
        NewJobFactory.requireStorable("group", group);
        String handler = handlerName(name);
        audited.record(
                new Operation("weight.change", handler, "group %s: %d".formatted(group, weight)),
                () -> limits.weigh(handler, group, weight == 1 ? null : Integer.valueOf(weight)));
    }

    /** Checks what an enqueued job needs: the right to change data, a transaction that may write, and all handlers. */
    private void requireReady(String call) {
        node.requireMayMutate();
        caller.requireWritable(call);
        handlers.requireComplete(call);
    }

    private void announceLimits() {
        engine.announceLimits();
        // Jobs may start that the former limits kept waiting.
        engine.announce(JobPriority.NORMAL);
    }

    private void requireLimitable(String call, String name) {
        node.requireMayMutate();
        NewJobFactory.requireListable("job name", name);
        handlers.requireComplete(call);
        names.requireRegistered(name);
    }

    /** Limits are those of the handler, under whichever of its names its jobs were enqueued. */
    private String handlerName(String name) {
        JobHandler handler = handlers.named(name);
        return handler == null ? name : handler.name();
    }

    @Override
    public JobDemand demand() {
        return separately.run(demand::read);
    }

    @Override
    public JobExplanation explain(UUID id) {
        Arguments.required("JobOperations.explain", "id", id);
        return explainer.explain(id);
    }

    // History -----------------------------------------------------------------------------------------------

    @Override
    public JobHistory history(JobHistoryQuery query) {
        Arguments.required("JobOperations.history", "query", query);
        return history.read(query);
    }

    @Override
    public List<JobSummary> summaries(Duration range) {
        requireRange(range);
        return history.summaries(range);
    }

    @Override
    public List<JobSummary> summaries(Duration range, Collection<String> names) {
        requireRange(range);
        Arguments.names("JobOperations.summaries", names, JobHistoryReports.MOST_NAMES);
        return history.summaries(range, names);
    }

    private static void requireRange(Duration range) {
        Arguments.required("JobOperations.summaries", "range", range);
        Duration longest = JobHistoryReports.LONGEST_SUMMARY;
        if (range.compareTo(Duration.ofMinutes(1)) < 0 || range.compareTo(longest) > 0) {
            throw new IllegalArgumentException("JobOperations.summaries: range (%s) must be between %s and %s"
                    .formatted(range, Duration.ofMinutes(1), longest));
        }
    }
}
