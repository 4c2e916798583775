// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.ClusterDisabledException;
import dev.forge.cluster.Page;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.job.enqueue.JobIds;
import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobOperations;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * A {@link Jobs} that only records what is enqueued, and a {@link JobOperations} that only searches it, for tests of a part of the
 * application without a database. Jobs stay pending. A
 * rollback of the transaction that enqueued them, or of a part of it with a savepoint, removes them.
 */
final class RecordedJobs {

    private static final int MAX_BYTES = 1_048_576;

    /** In the order of enqueueing. Guarded by itself. */
    private final List<JobInfo> recorded = new ArrayList<>();

    private final Map<Class<?>, Set<String>> names = new ConcurrentHashMap<>();
    private final PayloadJson json;
    private final Clock clock;
    private final JobIds ids;
    private final InspectableJobs jobs;
    private final JobOperations operations;

    /** @param codec writes payloads, so that one that cannot be written fails here as well */
    public RecordedJobs(PayloadCodec codec, Clock clock) {
        this.json = new PayloadJson(codec, MAX_BYTES);
        this.clock = clock;
        this.ids = new JobIds(clock);
        this.jobs = recorder(InspectableJobs.class, "Jobs");
        this.operations = recorder(JobOperations.class, "JobOperations");
    }

    private <T> T recorder(Class<T> type, String bean) {
        return type.cast(
                Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, new Calls(new Recorder(), bean)));
    }

    /** Returns the recorder as the bean that the application injects. */
    public Jobs jobs() {
        return jobs;
    }

    /** Returns the bean that searches what was recorded. */
    public JobOperations operations() {
        return operations;
    }

    /** Forgets what was recorded; called before each test. */
    public void clear() {
        synchronized (recorded) {
            recorded.clear();
        }
        names.clear();
    }

    /** Records a job, or changes the one that has its key, as the cluster would. */
    private EnqueuedJob record(JobInfo job, JobOptions options) {
        synchronized (recorded) {
            JobInfo active = job.uniqueKey() == null ? null : withKeyOf(job);
            if (active == null) {
                recorded.add(job);
                onRollback(() -> recorded.removeIf(other -> other.id().equals(job.id())));
                return new EnqueuedJob(job.id(), true);
            }
            if (options.uniquePolicy() == UniquePolicy.REPLACE || options.debounceMax() != null) {
                put(replacement(job, active, options));
                onRollback(() -> put(active));
            }
            return new EnqueuedJob(active.id(), false);
        }
    }

    private @Nullable JobInfo withKeyOf(JobInfo job) {
        return recorded.stream()
                .filter(other -> other.name().equals(job.name()) && Objects.equals(other.uniqueKey(), job.uniqueKey()))
                .findFirst()
                .orElse(null);
    }

    /** Replaces the job of that id if it is there: a new test may have begun. */
    private void put(JobInfo job) {
        recorded.replaceAll(other -> other.id().equals(job.id()) ? job : other);
    }

    private static JobInfo replacement(JobInfo job, JobInfo active, JobOptions options) {
        Instant due = job.scheduledAt();
        if (options.debounceMax() != null) {
            Instant latest = active.createdAt().plus(options.debounceMax());
            due = earlier(due, latest);
        }
        return new JobInfo(
                active.id(),
                job.name(),
                job.status(),
                job.payload(),
                job.priority(),
                job.capability(),
                due,
                0,
                job.maxAttempts(),
                0,
                null,
                0,
                null,
                null,
                null,
                null,
                null,
                job.uniqueKey(),
                job.group(),
                job.batch(),
                job.metadata(),
                job.tags(),
                active.createdAt(),
                List.of());
    }

    private static Instant earlier(Instant one, Instant other) {
        return one.isBefore(other) ? one : other;
    }

    private static Instant later(Instant one, Instant other) {
        return one.isAfter(other) ? one : other;
    }

    private Instant due(JobOptions options, Instant now) {
        Duration delay = options.debounceDelay() != null ? options.debounceDelay() : options.delay();
        Instant due = delay == null ? now : now.plus(delay);
        return options.at() == null ? due : later(options.at(), now);
    }

    private void onRollback(Runnable action) {
        if (TransactionSynchronizationManager.isSynchronizationActive()
                && TransactionSynchronizationManager.isActualTransactionActive()) {
            TransactionSynchronizationManager.getSynchronizations().stream()
                    .filter(Changes.class::isInstance)
                    .map(Changes.class::cast)
                    .filter(changes -> changes.jobs == recorded)
                    .findFirst()
                    .orElseGet(this::newChanges)
                    .undo
                    .add(action);
        }
    }

    private Changes newChanges() {
        var changes = new Changes(recorded);
        TransactionSynchronizationManager.registerSynchronization(changes);
        return changes;
    }

    /** What a transaction has changed. */
    private static final class Changes implements TransactionSynchronization {

        private final List<JobInfo> jobs;
        private final List<Runnable> undo = new ArrayList<>();
        private final IdentityHashMap<Object, Integer> savepoints = new IdentityHashMap<>();

        Changes(List<JobInfo> jobs) {
            this.jobs = jobs;
        }

        @Override
        public void savepoint(Object savepoint) {
            savepoints.put(savepoint, undo.size());
        }

        @Override
        public void savepointRollback(Object savepoint) {
            // One that is unknown is older than the first change.
            undoFrom(savepoints.getOrDefault(savepoint, 0));
        }

        @Override
        public void afterCompletion(int status) {
            if (status != STATUS_COMMITTED) {
                undoFrom(0);
            }
        }

        private void undoFrom(int first) {
            synchronized (jobs) {
                while (undo.size() > first) {
                    undo.remove(undo.size() - 1).run();
                }
            }
        }
    }

    private static boolean matches(JobFilter filter, JobInfo job) {
        return (filter.name() == null || filter.name().equals(job.name()))
                && (filter.statuses().isEmpty() || filter.statuses().contains(job.status()))
                && job.tags().containsAll(filter.tags())
                && (filter.group() == null || filter.group().equals(job.group()))
                && (filter.batch() == null || filter.batch().equals(job.batch()))
                && (filter.ids().isEmpty() || filter.ids().contains(job.id()))
                && (filter.uniqueKey() == null || filter.uniqueKey().equals(job.uniqueKey()))
                && job.metadata().entrySet().containsAll(filter.metadata().entrySet())
                && (filter.createdFrom() == null || !job.createdAt().isBefore(filter.createdFrom()))
                && (filter.createdBefore() == null || job.createdAt().isBefore(filter.createdBefore()))
                // No job has run.
                && filter.error() == null
                && filter.finishedFrom() == null
                && filter.finishedBefore() == null;
    }

    /** Returns the jobs that match a filter, newest first. */
    private List<JobInfo> matching(JobFilter filter) {
        List<JobInfo> found = new ArrayList<>();
        synchronized (recorded) {
            recorded.stream().filter(job -> matches(filter, job)).forEach(found::add);
        }
        Collections.reverse(found);
        return found;
    }

    // The calls that are recorded. The proxy finds them by their names and parameters.
    @SuppressWarnings("UnusedMethod")
    private final class Recorder {

        EnqueuedJob enqueue(Object payload) {
            return enqueue(payload, JobOptions.defaults());
        }

        EnqueuedJob enqueue(Object payload, JobOptions options) {
            return enqueueNamed(nameOf(payload.getClass()), payload, options);
        }

        EnqueuedJob enqueueNamed(String name, @Nullable Object payload) {
            return enqueueNamed(name, payload, JobOptions.defaults());
        }

        EnqueuedJob enqueueNamed(String name, @Nullable Object payload, JobOptions options) {
            Instant now = clock.instant().truncatedTo(ChronoUnit.MICROS);
            JobInfo job = new JobInfo(
                    ids.next(),
                    name,
                    JobStatus.PENDING,
                    payload == null ? "{}" : json.write(payload),
                    Optional.ofNullable(options.priority()).orElse(JobPriority.NORMAL.value()),
                    options.capability(),
                    due(options, now),
                    0,
                    options.maxAttempts(),
                    0,
                    null,
                    0,
                    null,
                    null,
                    null,
                    null,
                    null,
                    options.uniqueKey(),
                    options.group(),
                    options.batch(),
                    options.metadata(),
                    options.tags(),
                    now,
                    List.of());
            if (payload != null) {
                names.computeIfAbsent(payload.getClass(), type -> ConcurrentHashMap.newKeySet())
                        .add(name);
            }
            return record(job, options);
        }

        List<EnqueuedJob> enqueueAll(Collection<?> payloads) {
            return enqueueAll(payloads, JobOptions.defaults());
        }

        List<EnqueuedJob> enqueueAll(Collection<?> payloads, JobOptions options) {
            if (options.uniqueKey() != null) {
                throw new JobRejectedException("enqueueAll with the unique key '%s' would enqueue one job only"
                        .formatted(options.uniqueKey()));
            }
            return payloads.stream().map(payload -> enqueue(payload, options)).toList();
        }

        <T> List<EnqueuedJob> enqueueAll(Collection<T> payloads, Function<? super T, JobOptions> options) {
            return payloads.stream()
                    .map(payload -> enqueue(payload, options.apply(payload)))
                    .toList();
        }

        Optional<JobInfo> find(UUID id) {
            return matching(JobFilter.all().withIds(Set.of(id))).stream().findFirst();
        }

        JobCount count(JobFilter filter) {
            return new JobCount(matching(filter).size(), true);
        }

        Page<JobInfo> search(JobFilter filter, int limit) {
            return search(filter, limit, null);
        }

        /** The cursor is the last job of the page: jobs may be enqueued between two pages. */
        Page<JobInfo> search(JobFilter filter, int limit, @Nullable String cursor) {
            var cursors = new Cursors("JobOperations.search", "recorded jobs " + filter);
            UUID last = cursors.decodeOne(cursor, UUID::fromString);
            List<JobInfo> page = matching(filter).stream()
                    .filter(job -> last == null || job.id().compareTo(last) < 0)
                    .limit(limit)
                    .toList();
            return cursors.page(page, limit, job -> job.id().toString());
        }

        Set<String> namesOf(Class<?> payload) {
            Set<String> all = new TreeSet<>(names.getOrDefault(payload, Set.of()));
            all.add(nameOf(payload));
            return all;
        }

        /** Rejects any name after jobs whose names only their handlers would tell: one of them may have it. */
        void requireKnown(String name) {
            Set<String> unnamed = new TreeSet<>();
            matching(JobFilter.all()).forEach(job -> unnamed.add(job.name()));
            unnamed.retainAll(names.keySet().stream()
                    .filter(payload -> payload.getAnnotation(JobName.class) == null)
                    .map(Class::getName)
                    .toList());
            if (!unnamed.isEmpty()) {
                throw new UnknownJobException(
                        "Whether '%s' is the name of jobs with payloads %s is not known: this test has no handlers. Assert with the class of the payload."
                                .formatted(name, unnamed));
            }
        }

        <T> T read(String text, Class<T> type) {
            return Objects.requireNonNull(type.cast(json.read(text, type)));
        }

        private String nameOf(Class<?> payload) {
            JobName declared = payload.getAnnotation(JobName.class);
            return declared == null ? payload.getName() : declared.value();
        }
    }

    private record Calls(Recorder recorder, String bean) implements InvocationHandler {

        @Override
        public @Nullable Object invoke(Object proxy, Method method, Object @Nullable [] arguments) throws Throwable {
            if (method.getDeclaringClass() == Object.class) {
                return switch (method.getName()) {
                    case "equals" -> arguments != null && proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> bean + " (recorder of a test)";
                };
            }
            Method own;
            try {
                own = Recorder.class.getDeclaredMethod(method.getName(), method.getParameterTypes());
            } catch (NoSuchMethodException e) {
                throw new ClusterDisabledException(
                        "%s.%s: this test has no cluster, so that Jobs only records what is enqueued. Use @ClusterTest, or a mock."
                                .formatted(bean, method.getName()));
            }
            try {
                return own.invoke(recorder, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        }
    }
}
