// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.mockito.Mockito.mock;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import dev.forge.cluster.ClusterDisabledException;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.autoconfigure.actuate.ClusterEndpoint;
import dev.forge.cluster.autoconfigure.web.GatewayAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.leader.LeaderRole;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimited;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.startup.StartupCoordinator;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.Workflows;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.slf4j.LoggerFactory;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.annotation.ImportCandidates;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.util.ClassUtils;

/** Applications with {@code forge.cluster.enabled=false}: no DataSource, no PostgreSQL. */
@ExtendWith(OutputCaptureExtension.class)
class DisabledClusterTests {

    private static final ApplicationContextRunner RUNNER = new ApplicationContextRunner()
            .withPropertyValues("forge.cluster.enabled=false")
            .withConfiguration(AutoConfigurations.of(ours()));

    private static Class<?>[] ours() {
        return ImportCandidates.load(
                        org.springframework.boot.autoconfigure.AutoConfiguration.class,
                        DisabledClusterTests.class.getClassLoader())
                .getCandidates()
                .stream()
                .filter(name -> name.startsWith("dev.forge.cluster."))
                .map(name -> ClassUtils.resolveClassName(name, null))
                .toArray(Class<?>[]::new);
    }

    /** Injects every type that the cluster offers. */
    record Service(
            Jobs jobs,
            JobOperations operations,
            Crons crons,
            Daemons daemons,
            Workflows workflows,
            Leadership leadership,
            ClusterLocks locks,
            RateLimiter limiter,
            ClusterStateStore states,
            StartupCoordinator startup) {}

    @Test
    void disabled_application_starts_and_its_calls_are_rejected() {
        RUNNER.withBean(Service.class).run(context -> {
            assertThat(context).hasNotFailed().doesNotHaveBean(ClusterLifecycle.class);
            Service service = context.getBean(Service.class);
            rejects("Jobs.enqueue", () -> service.jobs.enqueue("payload"));
            rejects("Jobs.enqueue", () -> service.jobs.enqueue("payload", JobOptions.defaults()));
            rejects("JobOperations.paused", service.operations::paused);
            rejects("Crons.list", () -> service.crons.list(10));
            rejects("Daemons.pause", () -> service.daemons.pause("feed"));
            rejects("Workflows.start", () -> service.workflows.start("checkout", null));
            rejects("Leadership.fenced", () -> service.leadership.fenced("reports", () -> {}));
            rejects("ClusterLocks.tryLock", () -> service.locks.tryLock("name"));
            rejects(
                    "RateLimiter.tryAcquire",
                    () -> service.limiter.tryAcquire("name", RateLimit.of(1, Duration.ofSeconds(1))));
            rejects("ClusterStateStore.find", () -> service.states.find("key", String.class));
            rejects("StartupCoordinator.tryAcquire", () -> service.startup.tryAcquire("import"));
        });
    }

    @Test
    void startup_action_runs_at_each_start_of_a_disabled_cluster() {
        RUNNER.run(context -> {
            StartupCoordinator startup = context.getBean(StartupCoordinator.class);
            var runs = new AtomicInteger();
            assertThat(startup.once("seed", "1", runs::incrementAndGet)).isTrue();
            assertThat(startup.once("seed", "1", Duration.ofSeconds(1), runs::incrementAndGet))
                    .isTrue();
            assertThat(runs).hasValue(2);
            assertThatIllegalStateException()
                    .isThrownBy(() -> startup.once("seed", "2", () -> {
                        throw new IllegalStateException("no items");
                    }))
                    .withMessage("no items");
        });
    }

    private static void rejects(String call, Runnable code) {
        assertThatExceptionOfType(ClusterDisabledException.class)
                .isThrownBy(code::run)
                .withMessageContaining(call)
                .withMessageContaining("forge.cluster.enabled")
                .withMessageContaining(call.substring(0, call.indexOf('.')) + " bean");
    }

    @Test
    void disabled_node_stands_for_no_election_and_leads_nothing() {
        RUNNER.run(context -> {
            Leadership leadership = context.getBean(Leadership.class);
            leadership.join("reports");
            assertThat(leadership.isLeader("reports")).isFalse();
            assertThat(leadership.term("reports")).isEmpty();
            leadership.leave("reports");
        });
    }

