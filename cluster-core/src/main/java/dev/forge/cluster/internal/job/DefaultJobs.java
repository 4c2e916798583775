// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.store.JobBatchReports;
import dev.forge.cluster.internal.job.store.JobBatchStore;
import dev.forge.cluster.internal.job.store.JobBatchStore.NewBatch;
import dev.forge.cluster.internal.job.store.JobDependencyStore;
import dev.forge.cluster.internal.job.store.JobKeeping;
import dev.forge.cluster.internal.job.store.JobLimitReports;
import dev.forge.cluster.internal.job.store.JobLimitStore;
import dev.forge.cluster.internal.job.store.JobListReports;
import dev.forge.cluster.internal.job.store.JobReports;
import dev.forge.cluster.internal.job.store.JobStore;
import dev.forge.cluster.internal.job.store.JobStore.Cancelled;
import dev.forge.cluster.internal.job.store.JobStore.NewJob;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.AfterCommit;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.CallerTransaction;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobCount;
import dev.forge.cluster.job.JobExplanation;
import dev.forge.cluster.job.JobFilter;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobLimits;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UniquePolicy;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** {@link Jobs} on {@code forge_jobs}. */
public final class DefaultJobs implements Jobs {

    private static final Logger log = GuardedLogger.of(DefaultJobs.class);

    private static final int BATCH = 1_000;

    private static final int MOST_LISTED = 1_000;

    private static final int HEAVIEST = 1_000;

