// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import dev.forge.cluster.internal.job.row.UniqueJobStore;
import dev.forge.cluster.internal.job.row.UniqueJobStore.UniqueJob;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.EventLoops;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/** Inserts jobs in the caller's transaction, and announces them after the commit: before it, other transactions cannot see them. */
public final class JobEnqueuer {

    private static final Logger log = GuardedLogger.of(JobEnqueuer.class);

    private static final int BATCH = 1_000;

    /** Jobs in the order in which all callers insert them: those that insert the same keys cannot deadlock. */
    private static final Comparator<UniqueJob> BY_KEY =
            Comparator.comparing((UniqueJob unique) -> unique.job().name()).thenComparing(UniqueJob::key);

    private final JobNews news;
    private final RegisteredJobNames names;
    private final NewJobFactory newJobs;
    private final JobInsertStore inCallersTransaction;
    private final UniqueJobStore uniqueInCallersTransaction;
    private final JobBatchStore batches;
    private final CallerTransaction caller;
    private final CallerTransaction control;
    private final JobReleaseStore successors;
    private final EventLoops eventLoops = new EventLoops();

    public JobEnqueuer(
            JobNews news,
            RegisteredJobNames names,
            NewJobFactory newJobs,
            CallerTransaction caller,
            Schema schema,
            DataSource application,
            DataSource separate) {
        this.news = news;
        this.caller = caller;
        this.control = new CallerTransaction(separate);
        this.names = names;
        this.newJobs = newJobs;
        this.inCallersTransaction = new JobInsertStore(schema, application);
        this.uniqueInCallersTransaction = new UniqueJobStore(schema, application);
        this.batches = new JobBatchStore(schema, application);
        this.successors = new JobReleaseStore(schema, separate);
    }

    /** A job to enqueue. */
    public record Request(String name, @Nullable Object payload, JobOptions options) {}

    /** Enqueues one job. */
    public EnqueuedJob enqueue(Request request) {
        return enqueue(newJobs.create(request.name, request.payload, request.options), request.options);
    }

    /** Enqueues a job that was created with these options. */
    public EnqueuedJob enqueue(NewJob job, JobOptions options) {
        eventLoops.warn("Jobs.enqueue");
        String key = options.uniqueKey();
        if (key == null) {
            names.reserved().requireFreeMetadata(options.metadata());
            caller.run(() -> {
                if (options.batch() == null && options.startAfter().jobs().isEmpty()) {
                    inCallersTransaction.insert(job);
                } else {
                    insert(List.of(job), options.batch(), options.startAfter());
                }
                return job;
            });
            announce(List.of(job), List.of());
            return new EnqueuedJob(job.id(), true);
        }
        requireFree(key, options);
        UniqueJob unique = NewJobFactory.unique(job, key, options);
        boolean plain = unique.windowMillis() == null && unique.debounceMaxMillis() == null;
        UUID id = caller.run(() -> plain
                ? uniqueInCallersTransaction.insertUnique(job, key, options.uniquePolicy())
                : uniqueInCallersTransaction.insert(unique));
        boolean created = id.equals(job.id());
        if (created || plain || unique.replaces()) {
            announce(List.of(job), unique.replaces() && created ? List.of(id) : List.of());
        }
        return new EnqueuedJob(id, created);
    }

    private void requireFree(String key, JobOptions options) {
        if (options.batch() != null || !options.startAfter().jobs().isEmpty()) {
            // The job that has the key already may be in another batch, or may not wait for these jobs.
            throw new JobRejectedException("Unique key '%s': a job that %s has no unique key"
                    .formatted(
                            Names.printable(key),
                            options.batch() != null
                                    ? "belongs to a batch (%s)".formatted(options.batch())
                                    : "waits for other jobs"));
        }
        NewJobFactory.requireStorable("unique key", key);
        names.reserved().requireFreeKey(key, options.metadata());
        names.reserved().requireFreeMetadata(options.metadata());
    }

    /** What jobs that one statement inserts have in common. */
    private record Shared(
            long delayMillis,
            @Nullable Instant at,
            String metadata,
            List<String> tags,
            @Nullable UUID batch,
            JobOptions.StartAfter after) {}