    @Test
    void proxy_of_a_disabled_cluster_has_equals_and_hash_code() {
        RUNNER.run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            assertThat(jobs).hasToString("Jobs (the cluster is disabled (forge.cluster.enabled=false))");
            assertThat(List.of(jobs)).contains(jobs);
            assertThat(jobs.hashCode()).isEqualTo(jobs.hashCode());
            assertThat(jobs).isNotEqualTo(context.getBean(Crons.class));
        });
    }

    @Test
    void disabled_application_can_inject_each_type_that_an_enabled_one_can() {
        List<? extends Class<?>> injectable = Stream.of(ours())
                .flatMap(type -> Stream.of(type.getDeclaredMethods()))
                .filter(method -> method.isAnnotationPresent(Bean.class)
                        && method.isAnnotationPresent(ConditionalOnMissingBean.class))
                .map(Method::getReturnType)
                .filter(type -> type.isInterface() && isPublicApi(type))
                .distinct()
                .toList();
        assertThat(injectable).hasSizeGreaterThanOrEqualTo(10);
        RUNNER.run(context -> {
            injectable.forEach(type -> assertThat(context).hasSingleBean(type));
            assertThat(context.getBean(PayloadCodec.class).write("text")).isEqualTo("\"text\"");
        });
    }

    private static boolean isPublicApi(Class<?> type) {
        String name = type.getPackageName();
        return name.startsWith("dev.forge.cluster")
                && !name.startsWith("dev.forge.cluster.internal")
                && !name.startsWith("dev.forge.cluster.autoconfigure");
    }

    @Test
    void bean_of_the_application_takes_precedence() {
        Jobs own = mock();
        RUNNER.withBean(Jobs.class, () -> own)
                .run(context -> assertThat(context.getBean(Jobs.class)).isSameAs(own));
    }

    @LeaderRole("reports")
    static class Annotated {
        @ClusterJob
        void job() {}

        @ClusterCron("nonsense")
        void cron() {}

        @ClusterDaemon
        void daemon() {}

        @ClusterWorkflow
        void workflow(WorkflowContext context) {}

        @RateLimited(requests = 1, per = "1h")
        public String limited() {
            return "called";
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class ByRole {
        @Bean
        @ConditionalOnClusterRole(NodeRole.WORKER)
        String worker() {
            return "worker";
        }
    }

    @Test
    void annotated_methods_are_neither_run_nor_limited_and_the_log_says_so_once(CapturedOutput output) {
        var logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
        logger.setLevel(Level.INFO);
        try {
            RUNNER.withBean(Annotated.class).withUserConfiguration(ByRole.class).run(context -> {
                assertThat(context).hasNotFailed().doesNotHaveBean("worker");
                Annotated bean = context.getBean(Annotated.class);
                assertThat(List.of(bean.limited(), bean.limited(), bean.limited()))
                        .containsOnly("called");
            });
        } finally {
            logger.setLevel(null);
        }
        assertThat(output.getAll()).containsOnlyOnce("Forge Cluster is disabled (forge.cluster.enabled=false)");
    }

    @Test
    void disabled_web_application_has_no_routes_filters_or_endpoint_of_the_cluster() {
        new WebApplicationContextRunner()
                .withPropertyValues(
                        "forge.cluster.enabled=false",
                        "forge.cluster.web.enabled=true",
                        "forge.cluster.wakeup.type=redis",
                        "forge.cluster.node.mode=nonsense")
                .withConfiguration(AutoConfigurations.of(ours()))
                .withBean(Service.class)
                .run(context -> {
                    assertThat(context).hasNotFailed().doesNotHaveBean(ClusterEndpoint.class);
                    assertThat(context).doesNotHaveBean(GatewayAutoConfiguration.GatewayFilter.class);
                    assertThat(context.getBeanNamesForType(
                                    org.springframework.web.servlet.function.RouterFunction.class))
                            .isEmpty();
                    assertThat(context)
                            .doesNotHaveBean(
                                    org.springframework.security.oauth2.client.web.AuthorizationRequestRepository
                                            .class);
                });
    }
}