    private final Node node;
    private final JobEngine engine;
    private final JobHandlers handlers;
    private final DataSource application;
    private final JobStore inCallersTransaction;
    private final TransactionOperations ownTransaction;
    private final JobStore control;
    private final JobReports reports;
    private final JobListReports lists;
    private final PayloadJson json;
    private final JobKeeping keeping;
    private final JobLimitStore limits;
    private final JobBatchStore batches;
    private final JobBatchReports batchReports;
    private final JobIds ids;
    private final RegisteredJobNames names;
    private final NewJobFactory newJobs;
    private final JobExplainer explainer;

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
        this.application = dependencies.application;
        this.inCallersTransaction = new JobStore(schema, application);
        this.ownTransaction = inCallersTransaction.transaction();
        this.reports = new JobReports(schema, application);
        this.lists = new JobListReports(schema, application);
        this.control = new JobStore(schema, dependencies.control);
        this.keeping = new JobKeeping(schema, dependencies.control);
        this.limits = new JobLimitStore(schema, dependencies.control);
        this.names = new RegisteredJobNames(node, handlers, dependencies.control);
        this.json = new PayloadJson(dependencies.engine.codec(), dependencies.engine.maxBytes());
        this.batches = new JobBatchStore(schema, application);
        this.batchReports = new JobBatchReports(schema, application);
        this.ids = new JobIds(node.clock());
        this.newJobs = new NewJobFactory(handlers, dependencies.engine.monitor(), json, ids);
        this.explainer = new JobExplainer(
                node,
                engine,
                handlers,
                new JobExplainer.Reports(
                        reports,
                        new JobLimitReports(schema, application),
                        batchReports,
                        new JobDependencyStore(schema, application)));
    }

    // Enqueueing --------------------------------------------------------------------------------------------

    @Override
    public EnqueuedJob enqueue(Object payload, JobOptions options) {
        Arguments.required("Jobs.enqueue", "payload", payload);
        Arguments.required("Jobs.enqueue", "options", options);
        requireReady("Jobs.enqueue");
        return add(nameOf(payload), payload, options);
    }

    @Override
    public EnqueuedJob enqueueNamed(String name, @Nullable Object payload, JobOptions options) {
        Arguments.required("Jobs.enqueueNamed", "name", name);
        Arguments.required("Jobs.enqueueNamed", "options", options);
        requireReady("Jobs.enqueueNamed");
        names.requireRegistered(name);
        return add(name, payload, options);
    }

    /** Checks what every call needs: the right to change data, a transaction that may write, and all handlers. */
    private void requireReady(String call) {
        requireMayChange(call);
        handlers.requireComplete(call);
    }

    private void requireMayChange(String call) {
        node.requireMayMutate();
        CallerTransaction.requireWritable(call, application);
    }

    private EnqueuedJob add(String name, @Nullable Object payload, JobOptions options) {
        NewJob job = newJobs.create(name, payload, options);
        String key = options.uniqueKey();
        UUID batch = options.batch();
        if (key == null) {
            names.reserved().requireFreeMetadata(options.metadata());
            if (batch == null && options.after().jobs().isEmpty()) {
                inCallersTransaction.insert(job);
            } else {
                insert(List.of(job), options);
            }
            announce(job, null);
            return new EnqueuedJob(job.id(), true);
        }
        if (batch != null) {
            // The job with that key, which may be in another batch or in none, would be missing in this one.
            throw new JobRejectedException(
                    "Job '%s' with the unique key '%s' cannot be added to batch %s: a job of a batch has no unique key"
                            .formatted(name, Names.printable(key), batch));
        }
        if (!options.after().jobs().isEmpty()) {
            throw new JobRejectedException(
                    "Job '%s' with the unique key '%s' cannot wait for other jobs: such a job has no unique key"
                            .formatted(name, Names.printable(key)));
        }
        NewJobFactory.requireStorable("unique key", key);
        names.reserved().requireFreeKey(key, options.metadata());
        names.reserved().requireFreeMetadata(options.metadata());
        UUID id = inCallersTransaction.insertUnique(job, key, options.uniquePolicy());
        boolean created = id.equals(job.id());
        announce(job, options.uniquePolicy() == UniquePolicy.REPLACE && created ? id : null);
        return new EnqueuedJob(id, created);
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
        names.reserved().requireFreeMetadata(options.metadata());
        List<NewJob> jobs = new ArrayList<>(payloads.size());
        for (Object payload : payloads) {
            if (payload == null) {
                Arguments.required("Jobs.enqueueAll", "payloads[%d]".formatted(jobs.size()), null);
            }
            jobs.add(newJobs.create(nameOf(payload), payload, options));
        }
        if (jobs.size() <= BATCH || TransactionSynchronizationManager.isActualTransactionActive()) {
            insert(jobs, options);
        } else {
            // All or nothing, as in a transaction of the caller.
            ownTransaction.executeWithoutResult(status -> insert(jobs, options));
        }
        jobs.stream()
                .collect(Collectors.toMap(NewJob::name, Function.identity(), (first, other) -> first))
                .values()
                .forEach(job -> announce(job, null));
        return jobs.stream().map(job -> new EnqueuedJob(job.id(), true)).toList();
    }

    private void insert(List<NewJob> jobs, JobOptions options) {
        UUID batch = options.batch();
        for (int from = 0; from < jobs.size(); from += BATCH) {
            List<NewJob> part = jobs.subList(from, Math.min(from + BATCH, jobs.size()));
            if (!inCallersTransaction.insertAll(part, batch, options.after()) && batch != null) {
                throw new JobRejectedException("Batch %s is %s: no job can be added"
                        .formatted(batch, batchReports.find(batch).isPresent() ? "closed" : "unknown"));
            }
        }
        if (!options.after().jobs().isEmpty()) {
            AfterCommit.run(
                    () -> engine.announceWaiting(jobs.stream().map(NewJob::id).toList()));
        }
    }

    /**
     * Announces a job, or one of several jobs of the same queue, after the commit: before it, other transactions cannot see the job.
     *
     * @param perhapsSuccessor the job, if it may wait for a predecessor
     */
    private void announce(NewJob job, @Nullable UUID perhapsSuccessor) {
        AfterCommit.run(() -> {
            if (perhapsSuccessor != null) {
                // Its predecessor may have ended while neither transaction saw the other.
                freeAfterCommit(() -> control.freeSuccessor(perhapsSuccessor));
            }
            engine.announceEnqueued(job);
        });
    }

    private static void freeAfterCommit(Runnable statement) {
        try {
            statement.run();
        } catch (DataAccessException e) {
            // The caller's transaction is committed: the call must not fail.
            log.debug("Could not release a successor; the next sweep will", e);
        }
    }

    /**
     * Returns a job for the caller to insert in its own transaction, as {@link #enqueueNamed} would insert it. For other capabilities
     * of the cluster: they may use reserved metadata keys.
     */
    public NewJob prepare(String name, @Nullable Object payload, JobOptions options) {
        names.requireRegistered(name);
        return newJobs.create(name, payload, options);
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
        NewJobFactory.requireStorable("batch name", options.name());
        UUID id = ids.next();
        List<NewJob> callbacks = new ArrayList<>();
        var batch = new NewBatch(
                id,
                options.name(),
                options.parent(),
                callback(id, options.onFailure(), callbacks),
                callback(id, options.onEnd(), callbacks),
                callback(id, options.onSuccess(), callbacks));
        if (TransactionSynchronizationManager.isActualTransactionActive()) {
            open(batch, callbacks);
        } else {
            ownTransaction.executeWithoutResult(status -> open(batch, callbacks));
        }
        return batch(id);
    }

    private void open(NewBatch batch, List<NewJob> callbacks) {
        UUID parent = batch.parent();
        if (!batches.open(batch)) {
            throw new JobRejectedException("Batch %s is %s: no batch can be part of it"
                    .formatted(
                            parent, parent != null && batchReports.find(parent).isPresent() ? "closed" : "unknown"));
        }
        callbacks.forEach(callback -> inCallersTransaction.insertWaiting(callback, batch.id()));
    }

    /** Creates a callback, which waits for the batch; returns its id. */
    private @Nullable UUID callback(UUID batch, JobBatchOptions.@Nullable Callback callback, List<NewJob> callbacks) {
        if (callback == null) {
            return null;
        }
        JobOptions options = callback.options();
        if (options.uniqueKey() != null
                || options.batch() != null
                || !options.after().jobs().isEmpty()) {
            throw new JobRejectedException(
                    "The callback of a batch cannot have a unique key, belong to a batch or wait for other jobs");
        }
        names.reserved().requireFreeMetadata(options.metadata());
        Object payload = callback.payload();
        NewJob job = newJobs.create(
                nameOf(payload), payload, options.withMetadata(JobBatchStore.CALLBACK_KEY, batch.toString()));
        callbacks.add(job);
        return job.id();
    }

    @Override
    public JobBatch batch(UUID id) {
        Arguments.required("Jobs.batch", "id", id);
        return new DefaultJobBatch(id, batches, batchReports, this::requireMayChange, engine::batchChanged);
    }

    @Override
    public List<JobBatchInfo> batches(int limit) {
        Arguments.limit("Jobs.batches", limit, MOST_LISTED);
        return batchReports.list(null, limit);
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
    public List<JobInfo> list(JobFilter filter, int limit) {
        Arguments.required("Jobs.list", "filter", filter);
        Arguments.limit("Jobs.list", limit, MOST_LISTED);
        requirePrintable(filter);
        return lists.list(filter, limit);
    }

    private static void requirePrintable(JobFilter filter) {
        String name = filter.name();
        if (name != null) {
            Names.requirePrintable("job name", name);
        }
    }

    @Override
    public JobCount count(JobFilter filter) {
        Arguments.required("Jobs.count", "filter", filter);
        requirePrintable(filter);
        return lists.count(filter);
    }

    @Override
    public boolean cancel(UUID id) {
        Arguments.required("Jobs.cancel", "id", id);
        requireMayChange("Jobs.cancel");
        Cancelled cancelled = inCallersTransaction.cancel(id, ownedPrefixes()).orElse(null);
        if (cancelled == null) {
            rejectOwned(id, OwnedJobs::cancelAdvice);
            return false;
        }
        AfterCommit.run(() -> {
            if (cancelled.hasKey()) {
                // The caller's transaction may not have seen its successor.
                freeAfterCommit(() -> control.freeSuccessorOf(id));
                engine.announce(JobPriority.NORMAL);
            }
            UUID batch = cancelled.batch();
            if (batch != null) {
                engine.batchChanged(batch);
            }
            engine.cancelled(id);
            engine.announceCancelled(id);
        });
        return true;
    }

    @Override
    public boolean retry(UUID id) {
        Arguments.required("Jobs.retry", "id", id);
        requireMayChange("Jobs.retry");
        boolean restarted = inCallersTransaction.retry(id, ownedPrefixes());
        if (restarted) {
            AfterCommit.run(() -> engine.announce(JobPriority.NORMAL));
        } else {
            rejectOwned(id, OwnedJobs::retryAdvice);
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

    @Override
    public boolean pause(String name) {
        Arguments.required("Jobs.pause", "name", name);
        node.requireMayMutate();
        NewJobFactory.requireStorable("job name", name);
        handlers.requireComplete("Jobs.pause");
        names.requirePausable(name);
        return keeping.pause(name);
    }

    @Override
    public boolean resume(String name) {
        Arguments.required("Jobs.resume", "name", name);
        node.requireMayMutate();
        NewJobFactory.requireStorable("job name", name);
        boolean resumed = keeping.resume(name);
        engine.announce(JobPriority.NORMAL);
        return resumed;
    }

    @Override
    public Set<String> paused() {
        return keeping.paused();
    }

    // Limits ------------------------------------------------------------------------------------------------

    @Override
    public JobLimits limits(String name) {
        Arguments.required("Jobs.limits", "name", name);
        Names.requirePrintable("job name", name);
        return limits.find(handlerName(name)).orElse(JobLimits.none());
    }

    @Override
    public void limit(String name, JobLimits allowed) {
        Arguments.required("Jobs.limit", "name", name);
        Arguments.required("Jobs.limit", "limits", allowed);
        requireLimitable("Jobs.limit", name);
        limits.override(handlerName(name), allowed);
        announceLimits();
    }

    @Override
    public boolean resetLimits(String name) {
        Arguments.required("Jobs.resetLimits", "name", name);
        node.requireMayMutate();
        NewJobFactory.requireStorable("job name", name);
        boolean reset = limits.reset(handlerName(name));
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
        limits.weigh(handlerName(name), group, weight == 1 ? null : Integer.valueOf(weight));
    }

    private void announceLimits() {
        engine.announceLimits();
        // Jobs may start that the former limits kept waiting.
        engine.announce(JobPriority.NORMAL);
    }

    private void requireLimitable(String call, String name) {
        node.requireMayMutate();
        NewJobFactory.requireStorable("job name", name);
        handlers.requireComplete(call);
        names.requireRegistered(name);
    }

    /** Limits are those of the handler, under whichever of its names its jobs were enqueued. */
    private String handlerName(String name) {
        JobHandler handler = handlers.named(name);
        return handler == null ? name : handler.name();
    }

    @Override
    public JobExplanation explain(UUID id) {
        Arguments.required("Jobs.explain", "id", id);
        return explainer.explain(id);
    }
}
