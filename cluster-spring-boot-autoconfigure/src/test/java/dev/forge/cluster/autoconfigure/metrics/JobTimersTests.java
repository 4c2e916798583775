// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.observation.GlobalObservationConvention;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationFilter;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationPredicate;
import io.micrometer.observation.ObservationRegistry;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.MetricsAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.export.simple.SimpleMetricsExportAutoConfiguration;
import org.springframework.boot.micrometer.observation.autoconfigure.ObservationAutoConfiguration;
import org.springframework.boot.micrometer.observation.autoconfigure.ObservationRegistryCustomizer;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** Timers take the place of observations if nothing else wants observations. */
@ClusterPostgres
class JobTimersTests {

    private final TestDatabase database;

    JobTimersTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withPropertyValues("forge.cluster.job.backoff.delay=1ms", "forge.cluster.job.backoff.max-delay=1ms")
                .withBean(Handlers.class)
                .withConfiguration(AutoConfigurations.of(
                        MetricsAutoConfiguration.class,
                        SimpleMetricsExportAutoConfiguration.class,
                        CompositeMeterRegistryAutoConfiguration.class,
                        ObservationAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class));
    }

    static class Handlers {
        @ClusterJob
        void completes() {}

        @ClusterJob(maxAttempts = 2)
        void fails() {
            throw new IllegalStateException("no");
        }

        @ClusterJob(batchSize = 10)
        void many(List<Integer> numbers) {}
    }

    static final class Ignoring implements ObservationHandler<Observation.Context> {
        @Override
        public boolean supportsContext(Observation.Context context) {
            return false;
        }
    }

    private Set<String> metersOf(ApplicationContextRunner runner, boolean timed) {
        var meters = new TreeSet<String>();
        runner.run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(context.getBean(JobTimers.class).isActive()).isEqualTo(timed);
            Jobs jobs = context.getBean(Jobs.class);
            jobs.enqueueNamed("completes", null);
            jobs.enqueueNamed("fails", null);
            for (int i = 0; i < 5; i++) {
                jobs.enqueueNamed("many", i);
            }
            MeterRegistry registry = context.getBean(MeterRegistry.class);
            await().until(() -> attempts(registry) == 8);
            registry.getMeters().stream()
                    .map(meter -> meter.getId())
                    .filter(id -> id.getName().startsWith(JobObservations.NAME))
                    .forEach(id -> meters.add(id.getType() + " " + id.getName() + " " + id.getTags()));
        });
        return meters;
    }

    private static long attempts(MeterRegistry registry) {
        return registry.find(JobObservations.NAME).timers().stream()
                .collect(Collectors.summingLong(timer -> timer.count()));
    }

    @Test
    void meters_are_those_of_observations() {
        Set<String> timed = metersOf(runner(), true);
        Set<String> observed = metersOf(runner().withBean(Ignoring.class), false);
        assertThat(timed).isEqualTo(observed).hasSize(7);
    }

    static class Batches {
        @ClusterJob(batchSize = 3, batchWait = "10s")
        void successful(List<Integer> numbers) {}

        @ClusterJob(batchSize = 3, batchWait = "10s")
        void failing(List<Integer> numbers) {
            if (numbers.size() > 1) {
                throw new IllegalStateException("too many");
            }
        }
    }

    @Test
    void call_for_many_jobs_is_recorded_once() {
        runner().withBean(Batches.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            for (int i = 0; i < 3; i++) {
                jobs.enqueueNamed("successful", i);
                jobs.enqueueNamed("failing", i);
            }
            MeterRegistry registry = context.getBean(MeterRegistry.class);
            await().until(() -> attempts(registry) == 9);
            await().untilAsserted(() -> {
                assertThat(calls(registry, "successful", "ended")).isOne();
                assertThat(calls(registry, "failing", "split")).isOne();
                for (String job : List.of("successful", "failing")) {
                    DistributionSummary sizes = registry.get("forge.cluster.job.calls.size")
                            .tag("job", job)
                            .summary();
                    assertThat(sizes.count()).isOne();
                    assertThat(sizes.max()).isEqualTo(3);
                }
            });
        });
    }

    private static long calls(MeterRegistry registry, String job, String result) {
        return registry.get("forge.cluster.job.calls")
                .tags("job", job, "result", result)
                .timer()
                .count();
    }

    static Stream<Named<UnaryOperator<ApplicationContextRunner>>> otherUses() {
        return Stream.of(
                Named.of("handler", runner -> runner.withBean(Ignoring.class)),
                Named.of(
                        "predicate",
                        runner -> runner.withBean(ObservationPredicate.class, () -> (name, context) -> true)),
                Named.of("filter", runner -> runner.withBean(ObservationFilter.class, () -> context -> context)),
                Named.of("convention", runner -> runner.withBean(Convention.class)),
                Named.of(
                        "customizer",
                        runner -> runner.withBean(ObservationRegistryCustomizer.class, () -> registry -> {})),
                Named.of("registry", runner -> runner.withBean(ObservationRegistry.class, ObservationRegistry::create)),
                Named.of("key values", runner -> runner.withPropertyValues("management.observations.key-values.a=b")),
                Named.of("enable", runner -> runner.withPropertyValues("management.observations.enable.spring=false")),
                Named.of(
                        "ignored meters",
                        runner -> runner.withPropertyValues(
                                "management.metrics.observations.ignored-meters=long-task-timer")));
    }

    static final class Convention implements GlobalObservationConvention<Observation.Context> {
        @Override
        public boolean supportsContext(Observation.Context context) {
            return false;
        }
    }

    @ParameterizedTest
    @MethodSource("otherUses")
    void other_uses_need_observations(UnaryOperator<ApplicationContextRunner> use) {
        use.apply(runner()).run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(context.getBean(JobTimers.class).isActive()).isFalse();
        });
    }
}
