// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.actuate.EndpointClient;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.common.KeyValue;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.observation.DefaultMeterObservationHandler;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationRegistry;
import io.micrometer.tracing.Span;
import io.micrometer.tracing.Tracer;
import io.micrometer.tracing.handler.DefaultTracingObservationHandler;
import io.micrometer.tracing.handler.PropagatingReceiverTracingObservationHandler;
import io.micrometer.tracing.otel.bridge.OtelCurrentTraceContext;
import io.micrometer.tracing.otel.bridge.OtelPropagator;
import io.micrometer.tracing.otel.bridge.OtelTracer;
import io.micrometer.tracing.propagation.Propagator;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.MetricsAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.export.simple.SimpleMetricsExportAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.transaction.annotation.Transactional;

@ClusterPostgres
class JobObservabilityTests {

    private final TestDatabase database;

    JobObservabilityTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return EndpointClient.expose(TestApplications.on(database))
                .withPropertyValues(
                        "forge.cluster.node.name=first",
                        "forge.cluster.sweep.interval=50ms",
                        "forge.cluster.job.backoff.delay=1ms",
                        "forge.cluster.job.backoff.max-delay=1ms")
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withConfiguration(AutoConfigurations.of(
                        DataSourceTransactionManagerAutoConfiguration.class, ClusterMetricsAutoConfiguration.class));
    }

    // Observations ------------------------------------------------------------------------------------------

    static class Handlers {
        final CountDownLatch blocked = new CountDownLatch(1);
        final AtomicReference<Span> span = new AtomicReference<>();
        final Map<UUID, Integer> runs = new ConcurrentHashMap<>();

        @Nullable
        Tracer tracer;

        @ClusterJob
        String completes() {
            return "done";
        }

        @ClusterJob
        @Transactional
        String completesInItsTransaction() {
            return "done";
        }

        @ClusterJob(maxAttempts = 2)
        void failsTwice() {
            throw new IllegalStateException("no");
        }

        @ClusterJob
        @Transactional
        void failsForGood() {
            throw new NonRetryableJobException("never");
        }

        @ClusterJob
        Outcome snoozesOnce(JobContext job) {
            return runs.merge(job.id(), 1, Integer::sum) == 1
                    ? Outcome.snooze(Duration.ofMillis(1))
                    : Outcome.complete();
        }

        @ClusterJob
        @Transactional
        Outcome asksForAnother(JobContext job) {
            return job.attempt() == 1 ? Outcome.retryAfter(Duration.ofMillis(1), "later") : Outcome.fail("enough");
        }

        @ClusterJob
        void blocks() throws InterruptedException {
            blocked.countDown();
            new CountDownLatch(1).await();
        }

        @ClusterJob(timeout = "50ms", maxAttempts = 1)
        void takesTooLong() throws InterruptedException {
            new CountDownLatch(1).await();
        }

        @ClusterJob
        void traced(JobContext job) {
            if (tracer != null) {
                span.set(tracer.currentSpan());
            }
            if (job.attempt() == 1) {
                throw new IllegalStateException("again");
            }
        }
    }

    /** Collects the contexts of stopped observations. */
    static final class Seen implements ObservationHandler<Observation.Context> {
        final List<Observation.Context> stopped = new CopyOnWriteArrayList<>();

        @Override
        public void onStop(Observation.Context context) {
            stopped.add(context);
        }

        @Override
        public boolean supportsContext(Observation.Context context) {
            return context.getName().equals(JobObservations.NAME);
        }

        /** Returns the job name, outcome and exception of each attempt of a job, in order. */
        List<String> endings(UUID job) {
            return stopped.stream()
                    .filter(context -> job.toString()
                            .equals(context.getHighCardinalityKeyValue("forge.job.id")
                                    .getValue()))
                    // The observation of a transactional attempt stops after its commit, when the next attempt may run.
                    .sorted(Comparator.comparingInt(
                            context -> Integer.parseInt(context.getHighCardinalityKeyValue("forge.job.attempt")
                                    .getValue())))
                    .map(context ->
                            value(context, "job") + " " + value(context, "outcome") + " " + value(context, "exception"))
                    .toList();
        }

        static String value(Observation.Context context, String key) {
            return Objects.requireNonNull(context.getLowCardinalityKeyValue(key))
                    .getValue();
        }
    }

    private static ObservationRegistry observing(ObservationHandler<?>... handlers) {
        ObservationRegistry registry = ObservationRegistry.create();
        for (ObservationHandler<?> handler : handlers) {
            registry.observationConfig().observationHandler(handler);
        }
        return registry;
    }

    @Test
    void every_attempt_is_observed_with_its_outcome() {
        var seen = new Seen();
        runner().withBean(Handlers.class)
                .withBean(ObservationRegistry.class, () -> observing(seen))
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    UUID node = context.getBean(NodeRuntime.class).node().id();
                    Map<String, List<String>> expected = Map.of(
                            "completes", List.of("completes COMPLETED none"),
                            "completes-in-its-transaction", List.of("completes-in-its-transaction COMPLETED none"),
                            "fails-twice",
                                    List.of(
                                            "fails-twice RETRIED IllegalStateException",
                                            "fails-twice FAILED IllegalStateException"),
                            "fails-for-good", List.of("fails-for-good FAILED NonRetryableJobException"),
                            "snoozes-once", List.of("snoozes-once SNOOZED none", "snoozes-once COMPLETED none"),
                            "asks-for-another",
                                    List.of("asks-for-another RETRIED none", "asks-for-another FAILED none"),
                            "takes-too-long", List.of("takes-too-long FAILED JobTimeoutException"));
                    expected.forEach((name, endings) -> {
                        UUID job = jobs.enqueueNamed(name, null).id();
                        ended(context, job);
                        await().untilAsserted(
                                        () -> assertThat(seen.endings(job)).isEqualTo(endings));
                    });
                    assertThat(seen.stopped).allSatisfy(observed -> {
                        assertThat(observed.getLowCardinalityKeyValues())
                                .extracting(KeyValue::getKey)
                                .containsExactlyInAnyOrder("cluster", "job", "outcome", "exception");
                        assertThat(observed.getHighCardinalityKeyValues())
                                .contains(
                                        KeyValue.of("forge.node.id", node.toString()),
                                        KeyValue.of("forge.node.name", "first"));
                    });
                });
    }

    @Test
    void timers_have_the_documented_tags_only() {
        new ApplicationContextRunner()
                .withPropertyValues(
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password())
                .withConfiguration(AutoConfigurations.of(
                        DataSourceAutoConfiguration.class,
                        MetricsAutoConfiguration.class,
                        SimpleMetricsExportAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class))
                .withConfiguration(TestApplications.CLUSTER)
                .withBean(Handlers.class)
                .withBean(ObservationRegistry.class, ObservationRegistry::create)
                .run(context -> {
                    MeterRegistry meters = context.getBean(MeterRegistry.class);
                    context.getBean(ObservationRegistry.class)
                            .observationConfig()
                            .observationHandler(new DefaultMeterObservationHandler(meters));
                    Jobs jobs = context.getBean(Jobs.class);
                    ended(context, jobs.enqueueNamed("fails-for-good", null).id());
                    await().until(() -> meters.find(JobObservations.NAME).timer() != null);
                    assertThat(meters.get(JobObservations.NAME).timer().getId().getTags())
                            .extracting(Tag::getKey, Tag::getValue)
                            .containsExactlyInAnyOrder(
                                    tuple("cluster", "orders"),
                                    tuple("job", "fails-for-good"),
                                    tuple("outcome", "FAILED"),
                                    tuple("exception", "NonRetryableJobException"));
                });
    }

    @Test
    void attempt_whose_job_was_cancelled_is_lost_and_counts_as_no_lost_claim() {
        var seen = new Seen();
        runner().withBean(Handlers.class)
                .withBean(ObservationRegistry.class, () -> observing(seen))
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    UUID job = jobs.enqueueNamed("blocks", null).id();
                    await().until(() -> context.getBean(Handlers.class).blocked.getCount() == 0);
                    assertThat(jobs.cancel(job)).isTrue();
                    await().until(() -> !seen.endings(job).isEmpty());
                    assertThat(seen.endings(job)).containsExactly("blocks LOST InterruptedException");
                    assertThat(context.getBean(MeterRegistry.class)
                                    .find("forge.cluster.job.claims.lost")
                                    .counters())
                            .isEmpty();
                });
    }

    @Test
    void attempt_that_the_drain_interrupts_is_returned() {
        // Repeated: a handler that ends later than half a second after the interrupt, because its machine was paused,
        // has lost its claim.
        await().untilAsserted(() -> {
            var seen = new Seen();
            try {
                runner().withPropertyValues("forge.cluster.shutdown.drain-timeout=100ms")
                        .withBean(Handlers.class)
                        .withBean(ObservationRegistry.class, () -> observing(seen))
                        .run(context -> {
                            UUID job = context.getBean(Jobs.class)
                                    .enqueueNamed("blocks", null)
                                    .id();
                            await().until(() ->
                                    context.getBean(Handlers.class).blocked.getCount() == 0);
                            context.getBean(ClusterLifecycle.class).stop();
                            await().until(() -> !seen.endings(job).isEmpty());
                            assertThat(seen.endings(job)).containsExactly("blocks RETURNED none");
                        });
            } finally {
                database.jdbc()
                        .sql("DELETE FROM forge_jobs WHERE name = 'blocks'")
                        .update();
            }
        });
    }

    // Traces ------------------------------------------------------------------------------------------------

    private static final class Spans implements SpanExporter {
        final List<SpanData> ended = new CopyOnWriteArrayList<>();

        @Override
        public CompletableResultCode export(Collection<SpanData> spans) {
            ended.addAll(spans);
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode flush() {
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode shutdown() {
            return CompletableResultCode.ofSuccess();
        }

        List<SpanData> named(String name) {
            return ended.stream().filter(span -> span.getName().equals(name)).toList();
        }
    }

    @Test
    void spans_of_all_attempts_belong_to_the_trace_of_the_enqueuer() {
        var spans = new Spans();
        try (SdkTracerProvider provider = SdkTracerProvider.builder()
                .addSpanProcessor(SimpleSpanProcessor.create(spans))
                .build()) {
            var otel = provider.get("test");
            var tracer = new OtelTracer(otel, new OtelCurrentTraceContext(), event -> {});
            var propagator =
                    new OtelPropagator(ContextPropagators.create(W3CTraceContextPropagator.getInstance()), otel);
            ObservationRegistry registry = observing(new ObservationHandler.FirstMatchingCompositeObservationHandler(
                    new PropagatingReceiverTracingObservationHandler<>(tracer, propagator),
                    new DefaultTracingObservationHandler(tracer)));
            runner().withBean(Handlers.class)
                    .withBean(ObservationRegistry.class, () -> registry)
                    .withBean(Tracer.class, () -> tracer)
                    .withBean(Propagator.class, () -> propagator)
                    .run(context -> {
                        Handlers handlers = context.getBean(Handlers.class);
                        handlers.tracer = tracer;
                        Jobs jobs = context.getBean(Jobs.class);
                        UUID job = Observation.createNotStarted("request", registry)
                                .observe(() -> jobs.enqueueNamed(
                                                "traced",
                                                null,
                                                JobOptions.defaults().withMetadata("tenant", "acme"))
                                        .id());
                        ended(context, job);
                        assertThat(jobs.find(job).orElseThrow().metadata()).containsKeys("traceparent", "tenant");
                        await().until(() -> spans.named("job traced").size() == 2);
                        SpanData request = spans.named("request").get(0);
                        assertThat(spans.named("job traced")).allSatisfy(span -> {
                            assertThat(span.getTraceId()).isEqualTo(request.getTraceId());
                            assertThat(span.getParentSpanId()).isEqualTo(request.getSpanId());
                            assertThat(span.getKind()).isEqualTo(SpanKind.CONSUMER);
                            assertThat(span.getAttributes().get(AttributeKey.stringKey("forge.node.name")))
                                    .isEqualTo("first");
                        });
                        assertThat(spans.named("job traced").get(0).getStatus().getStatusCode())
                                .isEqualTo(StatusCode.ERROR);
                        assertThat(handlers.span.get().context().traceId()).isEqualTo(request.getTraceId());
                        // A job that is enqueued outside of a trace has no trace metadata.
                        UUID stranger = jobs.enqueueNamed("completes", null).id();
                        assertThat(jobs.find(stranger).orElseThrow().metadata()).isEmpty();
                        ended(context, stranger);
                    });
        }
    }

    // Meters ------------------------------------------------------------------------------------------------

    private static double counter(ApplicationContext context, String name, String job) {
        Counter counter = context.getBean(MeterRegistry.class)
                .find(name)
                .tag("cluster", "orders")
                .tag("job", job)
                .counter();
        return counter == null ? 0 : counter.count();
    }

    @Test
    void meters_cover_waits_claims_and_retries_without_ids_as_tags() {
        runner().withBean(Handlers.class)
                .withBean("metered", ObservationRegistry.class, () -> observing())
                .run(context -> {
                    MeterRegistry meters = context.getBean(MeterRegistry.class);
                    context.getBean(ObservationRegistry.class)
                            .observationConfig()
                            .observationHandler(new DefaultMeterObservationHandler(meters));
                    Jobs jobs = context.getBean(Jobs.class);
                    UUID fails = jobs.enqueueNamed("fails-twice", null).id();
                    UUID completes = jobs.enqueueNamed("completes", null).id();
                    ended(context, fails);
                    ended(context, completes);
                    assertThat(counter(context, "forge.cluster.job.retries", "fails-twice"))
                            .isEqualTo(1);
                    assertThat(timer(meters, "forge.cluster.job.wait", "job", "fails-twice"))
                            .isEqualTo(2);
                    assertThat(timer(meters, "forge.cluster.job.claim", "cluster", "orders"))
                            .isPositive();
                    assertThat(timer(meters, JobObservations.NAME, "outcome", "COMPLETED"))
                            .isEqualTo(1);
                    assertThat(timer(meters, JobObservations.NAME, "exception", "IllegalStateException"))
                            .isEqualTo(2);
                    var ids = new TreeSet<>(List.of(
                            fails.toString(),
                            completes.toString(),
                            String.valueOf(
                                    context.getBean(NodeRuntime.class).node().id())));
                    assertThat(meters.getMeters().stream()
                                    .map(Meter::getId)
                                    .flatMap(id -> id.getTags().stream())
                                    .map(Tag::getValue)
                                    .collect(Collectors.toSet()))
                            .isNotEmpty()
                            .doesNotContainAnyElementsOf(ids);
                });
    }

    private static long timer(MeterRegistry meters, String name, String key, String value) {
        return meters.find(name).tag(key, value).timers().stream()
                .mapToLong(Timer::count)
                .sum();
    }

    static class Deaf {
        final CountDownLatch release = new CountDownLatch(1);

        @ClusterJob(timeout = "50ms", maxAttempts = 1)
        void deaf() {
            while (release.getCount() > 0) {
                try {
                    release.await();
                } catch (InterruptedException e) {
                    // Ignores the interrupt on purpose.
                }
            }
        }
    }

    @Test
    void handler_that_ignores_its_timeout_shows_in_meters_health_and_endpoint() {
        runner().withBean(Deaf.class).run(context -> {
            UUID job = context.getBean(Jobs.class).enqueueNamed("deaf", null).id();
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            try {
                await().until(() ->
                        meters.get("forge.cluster.job.handlers.stuck").gauge().value() == 1);
                assertThat(counter(context, "forge.cluster.job.timeouts", "deaf"))
                        .isEqualTo(1);
                var contributor = context.getBean("forgeClusterHealthContributor", CompositeHealthContributor.class);
                Health health = ((HealthIndicator) contributor.getContributor("workers")).health(true);
                assertThat(health.getStatus()).isEqualTo(Status.UP);
                assertThat(health.getDetails())
                        .containsEntry("stuckHandlers", 1)
                        .extractingByKey("warning")
                        .asString()
                        .contains("deaf", job.toString(), "50 ms");
            } finally {
                context.getBean(Deaf.class).release.countDown();
            }
            assertThat(ended(context, job).status()).isEqualTo(JobStatus.FAILED);
            assertThat(meters.get("forge.cluster.job.handlers.stuck").gauge().value())
                    .isZero();
            EndpointClient.Response view = EndpointClient.of(context).get("jobs", job.toString());
            assertThat(view.list("attemptHistory")).hasSize(1);
            assertThat(view.at("attemptHistory", 0, "attempt")).isEqualTo(1);
            assertThat(view.at("attemptHistory", 0, "result")).isEqualTo("timed-out");
            assertThat(view.at("attemptHistory", 0, "error")).isEqualTo("******");
        });
    }

    @Test
    void jobs_taken_from_nodes_that_died_or_are_gone_are_counted() {
        runner().withBean(Handlers.class).run(context -> {
            await().until(() -> context.getBean(Leadership.class).isLeader(Leadership.SCHEDULER));
            UUID silent = UUID.randomUUID();
            database.jdbc().sql("""
                    INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                    VALUES (?, 'silent', 'silent', 'host', '{worker}', 'active', '1',
                            clock_timestamp() + interval '200 ms', clock_timestamp() + interval '400 ms')
                    """).param(silent).update();
            UUID died = held("completes", silent);
            UUID gone = held("snoozes-once", UUID.randomUUID());
            ended(context, died);
            ended(context, gone);
            // Recoveries are counted after the commit, when the jobs may already run.
            await().untilAsserted(() -> {
                assertThat(counter(context, "forge.cluster.job.recoveries", "completes"))
                        .isEqualTo(1);
                assertThat(counter(context, "forge.cluster.job.recoveries", "snoozes-once"))
                        .isEqualTo(1);
            });
        });
    }

    private UUID held(String name, UUID node) {
        UUID id = UUID.randomUUID();
        database.jdbc().sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, attempts, claimed_at, started_at,
                                        last_heartbeat, lease_expires_at)
                VALUES (?, ?, 'running', ?, 1, 1, clock_timestamp(), clock_timestamp(), clock_timestamp(), 'infinity')
                """).params(id, name, node).update();
        return id;
    }

    @Test
    void metrics_aggregator_alone_counts_unfinished_jobs() {
        runner().withBean(Handlers.class).run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            ClusterMetrics metrics = context.getBean(ClusterMetrics.class);
            Jobs jobs = context.getBean(Jobs.class);
            await().until(() -> meters.find("forge.cluster.queue.oldest.age").gauge() != null);
            JobOptions later = JobOptions.defaults().withDelay(Duration.ofHours(1));
            UUID first = jobs.enqueueNamed("completes", null, later).id();
            UUID second = jobs.enqueueNamed("completes", null, later).id();
            jobs.pause("blocks");
            UUID old = jobs.enqueueNamed("blocks", null).id();
            database.jdbc()
                    .sql("UPDATE forge_jobs SET scheduled_at = now() - interval '1 minute' WHERE id = ?")
                    .param(old)
                    .update();
            // Repeated: the loop may publish an earlier count last, and a paused machine may lose its term.
            await().ignoreExceptions().untilAsserted(() -> {
                metrics.countJobs();
                assertThat(meters.get("forge.cluster.jobs")
                                .tags("cluster", "orders", "job", "completes", "status", "pending")
                                .gauge()
                                .value())
                        .isEqualTo(2);
                assertThat(meters.get("forge.cluster.queue.oldest.age").gauge().value())
                        .isBetween(60.0, 180.0);
            });
            List.of(first, second, old).forEach(jobs::cancel);
            jobs.resume("blocks");
            await().ignoreExceptions().untilAsserted(() -> {
                metrics.countJobs();
                assertThat(meters.find("forge.cluster.jobs").gauges()).isEmpty();
                assertThat(meters.get("forge.cluster.queue.oldest.age").gauge().value())
                        .isZero();
            });
            UUID third = jobs.enqueueNamed("completes", null, later).id();
            await().untilAsserted(() -> {
                metrics.countJobs();
                assertThat(meters.find("forge.cluster.jobs").gauges()).hasSize(1);
            });
            context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
            await().until(() -> meters.find("forge.cluster.jobs").gauge() == null);
            metrics.countJobs();
            assertThat(meters.find("forge.cluster.jobs").gauge()).isNull();
            assertThat(meters.find("forge.cluster.queue.oldest.age").gauge()).isNull();
            jobs.cancel(third);
        });
    }

    // Without Micrometer -------------------------------------------------------------------------------------

    @Test
    void jobs_run_without_micrometer_and_without_its_tracing() {
        for (var missing : List.of(
                new FilteredClassLoader("io.micrometer.tracing"),
                new FilteredClassLoader("io.micrometer.core", "io.micrometer.tracing"),
                new FilteredClassLoader("io.micrometer"))) {
            new ApplicationContextRunner()
                    .withClassLoader(missing)
                    .withPropertyValues(
                            "spring.datasource.url=" + database.url(),
                            "spring.datasource.username=" + database.username(),
                            "spring.datasource.password=" + database.password())
                    .withBean(Handlers.class)
                    .withConfiguration(AutoConfigurations.of(
                            DataSourceAutoConfiguration.class,
                            DataSourceTransactionManagerAutoConfiguration.class,
                            ClusterActuatorAutoConfiguration.class,
                            ClusterMetricsAutoConfiguration.class))
                    .withConfiguration(TestApplications.CLUSTER)
                    .run(context -> {
                        assertThat(context).hasNotFailed();
                        Jobs jobs = context.getBean(Jobs.class);
                        UUID job = jobs.enqueueNamed("completes", null).id();
                        ended(context, job);
                        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.COMPLETED);
                    });
        }
    }
}
