// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.audit.AuditedChanges;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.enqueue.JobBatchOpener;
import dev.forge.cluster.internal.job.enqueue.JobEnqueuer;
import dev.forge.cluster.internal.job.enqueue.JobIds;
import dev.forge.cluster.internal.job.enqueue.NewJobFactory;
import dev.forge.cluster.internal.job.enqueue.RegisteredJobNames;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.history.JobHistoryReports;
import dev.forge.cluster.internal.job.operate.BulkJobs;
import dev.forge.cluster.internal.job.operate.DefaultJobBatch;
import dev.forge.cluster.internal.job.operate.FilterChecks;
import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.internal.job.operate.JobBatchReports;
import dev.forge.cluster.internal.job.operate.JobDemandReader;
import dev.forge.cluster.internal.job.operate.JobDemandReports;
import dev.forge.cluster.internal.job.operate.JobExplainer;
import dev.forge.cluster.internal.job.operate.JobExportReports;
import dev.forge.cluster.internal.job.operate.JobExports;
import dev.forge.cluster.internal.job.operate.JobLimitReports;
import dev.forge.cluster.internal.job.operate.JobListReports;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.operate.JobSearchReports;
import dev.forge.cluster.internal.job.operate.LimitText;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobBulkStore;
import dev.forge.cluster.internal.job.row.JobCancelStore;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.internal.job.row.JobDependencyStore;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobLimitStore;
import dev.forge.cluster.internal.job.row.JobLogStore;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import dev.forge.cluster.internal.job.row.JobRestartStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.BulkOptions;
import dev.forge.cluster.job.BulkResult;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobCount;
import dev.forge.cluster.job.JobDemand;
import dev.forge.cluster.job.JobExplanation;
import dev.forge.cluster.job.JobExport;
import dev.forge.cluster.job.JobFilter;
import dev.forge.cluster.job.JobHistory;
import dev.forge.cluster.job.JobHistoryQuery;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobLimits;
import dev.forge.cluster.job.JobLogLine;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPage;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobSummary;
import dev.forge.cluster.job.Jobs;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/** {@link Jobs} on {@code forge_jobs}. */
public final class DefaultJobs implements InspectableJobs {

    private static final int MOST_LISTED = 1_000;

    private static final int HEAVIEST = 1_000;

    private final Node node;
    private final JobEngine engine;
    private final JobHandlers handlers;
    private final CallerTransaction caller;
    private final CallerTransaction separately;
    private final JobCancelStore cancels;
    private final JobRestartStore restarts;
    private final JobReleaseStore successors;
    private final JobReports reports;
    private final JobListReports lists;
    private final JobSearchReports search;
    private final JobLogStore logs;
    private final BulkJobs bulk;
    private final JobExports exports;
    private final PayloadJson json;
    private final JobNameStore nameStore;
    private final JobLimitStore limits;
    private final RegisteredJobNames names;
    private final NewJobFactory newJobs;
    private final JobEnqueuer enqueuer;
    private final JobBatchStore batches;
    private final JobBatchReports batchReports;
    private final JobBatchOpener batchOpener;
    private final JobExplainer explainer;
    private final JobDemandReader demand;
    private final JobHistoryReports history;
    private final AuditedChanges auditedInCallersTransaction;
    private final AuditedChanges audited;

    /**
     * What {@link Jobs} depends on.
     *
     * @param application the data source whose transactions enqueueing joins
     * @param control the data source of the cluster
     * @param engine what the engine depends on
     */
    public record Dependencies(DataSource application, DataSource control, JobEngine.Dependencies engine) {}

