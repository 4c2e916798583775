// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.daemon;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.EndpointClient;
import dev.forge.cluster.autoconfigure.handler.ClusterHintsTests;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetrics;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.daemon.DaemonEngine;
import dev.forge.cluster.internal.daemon.DaemonHandler;
import dev.forge.cluster.internal.daemon.DaemonHandlers;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.LeaderRole;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.slf4j.MDC;
import org.springframework.aop.support.AopUtils;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import org.springframework.boot.LazyInitializationBeanFactoryPostProcessor;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

/** Daemons on all kinds of beans of real applications, and the endpoint and meters for operators. */
@ClusterPostgres
class DaemonDiscoveryTests {

    private final TestDatabase database;

    DaemonDiscoveryTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        return TestApplications.whole(database).withPropertyValues("forge.cluster.node.name=first");
    }

    // Attributes --------------------------------------------------------------------------------------------

    static class Feeds {
        final List<String> ran = new CopyOnWriteArrayList<>();

        @ClusterDaemon
        void priceFeed(DaemonContext daemon) throws InterruptedException {
            ran.add(daemon.name() + " " + daemon.nodeName() + " " + MDC.get("forge.daemon.name"));
            daemon.note("reading");
            daemon.awaitStop(Duration.ofMinutes(1));
        }

        @ClusterDaemon(
                name = "${feeds.name}",
                instancesString = "${feeds.count}",
                restartDelay = "${feeds.delay}",
                startupDelay = "2s",
                maxRestartsString = "${feeds.most}",
                role = NodeRole.GATEWAY,
                capability = "${feeds.capability}",
                restartOnReturn = true)
        void configured() {}

        @ClusterDaemon(scope = DaemonScope.NODE)
        void everywhere() {}
    }

    @Test
    void attributes_support_placeholders_and_default_to_properties() {
        runner().withBean(Feeds.class)
                .withPropertyValues(
                        "feeds.name=rates",
                        "feeds.count=3",
                        "feeds.delay=7s",
                        "feeds.most=4",
                        "feeds.capability=fast",
                        "forge.cluster.daemon.restart-delay=9s",
                        "forge.cluster.daemon.startup-delay=10ms",
                        "forge.cluster.daemon.max-restarts=8")
                .run(context -> {
                    Map<String, DaemonHandler> handlers = context.getBean(DaemonHandlers.class).all().stream()
                            .collect(Collectors.toMap(DaemonHandler::name, h -> h));
                    assertThat(handlers).containsOnlyKeys("price-feed", "rates", "everywhere");
                    DaemonHandler rates = handlers.get("rates");
                    assertThat(rates.instances()).isEqualTo(3);
                    assertThat(rates.needs())
                            .isEqualTo(new DaemonHandler.Needs(NodeRole.GATEWAY, "fast", Duration.ofSeconds(2)));
                    assertThat(rates.restarts()).isEqualTo(new DaemonHandler.Restarts(Duration.ofSeconds(7), 4, true));
                    DaemonHandler feed = handlers.get("price-feed");
                    assertThat(feed.scope()).isEqualTo(DaemonScope.CLUSTER);
                    assertThat(feed.instances()).isEqualTo(1);
                    assertThat(feed.needs())
                            .isEqualTo(new DaemonHandler.Needs(NodeRole.WORKER, null, Duration.ofMillis(10)));
                    assertThat(feed.restarts()).isEqualTo(new DaemonHandler.Restarts(Duration.ofSeconds(9), 8, false));
                    assertThat(handlers.get("everywhere").scope()).isEqualTo(DaemonScope.NODE);
                    Feeds feeds = context.getBean(Feeds.class);
                    await().until(() -> !feeds.ran.isEmpty());
                    assertThat(feeds.ran).containsOnly("price-feed first price-feed");
                    // A daemon that needs a capability which this node lacks is not registered.
                    assertThat(context.getBean(DaemonEngine.class).names()).containsExactly("everywhere", "price-feed");
                    assertThat(database.jdbc()
                                    .sql("SELECT unnest(handlers) FROM forge_nodes ORDER BY 1")
                                    .query(String.class)
                                    .list())
                            .containsExactly("daemon:everywhere", "daemon:price-feed");
                    // Names of daemons are not names of jobs.
                    assertThatExceptionOfType(JobRejectedException.class)
                            .isThrownBy(() -> context.getBean(Jobs.class).enqueueNamed("daemon:price-feed", null))
                            .withMessageContaining("names that begin with daemon: are those of daemons");
                    assertThatExceptionOfType(JobRejectedException.class)
                            .isThrownBy(() -> context.getBean(Jobs.class).enqueueNamed("price-feed", null))
                            .withMessageContaining("Registered jobs: []");
                });
    }

    @Test
    void restarts_have_no_limit_by_default() {
        runner().withBean(Single.class)
                .run(context -> assertThat(context.getBean(DaemonHandlers.class).all())
                        .singleElement()
                        .satisfies(handler -> {
                            assertThat(handler.restarts())
                                    .isEqualTo(new DaemonHandler.Restarts(Duration.ofSeconds(5), null, false));
                            assertThat(handler.needs().up()).isZero();
                        }));
    }

    static class Single {
        final AtomicInteger running = new AtomicInteger();

        @ClusterDaemon
        void single(DaemonContext daemon) throws InterruptedException {
            running.incrementAndGet();
            try {
                daemon.note("card 4711");
                daemon.awaitStop(Duration.ofMinutes(10));
            } finally {
                running.decrementAndGet();
            }
        }
    }

    static class Rival {
        @ClusterDaemon(name = "single")
        void other() {}
    }

    @Test
    void two_daemons_of_one_name_fail_the_start_naming_both() {
        runner().withBean(Single.class)
                .withBean(Rival.class)
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContaining("'single'")
                        .hasMessageContaining(Single.class.getName() + ".single")
                        .hasMessageContaining(Rival.class.getName() + ".other"));
    }

    static class TakesText {
        @ClusterDaemon
        void impossible(String text) {}
    }

    static class TakesTwo {
        @ClusterDaemon
        void impossible(DaemonContext one, DaemonContext two) {}
    }

    static class Private {
        @ClusterDaemon
        @SuppressWarnings("UnusedMethod")
        private void impossible() {}
    }

    static class Static {
        @ClusterDaemon
        static void impossible() {}
    }

    static class NoNumber {
        @ClusterDaemon(instancesString = "${some}")
        void impossible() {}
    }

    static class NoInstance {
        @ClusterDaemon(instances = 0)
        void impossible() {}
    }

    static class TooManyInstances {
        @ClusterDaemon(instances = 1001)
        void impossible() {}
    }

    static class ManyEverywhere {
        @ClusterDaemon(scope = DaemonScope.NODE, instances = 2)
        void impossible() {}
    }

    static class NoDelay {
        @ClusterDaemon(restartDelay = "0s")
        void impossible() {}
    }

    static class NoDuration {
        @ClusterDaemon(startupDelay = "soon")
        void impossible() {}
    }

    static class NegativeRestarts {
        @ClusterDaemon(maxRestartsString = "-1")
        void impossible() {}
    }

    static class NoPlaceholder {
        @ClusterDaemon(capability = "${nobody.knows}")
        void impossible() {}
    }

    static class TwoLines {
        @ClusterDaemon(name = "feed\nforged")
        void impossible() {}
    }

    static class Numbered {
        @ClusterDaemon(name = "feed#1")
        void impossible() {}
    }

    static class InOneTransaction {
        @ClusterDaemon
        @Transactional
        public void impossible() {}
    }

    @Transactional
    static class OfTransactionalClass {
        @ClusterDaemon
        public void impossible() {}
    }

    static Stream<Arguments> impossible() {
        return Stream.of(
                Arguments.of(InOneTransaction.class, "it is @Transactional"),
                Arguments.of(OfTransactionalClass.class, "it is @Transactional"),
                Arguments.of(TakesText.class, "java.lang.String"),
                Arguments.of(TakesTwo.class, "DaemonContext"),
                Arguments.of(Private.class, "private"),
                Arguments.of(Static.class, "static"),
                Arguments.of(NoNumber.class, "instances (many): is not a number"),
                Arguments.of(NoInstance.class, "instances (0): must be at least 1"),
                Arguments.of(TooManyInstances.class, "instances (1001): must be at most 1000"),
                Arguments.of(ManyEverywhere.class, "instances (2): a daemon of scope NODE"),
                Arguments.of(NoDelay.class, "restartDelay (0s): must be longer than zero"),
                Arguments.of(NoDuration.class, "startupDelay (soon): is not a duration such as 500ms, 30s"),
                Arguments.of(NegativeRestarts.class, "maxRestarts (-1): must be at least 0"),
                Arguments.of(NoPlaceholder.class, "nobody.knows"),
                Arguments.of(TwoLines.class, "name 'feed?forged' holds a control character (U+000A at position 4)"),
                Arguments.of(Numbered.class, "name (feed#1)"));
    }

    @ParameterizedTest
    @MethodSource("impossible")
    void invalid_daemon_fails_the_start_naming_its_method(Class<?> bean, String reason) {
        runner().withPropertyValues("some=many")
                .withBean(bean)
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContaining("@ClusterDaemon on " + bean.getName() + ".impossible")
                        .hasMessageContaining(reason));
    }

    @LeaderRole("daemon:feed")
    static class Usurper {}

    @Test
    void leader_role_must_not_have_the_name_of_a_daemon_role() {
        runner().withBean(Usurper.class)
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContaining("@LeaderRole(\"daemon:feed\")")
                        .hasMessageContaining("names that begin with daemon:"));
    }

    // Beans -------------------------------------------------------------------------------------------------

    static class Prices {
        private final JdbcClient jdbc;

        Prices(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @Transactional
        void unrelated() {}

        @ClusterDaemon
        void write(DaemonContext daemon) throws InterruptedException {
            daemon.fenced(() -> jdbc.sql("INSERT INTO prices VALUES (?)")
                    .param(daemon.term())
                    .update());
            daemon.awaitStop(Duration.ofMinutes(1));
        }
    }

    @Test
    void job_behind_a_data_source_proxy_joins_the_applications_transaction() {
        database.jdbc().sql("CREATE TABLE IF NOT EXISTS prices (term bigint)").update();
        runner().withBean(Prices.class).run(context -> {
            assertThat(AopUtils.isCglibProxy(context.getBean(Prices.class))).isTrue();
            await().until(() -> !database.jdbc()
                    .sql("SELECT term FROM prices")
                    .query(Long.class)
                    .list()
                    .isEmpty());
        });
        database.jdbc().sql("DROP TABLE prices").update();
    }

    interface Runs {
        void run(DaemonContext daemon);

        void unrelated();
    }

    static class OnInterface implements Runs {
        static final AtomicInteger CALLS = new AtomicInteger();

        @Override
        @Transactional(propagation = Propagation.NOT_SUPPORTED)
        @ClusterDaemon(name = "on-interface")
        public void run(DaemonContext daemon) {
            CALLS.incrementAndGet();
        }

        @Override
        @Transactional
        public void unrelated() {}
    }

    @Test
    void hints_contain_the_interface_method_of_a_jdk_proxy() {
        OnInterface.CALLS.set(0);
        runner().withPropertyValues("spring.aop.proxy-target-class=false")
                .withBean("runs", Runs.class, OnInterface::new)
                .run(context -> await().until(() -> OnInterface.CALLS.get() > 0
                        && context.getBean(Daemons.class)
                                .find("on-interface")
                                .map(info -> info.instances().get(0).status() == DaemonStatus.STOPPED)
                                .orElse(false)));
    }

    @Configuration(proxyBeanMethods = false)
    static class LazyConfiguration {
        @Bean
        @Lazy
        Single lazySingle() {
            return new Single();
        }
    }

    @Test
    void all_beans_may_be_lazy() {
        runner().withUserConfiguration(LazyConfiguration.class)
                .withBean(
                        LazyInitializationBeanFactoryPostProcessor.class,
                        LazyInitializationBeanFactoryPostProcessor::new)
                .run(context -> await().until(
                                () -> context.getBean(Single.class).running.get() == 1));
    }

    @Test
    void hints_contain_the_methods_of_daemons() throws Exception {
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Single.class.getDeclaredMethod("single", DaemonContext.class)))
                .accepts(ClusterHintsTests.hintsOf(Single.class));
        RuntimeHints proxied = ClusterHintsTests.hintsOf(OnInterface.class);
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Runs.class.getMethod("run", DaemonContext.class)))
                .accepts(proxied);
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Single.class.getDeclaredMethod("single", DaemonContext.class)))
                .rejects(proxied);
    }

    // Operators ---------------------------------------------------------------------------------------------

    @Test
    void endpoint_lists_pauses_and_resumes_daemons() {
        runner().withBean(Single.class)
                .withPropertyValues("management.endpoint.forgecluster.show-values=always")
                .withBean(
                        SanitizingFunction.class,
                        () -> data -> data.getKey().equals("note")
                                ? data.withValue(String.valueOf(data.getValue()).replaceAll("\\d", "*"))
                                : data)
                .run(context -> {
                    EndpointClient client = EndpointClient.of(context);
                    Single single = context.getBean(Single.class);
                    await().until(() -> single.running.get() == 1
                            && client.get("daemons", "single").status() == 200);
                    // A paused machine may have lost the term; then the daemon starts again.
                    await().untilAsserted(() -> {
                        EndpointClient.Response daemon = client.get("daemons", "single");
                        assertThat(daemon.at("instances", 0, "status")).isEqualTo("running");
                        assertThat(daemon.at("instances", 0, "note")).isEqualTo("card ****");
                        assertThat(daemon.at("name")).isEqualTo("single");
                        assertThat(daemon.at("scope")).isEqualTo("cluster");
                        assertThat(daemon.at("paused")).isEqualTo(false);
                        assertThat(daemon.at("candidates")).isEqualTo(List.of("first"));
                        assertThat(daemon.at("instances", 0, "instance")).isEqualTo(0);
                        assertThat(daemon.at("instances", 0, "nodeName")).isEqualTo("first");
                        assertThat(daemon.at("instances", 0, "restarts")).isEqualTo(0);
                        assertThat(daemon.at("instances", 0, "term")).isInstanceOf(Integer.class);
                        assertThat(client.get().at("daemons")).isEqualTo(Map.of("running", 1));
                    });
                    // The roles of daemons are not listed as leaderships.
                    await().untilAsserted(() -> assertThat(client.get().list("leaders"))
                            .extracting(leader -> String.valueOf(((Map<?, ?>) leader).get("role")))
                            .contains(Leadership.SCHEDULER)
                            .noneMatch(role -> role.startsWith("daemon:")));

                    assertThat(client.post("paused", "daemons", "single").body())
                            .isEqualTo(Map.of("name", "single", "state", "paused"));
                    await().until(() -> single.running.get() == 0);
                    assertThat(client.get("daemons", "single").at("paused")).isEqualTo(true);
                    Map<String, String> running = Map.of("name", "single", "state", "running");
                    assertThat(client.post("running", "daemons", "single").body())
                            .isEqualTo(running);
                    await().until(() -> single.running.get() == 1);
                    // Resuming is idempotent.
                    assertThat(client.post("running", "daemons", "single").body())
                            .isEqualTo(running);

                    assertThat(client.get("daemons", "nobody").status()).isEqualTo(404);
                    for (String state : List.of("paused", "running")) {
                        assertThat(client.post(state, "daemons", "nobody").status())
                                .isEqualTo(404);
                    }
                    assertThat(client.post("flying", "daemons", "single").error(400))
                            .contains("'flying'", "use 'paused' or 'running'");
                });
    }

    static class Broken {
        @ClusterDaemon(maxRestarts = 0)
        void broken() {
            throw new IllegalStateException("secret");
        }
    }

    @Test
    void error_of_a_daemon_is_masked_by_default() {
        runner().withBean(Broken.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            // The row is written after the start of the node.
            await().until(() -> client.get("daemons", "broken").status() == 200);
            await().untilAsserted(() -> {
                EndpointClient.Response daemon = client.get("daemons", "broken");
                assertThat(daemon.at("instances", 0, "status")).isEqualTo("failed");
                assertThat(daemon.at("instances", 0, "error")).isEqualTo("******");
            });
            assertThat(context.getBean(Daemons.class)
                            .find("broken")
                            .map(DaemonInfo::instances)
                            .orElseThrow()
                            .get(0)
                            .lastError())
                    .contains("secret");
        });
    }

    @Test
    void node_without_the_required_role_may_not_pause_or_resume_daemons() {
        runner().withBean(Single.class)
                .withPropertyValues("forge.cluster.node.roles=worker")
                .run(context -> {
                    Daemons daemons = context.getBean(Daemons.class);
                    await().until(() -> !daemons.list().isEmpty());
                    assertThatExceptionOfType(MutationRefusedException.class)
                            .isThrownBy(() -> daemons.resume("single"));
                    assertThat(EndpointClient.of(context)
                                    .post("paused", "daemons", "single")
                                    .status())
                            .isEqualTo(400);
                });
    }

    @Test
    void metrics_aggregator_counts_daemons_by_status() {
        runner().withBean(Single.class).run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            Single single = context.getBean(Single.class);
            Daemons daemons = context.getBean(Daemons.class);
            await().until(() -> meters.find("forge.cluster.nodes").gauge() != null
                    && single.running.get() == 1
                    && daemons.find("single").stream()
                            .flatMap(info -> info.instances().stream())
                            .anyMatch(instance -> instance.status() == DaemonStatus.RUNNING));
            // Repeated, because a paused machine may have lost the role or the term.
            await().until(() -> {
                context.getBean(ClusterMetrics.class).countDaemons();
                Gauge running = meters.find("forge.cluster.daemons")
                        .tag("daemon", "single")
                        .tag("status", "running")
                        .gauge();
                return running != null && running.value() == 1;
            });
            assertThat(meters.find("forge.cluster.leader").gauges())
                    .noneMatch(gauge ->
                            String.valueOf(gauge.getId().getTag("role")).contains("daemon"));
            context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
            await().until(() -> meters.find("forge.cluster.daemons").gauge() == null);
        });
    }
}
