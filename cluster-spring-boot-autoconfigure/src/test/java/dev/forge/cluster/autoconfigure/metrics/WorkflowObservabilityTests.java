// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.Workflows;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.observation.DefaultMeterObservationHandler;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationRegistry;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;
import org.springframework.boot.autoconfigure.AutoConfigurations;

/** Observations, meters, traces and log context of workflows. */
@ClusterPostgres
class WorkflowObservabilityTests {

    private final TestDatabase database;

    WorkflowObservabilityTests(TestDatabase database) {
        this.database = database;
    }

    static class Flows {

        private final ObservationRegistry observations;

        Flows(ObservationRegistry observations) {
            this.observations = observations;
        }

        @ClusterWorkflow
        List<String> sideBySide(WorkflowContext wf) {
            return wf.all(List.of(Step.of("a", String.class, this::where), Step.of("b", String.class, this::where)));
        }

        @ClusterWorkflow
        String undone(WorkflowContext wf) {
            wf.step("a", String.class, () -> "a", step -> step.withCompensation(it -> {}));
            throw new IllegalStateException("fails");
        }

        @ClusterWorkflow
        String many(WorkflowContext wf) {
            for (int i = 0; i < 150; i++) {
                wf.step("step " + i, () -> {});
            }
            return "done";
        }

        private String where() {
            Observation current = observations.getCurrentObservation();
            return MDC.get("forge.job.id") + " "
                    + (current != null && current.getContextView().getParentObservation() != null);
        }
    }

    @Test
    void compensation_is_not_observed_as_the_step() {
        List<String> seen = new CopyOnWriteArrayList<>();
        ObservationRegistry observations = ObservationRegistry.create();
        observations.observationConfig().observationHandler(new ObservationHandler<>() {
            @Override
            public void onStop(Observation.Context context) {
                seen.add(context.getName());
            }

            @Override
            public boolean supportsContext(Observation.Context context) {
                return context.getName().startsWith("forge.cluster.workflow");
            }
        });
        TestApplications.on(database)
                .withBean(ObservationRegistry.class, () -> observations)
                .withBean(Flows.class)
                .withConfiguration(AutoConfigurations.of(
                        WorkflowAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class))
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("undone", null);
                    await().until(() ->
                            workflows.find(run).orElseThrow().status().isFinal());
                    assertThat(seen)
                            .containsExactly("forge.cluster.workflow.step", "forge.cluster.workflow.compensation");
                });
    }

    @Test
    void step_names_beyond_a_bound_share_their_meters() {
        ObservationRegistry observations = ObservationRegistry.create();
        var meters = new SimpleMeterRegistry();
        observations.observationConfig().observationHandler(new DefaultMeterObservationHandler(meters));
        TestApplications.on(database)
                .withBean(ObservationRegistry.class, () -> observations)
                .withBean(Flows.class)
                .withConfiguration(AutoConfigurations.of(
                        WorkflowAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class))
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("many", null);
                    await().until(() ->
                            workflows.find(run).orElseThrow().status().isFinal());
                    Collection<Timer> timers =
                            meters.find("forge.cluster.workflow.step").timers();
                    assertThat(timers)
                            .extracting(timer -> timer.getId().getTag("step"))
                            .hasSize(101)
                            .contains("step 0", "step 99", "other")
                            .doesNotContain("step 100");
                    assertThat(meters.get("forge.cluster.workflow.step")
                                    .tag("step", "other")
                                    .timer()
                                    .count())
                            .isEqualTo(50);
                });
    }

    @Test
    void parallel_steps_are_logged_and_traced_with_their_run() {
        ObservationRegistry observations = ObservationRegistry.create();
        observations.observationConfig().observationHandler(context -> true);
        TestApplications.on(database)
                .withBean(ObservationRegistry.class, () -> observations)
                .withBean(Flows.class)
                .withConfiguration(AutoConfigurations.of(
                        WorkflowAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class))
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("side-by-side", null);
                    await().until(() ->
                            workflows.find(run).orElseThrow().status().isFinal());
                    assertThat(workflows.find(run).orElseThrow().result())
                            .isEqualTo("[\"%1$s true\", \"%1$s true\"]".formatted(run));
                });
    }
}
