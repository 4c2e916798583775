package dev.forge.cluster.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.ClusterLocks;
import dev.forge.cluster.LeaderRole;
import dev.forge.cluster.Leadership;
import dev.forge.cluster.LeadershipAcquired;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.event.EventListener;

@ClusterPostgres
class ActuatorTests {

    private final TestDatabase database;

    ActuatorTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return new ApplicationContextRunner()
                .withPropertyValues(
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password(),
                        "forge.cluster.node.name=first",
                        "management.endpoints.web.exposure.include=*")
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withConfiguration(AutoConfigurations.of(
                        DataSourceAutoConfiguration.class,
                        ClusterAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class));
    }

    private static Health health(ApplicationContext context, String part) {
        var contributor = context.getBean("forgeClusterHealthContributor", CompositeHealthContributor.class);
        return ((HealthIndicator) contributor.getContributor(part)).health(true);
    }

    @Test
    void a_node_is_up_and_out_of_service_once_it_drains() {
        runner().run(context -> {
            assertThat(health(context, "node").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "schema").getDetails()).containsEntry("name", "public");
            context.getBean(ClusterLifecycle.Parts.class).node().drain();
            assertThat(health(context, "node").getStatus()).isEqualTo(Status.OUT_OF_SERVICE);
            assertThat(health(context, "node").getDetails()).containsEntry("state", "draining");
        });
    }

    @Test
    void a_cluster_without_a_candidate_says_so() {
        runner().withPropertyValues("forge.cluster.node.roles=worker").run(context -> {
            await().until(() -> health(context, "leadership").getDetails().containsKey("warning"));
            assertThat(health(context, "leadership").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "leadership").getDetails())
                    .containsEntry("warning", "no live scheduler candidate");
        });
    }

    @Test
    void the_endpoint_names_node_leaders_and_counts() {
        runner().run(context -> {
            await().until(() -> context.getBean(Leadership.class).isLeader(Leadership.LOG_COMPACTOR));
            ClusterEndpoint endpoint = context.getBean(ClusterEndpoint.class);
            Map<String, Object> overview = endpoint.cluster();
            assertThat(overview).containsEntry("cluster", "orders").containsEntry("nodes", Map.of("active", 1L));
            assertThat(overview.get("node").toString()).contains("name=first", "state=running", "scheduler");
            assertThat(overview.get("leaders").toString())
                    .contains("role=scheduler", "role=metrics_aggregator", "role=log_compactor", "term=");
            assertThat(endpoint.resource("nodes").toString()).contains("name=first", "status=active");
            assertThat(endpoint.resource("nothing")).isNull();
        });
    }

    @Test
    void the_endpoint_shows_locks_and_orders_a_node_to_drain() {
        runner().run(context -> {
            assertThat(context.getBean(ClusterLocks.class).tryLock("import")).isPresent();
            ClusterEndpoint endpoint = context.getBean(ClusterEndpoint.class);
            assertThat(endpoint.resource("locks").toString()).contains("name=import");
            var node = context.getBean(ClusterLifecycle.Parts.class).node();
            String id = node.id().toString();
            assertThatExceptionOfType(InvalidEndpointRequestException.class)
                    .isThrownBy(() -> endpoint.order(new String[] {"nodes", id}, "flying"));
            assertThat(endpoint.order(new String[] {"nodes", id}, "draining")).isNotNull();
            await().until(() -> health(context, "node").getStatus().equals(Status.OUT_OF_SERVICE));
            assertThat(endpoint.order(new String[] {"nodes", "00000000-0000-0000-0000-000000000000"}, "draining"))
                    .isNull();
        });
    }

    @Test
    void cluster_wide_gauges_exist_only_while_their_node_aggregates() {
        runner().run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            await().until(() ->
                    meters.find("forge.cluster.nodes").tag("status", "active").gauge() != null);
            assertThat(meters.get("forge.cluster.nodes")
                            .tag("status", "active")
                            .gauge()
                            .value())
                    .isEqualTo(1);
            assertThat(meters.get("forge.cluster.leader")
                            .tag("role", "metrics_aggregator")
                            .gauge()
                            .value())
                    .isEqualTo(1);
            assertThat(meters.get("forge.cluster.leader.term")
                            .tag("role", "metrics_aggregator")
                            .gauge()
                            .value())
                    .isPositive();
            context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
            await().until(() -> meters.find("forge.cluster.nodes").gauge() == null);
            assertThat(meters.get("forge.cluster.leader")
                            .tag("role", "metrics_aggregator")
                            .gauge()
                            .value())
                    .isZero();
        });
    }

    @Test
    void a_bean_stands_for_its_own_role_and_hears_of_it() {
        runner().withBean(Reports.class).run(context -> {
            Reports reports = context.getBean(Reports.class);
            await().until(() -> !reports.acquired.isEmpty());
            assertThat(context.getBean(Leadership.class).isLeader("reports")).isTrue();
            assertThat(reports.acquired.get(0).term()).isPositive();
        });
    }

    @LeaderRole("reports")
    static class Reports {
        final List<LeadershipAcquired> acquired = new CopyOnWriteArrayList<>();

        @EventListener(condition = "#event.role == 'reports'")
        void on(LeadershipAcquired event) {
            acquired.add(event);
        }
    }

    @Test
    void listeners_are_called_on_a_thread_that_says_which_node_it_is() {
        runner().withBean(Witness.class).run(context -> {
            Witness witness = context.getBean(Witness.class);
            await().until(() -> !witness.origins.isEmpty());
            UUID id = context.getBean(ClusterLifecycle.Parts.class).node().id();
            assertThat(witness.origins).containsOnly("forge-cluster-events-1 first " + id);
        });
    }

    static class Witness {
        final List<String> origins = new CopyOnWriteArrayList<>();

        @EventListener
        void on(LeadershipAcquired event) {
            origins.add("%s %s %s"
                    .formatted(Thread.currentThread().getName(), MDC.get("forge.node.name"), MDC.get("forge.node.id")));
        }
    }
}