    /** Enqueues many jobs, all or none; returns them in the same order. */
    public List<EnqueuedJob> enqueueAll(List<Request> requests) {
        eventLoops.warn("Jobs.enqueueAll");
        List<NewJob> jobs = new ArrayList<>(requests.size());
        List<UniqueJob> withKey = new ArrayList<>();
        Map<Shared, List<NewJob>> withoutKey = new LinkedHashMap<>();
        for (Request request : requests) {
            JobOptions options = request.options;
            String key = options.uniqueKey();
            if (key == null) {
                names.reserved().requireFreeMetadata(options.metadata());
            } else {
                requireFree(key, options);
            }
            NewJob job = newJobs.create(request.name, request.payload, options);
            jobs.add(job);
            if (key == null) {
                withoutKey
                        .computeIfAbsent(
                                new Shared(
                                        job.delayMillis(),
                                        job.at(),
                                        job.metadata(),
                                        job.tags(),
                                        options.batch(),
                                        options.startAfter()),
                                shared -> new ArrayList<>())
                        .add(job);
            } else {
                withKey.add(NewJobFactory.unique(job, key, options));
            }
        }
        withKey.sort(BY_KEY);
        Map<UUID, UUID> existing = new LinkedHashMap<>();
        boolean single = withKey.isEmpty() && withoutKey.size() <= 1 && jobs.size() <= BATCH;
        if (single) {
            caller.run(() -> insert(withoutKey, withKey, existing));
        } else {
            caller.inOne(() -> insert(withoutKey, withKey, existing));
        }
        announce(
                jobs,
                withKey.stream()
                        .filter(unique -> unique.replaces()
                                && !existing.containsKey(unique.job().id()))
                        .map(unique -> unique.job().id())
                        .toList());
        return jobs.stream()
                .map(job -> new EnqueuedJob(existing.getOrDefault(job.id(), job.id()), !existing.containsKey(job.id())))
                .toList();
    }

    /** @param existing receives the jobs that were not created, each with the id of the job that has its key */
    private Map<UUID, UUID> insert(
            Map<Shared, List<NewJob>> withoutKey, List<UniqueJob> withKey, Map<UUID, UUID> existing) {
        withoutKey.forEach((shared, jobs) -> insert(jobs, shared.batch, shared.after));
        inBatches(withKey, batch -> {
            List<UUID> ids = uniqueInCallersTransaction.insertAll(batch);
            IntStream.range(0, ids.size())
                    .filter(i -> !ids.get(i).equals(batch.get(i).job().id()))
                    .forEach(i -> existing.put(batch.get(i).job().id(), ids.get(i)));
        });
        return existing;
    }

    private void insert(List<NewJob> jobs, @Nullable UUID batch, JobOptions.StartAfter after) {
        inBatches(jobs, part -> {
            if (!inCallersTransaction.insertAll(part, batch, after) && batch != null) {
                throw new JobRejectedException("Batch %s is %s: no job can be added"
                        .formatted(batch, batches.exists(batch) ? "closed" : "unknown"));
            }
        });
        if (!after.jobs().isEmpty()) {
            caller.afterCommit(() -> news.waiting(jobs.stream().map(NewJob::id).toList()));
        }
    }

    private static <T> void inBatches(List<T> all, Consumer<List<T>> action) {
        for (int from = 0; from < all.size(); from += BATCH) {
            action.accept(all.subList(from, Math.min(from + BATCH, all.size())));
        }
    }

    /**
     * Announces jobs after the commit, one of each queue.
     *
     * @param perhapsSuccessors those of them that may wait for a predecessor
     */
    private void announce(List<NewJob> jobs, List<UUID> perhapsSuccessors) {
        Collection<NewJob> representatives = jobs.size() == 1
                ? jobs
                : jobs.stream()
                        .collect(Collectors.toMap(
                                job -> List.of(job.queue(), job.isDueAtOnce()),
                                Function.identity(),
                                (first, other) -> first))
                        .values();
        caller.afterCommit(() -> {
            // Their predecessors may have ended while neither transaction saw the other.
            inBatches(perhapsSuccessors, batch -> freeAfterCommit(() -> free(batch)));
            representatives.forEach(news::enqueued);
        });
    }

    private void free(List<UUID> perhapsSuccessors) {
        control.run(() -> {
            if (perhapsSuccessors.size() == 1) {
                successors.free(perhapsSuccessors.get(0));
            } else {
                successors.free(perhapsSuccessors);
            }
            return true;
        });
    }

    public static void freeAfterCommit(Runnable statement) {
        try {
            statement.run();
        } catch (DataAccessException e) {
            // The caller's transaction is committed: the call must not fail.
            log.debug("Could not release a successor; the next sweep will", e);
        }
    }
}
