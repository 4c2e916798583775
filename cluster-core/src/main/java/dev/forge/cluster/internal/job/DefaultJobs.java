// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.Page;
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
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.operate.DefaultJobBatch;
import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.internal.job.operate.JobBatchReports;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.operate.JobSearchReports;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobCancelStore;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import dev.forge.cluster.internal.job.row.JobRestartStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobFilter;
import java.lang.reflect.Type;
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

    private final Node node;
    private final JobEngine engine;
    private final JobHandlers handlers;
    private final CallerTransaction caller;
    private final CallerTransaction separately;
    private final JobCancelStore cancels;
    private final JobRestartStore restarts;
    private final JobReleaseStore successors;
    private final JobReports reports;
    private final JobSearchReports search;
    private final PayloadJson json;
    private final JobNameStore nameStore;
    private final RegisteredJobNames names;
    private final NewJobFactory newJobs;
    private final JobEnqueuer enqueuer;
    private final JobBatchStore batches;
    private final JobBatchReports batchReports;
    private final JobBatchOpener batchOpener;
    private final AuditedChanges auditedInCallersTransaction;
    private final AuditedChanges audited;

    /**
     * @param tools what the engine depends on; enqueueing joins the transactions of its data source
     * @param control the data source of the cluster
     */
    public DefaultJobs(
            Node node, JobEngine engine, JobHandlers handlers, JobEngine.Dependencies tools, DataSource control) {
        this.node = node;
        this.engine = engine;
        this.handlers = handlers;
        Schema schema = node.resources().schema();
        DataSource application = tools.application();
        this.caller = new CallerTransaction(application);
        this.separately = new CallerTransaction(control);
        this.cancels = new JobCancelStore(schema, application);
        this.restarts = new JobRestartStore(schema, application);
        this.successors = new JobReleaseStore(schema, control);
        this.reports = new JobReports(schema, application);
        this.search = new JobSearchReports(schema, application, node::nanos);
        this.json = new PayloadJson(tools.codec(), tools.maxBytes());
        this.nameStore = new JobNameStore(schema, control);
        this.names = new RegisteredJobNames(node, handlers, control);
        var ids = new JobIds(node.clock());
        this.newJobs = new NewJobFactory(handlers, tools.monitor(), json, ids);
        this.enqueuer = new JobEnqueuer(engine.news(), names, newJobs, caller, schema, application, control);
        this.batches = new JobBatchStore(schema, application);
        this.batchReports = new JobBatchReports(schema, application);
        this.batchOpener = new JobBatchOpener(
                names,
                newJobs,
                ids,
                new JobBatchOpener.Stores(new JobInsertStore(schema, application), batches),
                caller);
        Audit audit = node.resources().audit();
        this.auditedInCallersTransaction = audit.on(application);
        this.audited = audit.on(control);
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
    public Page<JobInfo> search(JobFilter filter, int limit, @Nullable String cursor) {
        return search.page("Jobs.search", filter, limit, cursor);
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

    // Jobs that exist ---------------------------------------------------------------------------------------

    @Override
    public Optional<JobInfo> find(UUID id) {
        Arguments.required("Jobs.find", "id", id);
        return reports.find(id);
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
    public boolean cancel(UUID id) {
        Arguments.required("Jobs.cancel", "id", id);
        requireMayChange("Jobs.cancel");
        CancelledJob cancelled = auditedInCallersTransaction
                .record(
                        new Operation("job.cancel", id),
                        () -> cancels.cancel(id, handlers.ownedPrefixes()),
                        found -> found.isPresent() ? 1 : 0)
                .orElse(null);
        if (cancelled == null) {
            reports.find(id).ifPresent(job -> handlers.rejectOwned(job, OwnedJobs::cancelAdvice));
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
                new Operation("job.retry", id), () -> restarts.retry(id, handlers.ownedPrefixes()));
        if (restarted) {
            caller.afterCommit(() -> engine.announce(JobPriority.NORMAL));
        } else {
            reports.find(id).ifPresent(job -> handlers.rejectOwned(job, OwnedJobs::retryAdvice));
        }
        return restarted;
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
}
