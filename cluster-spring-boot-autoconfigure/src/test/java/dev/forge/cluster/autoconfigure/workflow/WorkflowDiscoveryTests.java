// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.workflow;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.EndpointClient;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetrics;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetricsAutoConfiguration;
import dev.forge.cluster.autoconfigure.metrics.JobObservations;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.observation.DefaultMeterObservationHandler;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.observation.ObservationRegistry;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.transaction.annotation.Transactional;

/** Workflows on beans of real applications, and the endpoint, meters and health for operators. */
@ClusterPostgres
class WorkflowDiscoveryTests {

    private final TestDatabase database;

    WorkflowDiscoveryTests(TestDatabase database) {
        this.database = database;
    }

    @BeforeEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        var meters = new SimpleMeterRegistry();
        var observations = ObservationRegistry.create();
        observations.observationConfig().observationHandler(new DefaultMeterObservationHandler(meters));
        return EndpointClient.expose(TestApplications.on(database))
                .withBean(MeterRegistry.class, () -> meters)
                .withBean(ObservationRegistry.class, () -> observations)
                .withConfiguration(
                        AutoConfigurations.of(WorkflowAutoConfiguration.class, ClusterMetricsAutoConfiguration.class));
    }

    private static WorkflowInfo ended(ApplicationContext context, UUID run) {
        Workflows workflows = context.getBean(Workflows.class);
        await().until(() -> workflows.find(run).orElseThrow().status().isFinal());
        return workflows.find(run).orElseThrow();
    }

    record Order(String item) {}

    static class Orders {

        @ClusterWorkflow
        String placeOrder(WorkflowContext wf, Order order) {
            return wf.step("place", String.class, () -> "placed " + order.item());
        }

        @ClusterWorkflow(name = "place-order", version = "${version:2}")
        String second(Order order, WorkflowContext wf) {
            return wf.transactionalStep("place", String.class, () -> "placed again " + order.item());
        }

        @ClusterWorkflow(name = "place-order", version = "10", deprecated = true)
        String withdrawn(WorkflowContext wf) {
            return "never";
        }
    }

    @Test
    void workflows_are_found_with_their_names_versions_and_inputs() {
        runner().withBean(Orders.class).run(context -> {
            assertThat(context.getBean(WorkflowEngine.class).names())
                    .containsExactly("place-order@1", "place-order@10", "place-order@2");
            Workflows workflows = context.getBean(Workflows.class);
            UUID run = workflows.start("place-order", new Order("anvil"), "first");
            assertThat(ended(context, run).status()).isEqualTo(WorkflowStatus.COMPLETED);
            assertThat(workflows.find(run).orElseThrow().version()).isEqualTo("2");
            assertThat(workflows.result(run, String.class)).contains("placed again anvil");
            EndpointClient client = EndpointClient.of(context);
            EndpointClient.Response runs = client.get("workflows");
            assertThat(runs.at("runs", 0, "id")).isEqualTo(run.toString());
            assertThat(runs.at("runs", 0, "name")).isEqualTo("place-order");
            assertThat(runs.at("runs", 0, "status")).isEqualTo("completed");
            EndpointClient.Response details = client.get("workflows", run.toString());
            assertThat(details.at("input")).isEqualTo("******");
            assertThat(details.at("steps", 0, "kind")).isEqualTo("step");
            assertThat(details.at("steps", 0, "name")).isEqualTo("place");
            assertThat(details.at("steps", 0, "attempts")).isEqualTo(1);
            assertThat(details.at("steps", 0, "result")).isEqualTo("******");
            assertThat(context.getBean(MeterRegistry.class)
                            .get("forge.cluster.workflow.step")
                            .tags("workflow", "place-order", "version", "2", "step", "place", "outcome", "COMPLETED")
                            .timer()
                            .count())
                    .isEqualTo(1);
        });
    }

    static class Patient {

        @ClusterWorkflow
        String approval(WorkflowContext wf) {
            wf.progress(40, "half-way");
            return wf.awaitSignal("the-word", String.class);
        }
    }

    @Test
    void values_of_a_run_are_masked_and_its_job_cannot_be_changed_directly() {
        runner().withBean(Patient.class).run(context -> {
            Workflows workflows = context.getBean(Workflows.class);
            UUID run = workflows.start("approval", null);
            await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.WAITING);
            EndpointClient client = EndpointClient.of(context);
            EndpointClient.Response waiting = client.get("workflows", run.toString());
            assertThat(waiting.at("awaits")).isEqualTo("******");
            assertThat(waiting.at("progress")).isEqualTo("******");
            EndpointClient.Response job = client.get("jobs", run.toString());
            assertThat(job.at("explanation", "reason")).isEqualTo("WAITING_FOR_SIGNAL");
            assertThat(job.at("explanation", "text")).isEqualTo("Its run waits for signal '******'.");
            // Browsers cannot parse the time that stands for none.
            assertThat(job.at("scheduledAt")).isNull();
            assertThat(client.get("jobs").at("jobs", 0, "scheduledAt")).isNull();
            for (String state : new String[] {"cancelled", "retry"}) {
                assertThat(client.post(state, "jobs", run.toString()).error(400))
                        .contains("Workflows.");
            }
            assertThat(workflows.cancel(run, "the reason")).isTrue();
            ended(context, run);
            assertThat(client.get("workflows").at("runs", 0, "status")).isEqualTo("compensated");
            EndpointClient.Response cancelled = client.get("workflows", run.toString());
            assertThat(cancelled.at("status")).isEqualTo("compensated");
            assertThat(cancelled.at("resolutionReason")).isEqualTo("******");
            assertThat(client.post("cancelled", "workflows", run.toString()).error(400))
                    .contains("is compensated");
        });
    }

    @Test
    void metrics_aggregator_alone_counts_unfinished_runs() {
        strand("place-order");
        strand("place-order");
        runner().run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            ClusterMetrics metrics = context.getBean(ClusterMetrics.class);
            await().until(() -> meters.find("forge.cluster.queue.oldest.age").gauge() != null);
            // Repeated: the loop may publish an earlier count last, and a paused machine may lose its term.
            await().ignoreExceptions().untilAsserted(() -> {
                metrics.countWorkflows();
                assertThat(meters
                                .get("forge.cluster.workflows")
                                .tags("workflow", "place-order", "version", "1")
                                .gauges()
                                .stream()
                                .mapToDouble(Gauge::value)
                                .sum())
                        .isEqualTo(2);
            });
            database.jdbc()
                    .sql("UPDATE forge_workflow_runs SET status = 'retired_unresumable'")
                    .update();
            await().untilAsserted(() -> {
                metrics.countWorkflows();
                assertThat(meters.find("forge.cluster.workflows").gauges()).isEmpty();
            });
            strand("place-order");
            await().untilAsserted(() -> {
                metrics.countWorkflows();
                assertThat(meters.find("forge.cluster.workflows").gauges()).hasSize(1);
            });
            context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
            await().until(() -> meters.find("forge.cluster.workflows").gauge() == null);
            metrics.countWorkflows();
            assertThat(meters.find("forge.cluster.workflows").gauge()).isNull();
        });
    }

    /** A step that is being compensated. */
    private static final class Undone implements JobMonitor.StepAttempt {

        @Override
        public String workflow() {
            return "place-order";
        }

        @Override
        public String version() {
            return "1";
        }

        @Override
        public String step() {
            return "place";
        }

        @Override
        public UUID workflowRun() {
            return UUID.randomUUID();
        }

        @Override
        public boolean undoing() {
            return true;
        }

        @Override
        public JobMonitor.StepOutcome outcome() {
            return JobMonitor.StepOutcome.COMPLETED;
        }

        @Override
        public Throwable failure() {
            return null;
        }
    }

    @Test
    void compensation_is_observed_under_its_own_name() {
        var meters = new SimpleMeterRegistry();
        var registry = ObservationRegistry.create();
        registry.observationConfig().observationHandler(new DefaultMeterObservationHandler(meters));
        new JobObservations(registry, "orders", true).observe(new Undone(), () -> {});
        assertThat(meters.find("forge.cluster.workflow.step").timers()).isEmpty();
        assertThat(meters.get("forge.cluster.workflow.compensation")
                        .tags("workflow", "place-order", "version", "1", "step", "place", "outcome", "COMPLETED")
                        .timer()
                        .count())
                .isEqualTo(1);
    }

    static class TakesTwo {
        @ClusterWorkflow
        void bad(WorkflowContext wf, String one, String two) {}
    }

    static class TakesNoContext {
        @ClusterWorkflow
        void bad(String input) {}
    }

    static class WithTransaction {
        @ClusterWorkflow
        @Transactional
        public void bad(WorkflowContext wf) {}
    }

    static class WithBadVersion {
        @ClusterWorkflow(version = "1@2")
        void bad(WorkflowContext wf) {}
    }

    static class Twice {
        @ClusterWorkflow(name = "same")
        void one(WorkflowContext wf) {}

        @ClusterWorkflow(name = "same")
        void other(WorkflowContext wf) {}
    }

    static class Disguised {
        @ClusterJob(name = "workflow:order@1")
        void bad() {}
    }

    static class DisguisedByAlias {
        @ClusterJob(aliases = "daemon:feed")
        void bad() {}
    }

    static Stream<Arguments> refused() {
        return Stream.of(
                Arguments.of(TakesTwo.class, "it has the parameters"),
                Arguments.of(TakesNoContext.class, "it has the parameters"),
                Arguments.of(WithTransaction.class, "it is @Transactional"),
                Arguments.of(WithBadVersion.class, "version (1@2)"),
                Arguments.of(Twice.class, "Two methods are version '1' of workflow 'same'"),
                Arguments.of(Disguised.class, "name (workflow:order@1)"),
                Arguments.of(DisguisedByAlias.class, "aliases (daemon:feed)"));
    }

    @ParameterizedTest
    @MethodSource("refused")
    void invalid_workflow_fails_the_start(Class<?> bean, String reason) {
        runner().withBean(bean)
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContaining(reason));
    }

    private static Health health(ApplicationContext context) {
        var contributor = context.getBean("forgeClusterHealthContributor", CompositeHealthContributor.class);
        return ((HealthIndicator) contributor.getContributor("workflows")).health(true);
    }

    private void strand(String workflow) {
        database.jdbc().sql("""
                        INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, status)
                        SELECT id, id, ?, '1', 'waiting' FROM (SELECT gen_random_uuid() AS id) AS one
                        """).param(workflow).update();
    }

    @Test
    void node_without_the_code_of_runs_in_flight_is_not_ready() {
        strand("gone");
        runner().run(context -> {
            // The node is not ready as soon as it has started.
            assertThat(health(context).getStatus()).isEqualTo(Status.OUT_OF_SERVICE);
            assertThat(health(context).getDetails()).isEqualTo(Map.of("workflows", false));
            database.jdbc()
                    .sql("UPDATE forge_workflow_runs SET status = 'retired_unresumable'")
                    .update();
            await().until(() -> health(context).getStatus().equals(Status.UP));
            assertThat(health(context).getDetails()).isEqualTo(Map.of("workflows", true));
        });
    }

    @Test
    void cluster_scope_ignores_runs_that_another_live_node_can_continue() {
        runner().withBean(Orders.class).run(has -> {
            strand("place-order");
            runner().withPropertyValues(
                            "forge.cluster.workflow.stranded-scope=cluster", "forge.cluster.node.name=other")
                    .run(lacks -> {
                        assertThat(health(lacks).getStatus()).isEqualTo(Status.UP);
                        strand("gone");
                        await().until(() -> health(lacks).getStatus().equals(Status.OUT_OF_SERVICE));
                    });
            runner().withPropertyValues("forge.cluster.node.name=third")
                    .run(lacks -> assertThat(health(lacks).getStatus()).isEqualTo(Status.OUT_OF_SERVICE));
        });
    }
}
