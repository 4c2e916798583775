// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.ClusterDisabledException;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.job.InspectableJobs;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobFilter;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Clock;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** A {@link Jobs} that only records what is enqueued, for tests of a part of the application without a database. */
public final class RecordedJobs {

    private static final int MAX_BYTES = 1_048_576;

    private final List<JobInfo> recorded = new CopyOnWriteArrayList<>();
    private final Map<Class<?>, Set<String>> names = new ConcurrentHashMap<>();
    private final PayloadJson json;
    private final Clock clock;
    private final InspectableJobs jobs;

    /** @param codec writes payloads, so that one that cannot be written fails here as well */
    public RecordedJobs(PayloadCodec codec, Clock clock) {
        this.json = new PayloadJson(codec, MAX_BYTES);
        this.clock = clock;
        this.jobs = (InspectableJobs) Proxy.newProxyInstance(
                InspectableJobs.class.getClassLoader(), new Class<?>[] {InspectableJobs.class}, new Calls());
    }

    /** Returns the recorder as the bean that the application injects. */
    public Jobs jobs() {
        return jobs;
    }

    /** Forgets what was recorded; called before each test. */
    public void clear() {
        recorded.clear();
        names.clear();
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
            Instant at = options.at();
            JobInfo job = new JobInfo(
                    UUID.randomUUID(),
                    name,
                    JobStatus.PENDING,
                    payload == null ? "{}" : json.write(payload),
                    Optional.ofNullable(options.priority()).orElse(JobPriority.NORMAL.value()),
                    options.capability(),
                    at != null ? at : options.delay() == null ? now : now.plus(options.delay()),
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
            recorded.add(job);
            return new EnqueuedJob(job.id(), true);
        }

        List<EnqueuedJob> enqueueAll(Collection<?> payloads) {
            return enqueueAll(payloads, JobOptions.defaults());
        }

        List<EnqueuedJob> enqueueAll(Collection<?> payloads, JobOptions options) {
            return payloads.stream().map(payload -> enqueue(payload, options)).toList();
        }

        <T> List<EnqueuedJob> enqueueAll(Collection<T> payloads, Function<? super T, JobOptions> options) {
            return payloads.stream()
                    .map(payload -> enqueue(payload, options.apply(payload)))
                    .toList();
        }

        Optional<JobInfo> find(UUID id) {
            return recorded.stream().filter(job -> job.id().equals(id)).findFirst();
        }

        List<JobInfo> list(JobFilter filter, int limit) {
            return recorded.stream()
                    .filter(job -> filter.name() == null || job.name().equals(filter.name()))
                    .limit(limit)
                    .toList();
        }

        Set<String> namesOf(Class<?> payload) {
            Set<String> all = new TreeSet<>(names.getOrDefault(payload, Set.of()));
            all.add(nameOf(payload));
            return all;
        }

        <T> T read(String text, Class<T> type) {
            return Objects.requireNonNull(type.cast(json.read(text, type)));
        }

        private String nameOf(Class<?> payload) {
            JobName declared = payload.getAnnotation(JobName.class);
            return declared == null ? payload.getName() : declared.value();
        }
    }

    private final class Calls implements InvocationHandler {

        private final Recorder recorder = new Recorder();

        @Override
        public @Nullable Object invoke(Object proxy, Method method, Object @Nullable [] arguments) throws Throwable {
            if (method.getDeclaringClass() == Object.class) {
                return switch (method.getName()) {
                    case "equals" -> arguments != null && proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> "Jobs (recorder of a test)";
                };
            }
            Method own;
            try {
                own = Recorder.class.getDeclaredMethod(method.getName(), method.getParameterTypes());
            } catch (NoSuchMethodException e) {
                throw new ClusterDisabledException(
                        "Jobs.%s: this test has no cluster, so that Jobs only records what is enqueued. Use @ClusterTest, or a mock."
                                .formatted(method.getName()));
            }
            try {
                return own.invoke(recorder, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        }
    }
}