    public DefaultJobs(Node node, JobEngine engine, JobHandlers handlers, Dependencies dependencies) {
        this.node = node;
        this.engine = engine;
        this.handlers = handlers;
        Schema schema = node.resources().schema();
        DataSource application = dependencies.application;
        this.caller = new CallerTransaction(application);
        this.separately = new CallerTransaction(dependencies.control);
        this.cancels = new JobCancelStore(schema, application);
        this.restarts = new JobRestartStore(schema, application);
        this.reports = new JobReports(schema, application);
        this.lists = new JobListReports(schema, application);
        this.search = new JobSearchReports(schema, application, node::nanos);
        this.logs = new JobLogStore(schema, application);
        Audit audit = node.resources().audit();
        this.auditedInCallersTransaction = audit.on(application);
        this.audited = audit.on(dependencies.control);
        this.bulk = new BulkJobs(
                new BulkJobs.Stores(search, new JobBulkStore(schema, application), auditedInCallersTransaction),
                handlers,
                engine.news(),
                caller,
                node::nanos);
        this.exports =
                new JobExports(search, new JobExportReports(schema, application), dependencies.engine.maxBytes());
        this.successors = new JobReleaseStore(schema, dependencies.control);
        this.nameStore = new JobNameStore(schema, dependencies.control);
        this.limits = new JobLimitStore(schema, dependencies.control);
        this.names = new RegisteredJobNames(node, handlers, dependencies.control);
        this.json = new PayloadJson(dependencies.engine.codec(), dependencies.engine.maxBytes());
        var ids = new JobIds(node.clock());
        this.newJobs = new NewJobFactory(handlers, dependencies.engine.monitor(), json, ids);
        this.batches = new JobBatchStore(schema, application);
        this.batchReports = new JobBatchReports(schema, application);
        this.batchOpener = new JobBatchOpener(
                names,
                newJobs,
                ids,
                new JobBatchOpener.Stores(new JobInsertStore(schema, application), batches),
                caller);
        this.enqueuer =
                new JobEnqueuer(engine.news(), names, newJobs, caller, schema, application, dependencies.control);
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
                new JobDemandReports(schema, dependencies.control), handlers, engine.executors(), engine::executorOf);
        this.history = new JobHistoryReports(schema, application);
    }

    // Enqueueing --------------------------------------------------------------------------------------------

    @Override
    public EnqueuedJob enqueue(Object payload, JobOptions options) {
        Arguments.required("Jobs.enqueue", "payload", payload);
        Arguments.required("Jobs.enqueue", "options", options);
        requireReady("Jobs.enqueue");
        return enqueuer.enqueue(new JobEnqueuer.Request(nameOf(payload), payload, options));
    }

    @Override
    public EnqueuedJob enqueueNamed(String name, @Nullable Object payload, JobOptions options) {
        Arguments.required("Jobs.enqueueNamed", "name", name);
        Arguments.required("Jobs.enqueueNamed", "options", options);
        requireReady("Jobs.enqueueNamed");
        names.requireRegistered(name);
        return enqueuer.enqueue(new JobEnqueuer.Request(name, payload, options));
    }

    /** Checks what every call needs: the right to change data, a transaction that may write, and all handlers. */
    private void requireReady(String call) {
        requireMayChange(call);
        handlers.requireComplete(call);
    }

    private void requireMayChange(String call) {
        node.requireMayMutate();
        caller.requireWritable(call);
    }

    @Override
    public List<EnqueuedJob> enqueueAll(Collection<?> payloads, JobOptions options) {
        Arguments.required("Jobs.enqueueAll", "payloads", payloads);
        Arguments.required("Jobs.enqueueAll", "options", options);
        requireReady("Jobs.enqueueAll");
        if (options.uniqueKey() != null) {
            throw new JobRejectedException(
                    "enqueueAll with the unique key '%s' would enqueue one job only".formatted(options.uniqueKey()));
        }
        return enqueueEach(payloads, payload -> options);
    }

    @Override
    public <T> List<EnqueuedJob> enqueueAll(Collection<T> payloads, Function<? super T, JobOptions> options) {
        Arguments.required("Jobs.enqueueAll", "payloads", payloads);
        Arguments.required("Jobs.enqueueAll", "options", options);
        requireReady("Jobs.enqueueAll");
        return enqueueEach(payloads, options);
    }

    private <T> List<EnqueuedJob> enqueueEach(Collection<T> payloads, Function<? super T, JobOptions> options) {
        List<JobEnqueuer.Request> requests = new ArrayList<>(payloads.size());
        for (T payload : payloads) {
            if (payload == null) {
                Arguments.required("Jobs.enqueueAll", "payloads[%d]".formatted(requests.size()), null);
            }
            JobOptions own = options.apply(payload);
            Arguments.required("Jobs.enqueueAll", "options of payloads[%d]".formatted(requests.size()), own);
            requests.add(new JobEnqueuer.Request(nameOf(payload), payload, own));
        }
        return enqueuer.enqueueAll(requests);
    }

    /**
     * Returns a job for the caller to insert in its own transaction, as {@link #enqueueNamed} would insert it. For other capabilities
     * of the cluster: they may use reserved metadata keys.
     */
    public NewJob prepare(String name, @Nullable Object payload, JobOptions options) {
        names.requireRegistered(name);
        return newJobs.create(name, payload, options);
    }

    @Override
    public Set<String> namesOf(Class<?> payload) {
        JobName declared = payload.getAnnotation(JobName.class);
        return declared != null ? Set.of(declared.value()) : handlers.namesTaking(payload);
    }

    @Override
    public void requireKnown(String name) {
        names.requireKnown(name);
    }

    @Override
    public <T> T read(String payload, Class<T> type) {
        return Objects.requireNonNull(type.cast(json.read(payload, type)));
    }

    @Override
    public String write(@Nullable Object value) {
        return json.write(value);
    }

    private String nameOf(Object payload) {
        Class<?> type = payload.getClass();
        JobName declared = type.getAnnotation(JobName.class);
        if (declared == null) {
            return handlers.taking(type).name();
        }
        names.requireAllowed(declared.value());
        return declared.value();
    }

    // Batches -----------------------------------------------------------------------------------------------

    @Override
    public JobBatch batch(JobBatchOptions options) {
        Arguments.required("Jobs.batch", "options", options);
        requireReady("Jobs.batch");
        return batch(batchOpener.open(options, this::nameOf));
    }

    @Override
    public JobBatch batch(UUID id) {
        Arguments.required("Jobs.batch", "id", id);
        return new DefaultJobBatch(
                id,
                batches,
                batchReports,
                new DefaultJobBatch.Surroundings(
                        this::requireMayChange, auditedInCallersTransaction, caller, engine::batchChanged));
    }

    @Override
    public List<JobBatchInfo> batches(int limit, @Nullable UUID after) {
        Arguments.limit("Jobs.batches", limit, MOST_LISTED);
        return batchReports.list(after, limit);
    }

    // Jobs that exist ---------------------------------------------------------------------------------------

    @Override
    public Optional<JobInfo> find(UUID id) {
        Arguments.required("Jobs.find", "id", id);
        return reports.find(id);
    }

    @Override
    public List<JobLogLine> logs(UUID id) {
        Arguments.required("Jobs.logs", "id", id);
        return logs.read(id);
    }

    @Override
    public <T> Optional<T> result(UUID id, Class<T> type) {
        Arguments.required("Jobs.result", "type", type);
        return resultAs(id, type);
    }

    @Override
    public <T> Optional<T> result(UUID id, ParameterizedTypeReference<T> type) {
        Arguments.required("Jobs.result", "type", type);
        return resultAs(id, type.getType());
    }

    private <T> Optional<T> resultAs(UUID id, Type type) {
        Arguments.required("Jobs.result", "id", id);
        return reports.result(id).flatMap(result -> json.readResult("job " + id, result, type));
    }

    @Override
    public List<JobInfo> list(JobFilter filter, int limit) {
        Arguments.required("Jobs.list", "filter", filter);
        Arguments.limit("Jobs.list", limit, MOST_LISTED);
        FilterChecks.require(filter);
        return FilterChecks.isSimple(filter)
                ? lists.list(filter, limit)
                : search.read(search.find(filter, limit, null).ids());
    }

    @Override
    public JobPage search(JobFilter filter, int limit, @Nullable String cursor) {
        Arguments.required("Jobs.search", "filter", filter);
        Arguments.limit("Jobs.search", limit, MOST_LISTED);
        FilterChecks.require(filter);
        JobSearchReports.Found found = search.find(filter, limit, cursor);
        boolean cutOff = found.next() != null && found.hits().size() < limit;
        return new JobPage(search.read(found.ids()), found.examined(), cutOff, found.next());
    }

    @Override
    public JobCount count(JobFilter filter) {
        Arguments.required("Jobs.count", "filter", filter);
        FilterChecks.require(filter);
        return FilterChecks.isSimple(filter) ? lists.count(filter) : search.count(filter);
    }

    @Override
    public boolean cancel(UUID id) {
        Arguments.required("Jobs.cancel", "id", id);
        requireMayChange("Jobs.cancel");
        CancelledJob cancelled = auditedInCallersTransaction
                .record(
                        new Operation("job.cancel", id),
                        () -> cancels.cancel(id, ownedPrefixes()),
                        found -> found.isPresent() ? 1 : 0)
                .orElse(null);
        if (cancelled == null) {
            rejectOwned(id, OwnedJobs::cancelAdvice);
            return false;
        }
        caller.afterCommit(() -> {
            if (cancelled.hasKey()) {
                // The caller's transaction may not have seen its successor.
                JobEnqueuer.freeAfterCommit(() -> separately.run(() -> {
                    successors.freeSuccessorsOf(id);
                    return id;
                }));
                engine.announce(JobPriority.NORMAL);
            }
            engine.news().cancelled(id, cancelled.batch(), cancelled.held());
        });
        return true;
    }

    @Override
    public boolean retry(UUID id) {
        Arguments.required("Jobs.retry", "id", id);
        requireMayChange("Jobs.retry");
        boolean restarted = auditedInCallersTransaction.record(
                new Operation("job.retry", id), () -> restarts.retry(id, ownedPrefixes()));
        if (restarted) {
            caller.afterCommit(() -> engine.announce(JobPriority.NORMAL));
        } else {
            rejectOwned(id, OwnedJobs::retryAdvice);
        }
        return restarted;
    }

    @Override
    public boolean retryWithPayload(UUID id, String json) {
        Arguments.required("Jobs.retryWithPayload", "id", id);
        Arguments.required("Jobs.retryWithPayload", "json", json);
        requireReady("Jobs.retryWithPayload");
        JobInfo job = reports.find(id).orElse(null);
        if (job == null) {
            return false;
        }
        rejectOwned(id, OwnedJobs::retryAdvice);
        JobRestartStore.Edit edit = newJobs.edit(job, json);
        boolean restarted = auditedInCallersTransaction.record(
                new Operation("job.retry", id, "with another payload"),
                () -> restarts.retry(id, ownedPrefixes(), edit));
        if (restarted) {
            caller.afterCommit(() -> engine.announce(JobPriority.NORMAL));
        }
        return restarted;
    }

    /** Rejects a call for a job that another capability enqueued for itself: that capability must control its end and restart. */
    private void rejectOwned(UUID id, Function<OwnedJobs, String> advice) {
        reports.find(id)
                .ifPresent(job -> handlers.ownerOf(job.name()).ifPresent(owned -> {
                    throw new JobRejectedException("job %s ('%s') is one of the %s; %s"
                            .formatted(id, job.name(), owned.description(), advice.apply(owned)));
                }));
    }

    private List<String> ownedPrefixes() {
        return handlers.owned().stream().map(OwnedJobs::prefix).toList();
    }

    // Bulk operations ---------------------------------------------------------------------------------------

    @Override
    public BulkResult cancelAll(JobFilter filter, BulkOptions options) {
        requireBulk("Jobs.cancelAll", filter, options);
        return bulk.cancel(filter, options);
    }

    @Override
    public BulkResult retryAll(JobFilter filter, BulkOptions options) {
        requireBulk("Jobs.retryAll", filter, options);
        return bulk.retry(filter, options);
    }

    @Override
    public BulkResult rescheduleAll(JobFilter filter, Instant at, BulkOptions options) {
        Arguments.required("Jobs.rescheduleAll", "at", at);
        requireBulk("Jobs.rescheduleAll", filter, options);
        return bulk.reschedule(filter, NewJobFactory.requireTime("Jobs.rescheduleAll", at), options);
    }

    @Override
    public BulkResult deleteAll(JobFilter filter, BulkOptions options) {
        requireBulk("Jobs.deleteAll", filter, options);
        return bulk.delete(filter, options);
    }

    private void requireBulk(String call, JobFilter filter, BulkOptions options) {
        Arguments.required(call, "filter", filter);
        Arguments.required(call, "options", options);
        node.requireMayMutate();
        handlers.requireComplete(call);
        FilterChecks.require(filter);
    }

    @Override
    public JobExport export(JobFilter filter, int limit, @Nullable String cursor) {
        Arguments.required("Jobs.export", "filter", filter);
        Arguments.limit("Jobs.export", limit, MOST_LISTED);
        FilterChecks.require(filter);
        return exports.export(filter, limit, cursor);
    }

    @Override
    public EnqueuedJob enqueueExported(String line) {
        Arguments.required("Jobs.enqueueExported", "line", line);
        requireReady("Jobs.enqueueExported");
        JobExports.Line exported = exports.parse(line);
        return enqueue(exported, "job.enqueue-exported", null);
    }

    @Override
    public Optional<EnqueuedJob> enqueueCopy(UUID id, @Nullable String json) {
        Arguments.required("Jobs.enqueueCopy", "id", id);
        requireReady("Jobs.enqueueCopy");
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
    public boolean pause(String name) {
        Arguments.required("Jobs.pause", "name", name);
        node.requireMayMutate();
        handlers.requireComplete("Jobs.pause");
        names.requireKnown(name);
        return audited.record(new Operation("name.pause", name), () -> nameStore.pause(name));
    }

    @Override
    public boolean resume(String name) {
        Arguments.required("Jobs.resume", "name", name);
        node.requireMayMutate();
        NewJobFactory.requireListable("job name", name);
        boolean resumed = audited.record(new Operation("name.resume", name), () -> nameStore.resume(name));
        engine.announce(JobPriority.NORMAL);
        return resumed;
    }

    @Override
    public Set<String> paused() {
        return separately.run(nameStore::paused);
    }

    // Limits ------------------------------------------------------------------------------------------------

    @Override
    public JobLimits limits(String name) {
        Arguments.required("Jobs.limits", "name", name);
        Names.requirePrintable("job name", name);
        return separately.run(() -> limits.find(handlerName(name))).orElse(JobLimits.none());
    }

    @Override
    public void limit(String name, JobLimits allowed) {
        Arguments.required("Jobs.limit", "name", name);
        Arguments.required("Jobs.limit", "limits", allowed);
        requireLimitable("Jobs.limit", name);
        String handler = handlerName(name);
        audited.record(
                new Operation("limit.change", handler, LimitText.of(allowed)), () -> limits.override(handler, allowed));
        announceLimits();
    }

    @Override
    public boolean resetLimits(String name) {
        Arguments.required("Jobs.resetLimits", "name", name);
        node.requireMayMutate();
        NewJobFactory.requireListable("job name", name);
        String handler = handlerName(name);
        boolean reset = audited.record(new Operation("limit.reset", handler), () -> limits.reset(handler));
        announceLimits();
        return reset;
    }

    @Override
    public void weigh(String name, String group, int weight) {
        Arguments.required("Jobs.weigh", "name", name);
        Arguments.required("Jobs.weigh", "group", group);
        requireLimitable("Jobs.weigh", name);
        NewJobFactory.requireStorable("group", group);
        if (weight < 1 || weight > HEAVIEST) {
            throw new IllegalArgumentException(
                    "Jobs.weigh: weight (%d) must be between 1 and %d".formatted(weight, HEAVIEST));
        }
        String handler = handlerName(name);
        audited.record(
                new Operation("weight.change", handler, "group %s: %d".formatted(group, weight)),
                () -> limits.weigh(handler, group, weight == 1 ? null : Integer.valueOf(weight)));
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
        Arguments.required("Jobs.explain", "id", id);
        return explainer.explain(id);
    }

    // History -----------------------------------------------------------------------------------------------

    @Override
    public JobHistory history(JobHistoryQuery query) {
        Arguments.required("Jobs.history", "query", query);
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
        Arguments.required("Jobs.summaries", "names", names);
        if (names.size() > JobHistoryReports.MOST_NAMES) {
            throw new IllegalArgumentException("Jobs.summaries: names (%d) must not be more than %d"
                    .formatted(names.size(), JobHistoryReports.MOST_NAMES));
        }
        return history.summaries(range, names);
    }

    private static void requireRange(Duration range) {
        Arguments.required("Jobs.summaries", "range", range);
        Duration longest = JobHistoryReports.LONGEST_SUMMARY;
        if (range.compareTo(Duration.ofMinutes(1)) < 0 || range.compareTo(longest) > 0) {
            throw new IllegalArgumentException("Jobs.summaries: range (%s) must be between %s and %s"
                    .formatted(range, Duration.ofMinutes(1), longest));
        }
    }
}
