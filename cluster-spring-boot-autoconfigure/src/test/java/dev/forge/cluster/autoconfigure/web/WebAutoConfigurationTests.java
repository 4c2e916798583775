// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.TestHttp;
import dev.forge.cluster.autoconfigure.TestHttp.Answer;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.net.http.HttpRequest.BodyPublishers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.availability.AvailabilityChangeEvent;
import org.springframework.boot.availability.ReadinessState;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.data.jpa.autoconfigure.DataJpaRepositoriesAutoConfiguration;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration;
import org.springframework.boot.info.BuildProperties;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Availability of submission over HTTP, depending on the configuration, the web server and the state of the node. */
@ClusterPostgres
@ExtendWith(OutputCaptureExtension.class)
class WebAutoConfigurationTests {

    private static final String TASK = "{\"name\":\"my_task\"}";
    private static final String CALL =
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks.execute\",\"params\":{\"tasks\":[{\"name\":\"my_task\"}]}}";

    private final TestDatabase database;

    WebAutoConfigurationTests(TestDatabase database) {
        this.database = database;
    }

    private ConfigurableApplicationContext start(Class<?> application, String... properties) {
        List<String> all = new ArrayList<>(List.of(properties));
        all.addAll(List.of(
                "server.port=0",
                "spring.datasource.username=" + database.username(),
                "spring.datasource.password=" + database.password(),
                "spring.datasource.hikari.minimum-idle=1",
                WebTestApplication.JOBS));
        if (all.stream().noneMatch(property -> property.startsWith("spring.datasource.url="))) {
            all.add("spring.datasource.url=" + database.url());
        }
        return new SpringApplicationBuilder(application)
                .run(all.stream().map(property -> "--" + property).toArray(String[]::new));
    }

    private ConfigurableApplicationContext enabled(String... properties) {
        List<String> all = new ArrayList<>(List.of(properties));
        all.add("forge.cluster.web.enabled=true");
        return start(WebTestApplication.class, all.toArray(String[]::new));
    }

    @Test
    void routes_are_absent_unless_enabled() {
        try (var context = start(WebTestApplication.class)) {
            TestHttp http = TestHttp.to(context);
            for (String path : List.of("/forge", "/forge/jobs")) {
                assertThat(http.post(path, TASK).status()).isEqualTo(404);
            }
            assertThat(http.get("/_api/health").status()).isEqualTo(404);
            assertThat(http.get("/_api/ready").status()).isEqualTo(404);
        }
    }

    @Test
    void path_is_below_context_path_and_servlet_path() {
        try (var context = enabled(
                "forge.cluster.web.path=/api/v1/work",
                "forge.cluster.web.health-aliases=false",
                "server.servlet.context-path=/shop",
                "spring.mvc.servlet.path=/mvc")) {
            TestHttp http = TestHttp.to(context);
            Answer answer = http.post("/shop/mvc/api/v1/work/jobs", TASK);
            assertThat(answer.header("Location")).isEqualTo("/shop/mvc/api/v1/work/jobs/" + answer.at("id"));
            assertThat(http.get(answer.header("Location")).status()).isEqualTo(200);
            assertThat(http.post("/shop/mvc/api/v1/work", CALL).object()).containsKey("result");
            assertThat(http.post("/shop/mvc/forge/jobs", TASK).status()).isEqualTo(404);
            http.send(
                            "POST",
                            "/shop/mvc/api/v1/work/jobs",
                            BodyPublishers.ofString("broken"),
                            "Content-Type",
                            "multipart/form-data")
                    .problem(415);
            assertThat(http.get("/shop/mvc/_api/health").status()).isEqualTo(404);
        }
    }

    @Test
    void path_may_be_the_root() {
        try (var context = enabled("forge.cluster.web.path=/")) {
            TestHttp http = TestHttp.to(context);
            assertThat(http.post("/jobs", TASK).status()).isEqualTo(202);
            assertThat(http.post("/", CALL).object()).containsKey("result");
        }
    }

    @Test
    void empty_list_of_jobs_fails_the_start() {
        webRunner("forge.cluster.web.enabled=true", "forge.cluster.web.jobs=")
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContainingAll("forge.cluster.web.jobs ()", "forge.cluster.web.enabled (true)"));
    }

    @ParameterizedTest
    @CsvSource({
        "web.path, forge, slash",
        "web.path, /forge/, plain path",
        "web.path, /{x}, plain path",
        "web.jobs, a**, malformed",
        "web.max-request-size, 0B, 64MB",
        "web.max-request-size, 65MB, 64MB"
    })
    void invalid_value_fails_the_start(String key, String value, String why) {
        webRunner("forge.cluster.web.enabled=true", "forge.cluster.web.jobs=a", "forge.cluster." + key + "=" + value)
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContainingAll("forge.cluster." + key + " (", why));
    }

    private WebApplicationContextRunner webRunner(String... properties) {
        return new WebApplicationContextRunner()
                .withPropertyValues(
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password())
                .withPropertyValues(properties)
                .withConfiguration(AutoConfigurations.of(DataSourceAutoConfiguration.class, WebAutoConfiguration.class))
                .withConfiguration(TestApplications.CLUSTER);
    }

    @Test
    void missing_dependency_is_named() {
        String[] properties = {"forge.cluster.web.enabled=true", "forge.cluster.web.jobs=a"};
        webRunner(properties)
                .withClassLoader(new FilteredClassLoader("tools.jackson"))
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContainingAll("forge.cluster.web.enabled (true)", "spring-boot-starter-jackson"));
        webRunner(properties)
                .withClassLoader(new FilteredClassLoader("org.springframework.web.servlet"))
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContainingAll("forge.cluster.web.enabled (true)", "spring-boot-starter-webmvc"));
        webRunner("forge.cluster.web.enabled=false")
                .withClassLoader(new FilteredClassLoader("org.springframework.web.servlet", "tools.jackson"))
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void application_without_a_web_server_starts_with_a_warning(CapturedOutput output) {
        TestApplications.on(database)
                .withPropertyValues("forge.cluster.web.enabled=true", "forge.cluster.web.jobs=a")
                .withConfiguration(AutoConfigurations.of(WebAutoConfiguration.class))
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(output).contains("forge.cluster.web.enabled (true) has no effect here");
                });
    }

    @Test
    void request_without_the_database_gets_status_503() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        TcpProxy network = TcpProxy.to(server.getHost(), server.getPort());
        try (network;
                var context = enabled(
                        "spring.datasource.url="
                                + database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                        "forge.cluster.shutdown.drain-timeout=1s")) {
            TestHttp http = TestHttp.to(context);
            await().untilAsserted(
                            () -> assertThat(http.get("/_api/ready").status()).isEqualTo(200));
            String id = (String) http.post("/forge/jobs", TASK).at("id");
            // Set only now, because a slow machine needs longer to open a connection.
            HikariDataSource pool = context.getBean(HikariDataSource.class);
            pool.setValidationTimeout(250);
            pool.setConnectionTimeout(500);
            network.close();
            for (Answer answer : List.of(
                    http.post("/forge/jobs", TASK),
                    http.post("/forge/jobs", "{\"name\":\"my_task\",\"key\":\"k\"}"),
                    http.get("/forge/jobs/" + id),
                    http.delete("/forge/jobs/" + id))) {
                answer.problem(503);
                assertThat(answer.header("Retry-After")).isEqualTo("5");
            }
            Answer call = http.post("/forge", CALL);
            assertThat(call.status()).isEqualTo(200);
            assertThat(call.at("error", "code")).isEqualTo(-32000);
            await().untilAsserted(
                            () -> assertThat(http.get("/_api/ready").status()).isEqualTo(503));
            assertThat(http.get("/_api/ready").object()).isEqualTo(Map.of("status", "DOWN"));
            assertThat(http.get("/_api/health").status()).isEqualTo(200);
        }
    }

    @Test
    void request_is_refused_at_once_while_the_database_hangs() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        TcpProxy network = TcpProxy.to(server.getHost(), server.getPort());
        try (network;
                var context = enabled(
                        "spring.datasource.url="
                                + database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                        "forge.cluster.shutdown.drain-timeout=1s")) {
            TestHttp http = TestHttp.to(context);
            String id = (String) http.post("/forge/jobs", TASK).at("id");
            network.cut();
            await().untilAsserted(
                            () -> assertThat(http.get("/_api/ready").status()).isEqualTo(503));
            // The pool alone would delay each request for half a minute.
            assertTimeoutPreemptively(Duration.ofMinutes(1), () -> {
                http.post("/forge/jobs", TASK).problem(503);
                http.get("/forge/jobs/" + id).problem(503);
                http.delete("/forge/jobs/" + id).problem(503);
                assertThat(http.post("/forge", CALL).at("error", "code")).isEqualTo(-32000);
            });
            network.heal();
            await().untilAsserted(() ->
                    assertThat(http.post("/forge/jobs", TASK).status()).isEqualTo(202));
        }
    }

    @Test
    void observer_shows_jobs_and_accepts_no_submissions(CapturedOutput output) {
        UUID job;
        try (var context = enabled("forge.cluster.node.roles=function")) {
            job = context.getBean(Jobs.class).enqueueNamed("my_task", null).id();
        }
        try (var context = enabled(
                "forge.cluster.node.mode=observer",
                "forge.cluster.web.visible-jobs=all",
                "logging.level.dev.forge.cluster=info")) {
            assertThat(output)
                    .contains(
                            "HTTP: /forge shows jobs, but accepts no submissions, because forge.cluster.node.mode (observer)")
                    .doesNotContain("accepts submissions");
            TestHttp http = TestHttp.to(context);
            assertThat(http.post("/forge/jobs", TASK).problem(503)).contains("observer");
            assertThat(http.post("/forge", CALL).at("error", "code")).isEqualTo(-32000);
            assertThat(http.get("/forge/jobs/" + job).at("status")).isEqualTo("pending");
            assertThat(http.delete("/forge/jobs/" + job).problem(503)).contains("observer");
        }
    }

    @Test
    void node_without_the_gateway_role_responds_to_probes_only() {
        try (var context = enabled("forge.cluster.node.roles=worker,function")) {
            TestHttp http = TestHttp.to(context);
            Answer refused = http.post("/forge/jobs", TASK);
            assertThat(refused.status()).isEqualTo(503);
            assertThat(refused.body()).contains("gateway");
            assertThat(http.get("/_api/health").status()).isEqualTo(200);
            await().untilAsserted(
                            () -> assertThat(http.get("/_api/ready").status()).isEqualTo(200));
        }
    }

    @Test
    void health_aliases_follow_node_and_application_without_actuator() {
        try (var context = enabled()) {
            TestHttp http = TestHttp.to(context);
            assertThat(http.get("/_api/health").object())
                    .isEqualTo(Map.of("status", "UP", "version", ClusterLifecycle.version()));
            await().untilAsserted(
                            () -> assertThat(http.get("/_api/ready").object()).isEqualTo(Map.of("status", "UP")));
            context.getBean(NodeRuntime.class).node().drain();
            Answer draining = http.get("/_api/ready");
            assertThat(draining.status()).isEqualTo(503);
            assertThat(draining.object()).isEqualTo(Map.of("status", "OUT_OF_SERVICE"));
            assertThat(http.get("/_api/health").status()).isEqualTo(200);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration(
            exclude = {HibernateJpaAutoConfiguration.class, DataJpaRepositoriesAutoConfiguration.class})
    static class WithActuator extends WebTestApplication {

        private final AtomicBoolean broken = new AtomicBoolean();

        @Bean
        HealthIndicator shopHealthIndicator() {
            return () -> (broken.get() ? Health.down() : Health.up())
                    .withDetail("orders", 42)
                    .build();
        }

        @Bean
        BuildProperties buildProperties() {
            var build = new Properties();
            build.setProperty("version", "7.1");
            return new BuildProperties(build);
        }
    }

    @Test
    void health_aliases_return_the_readiness_group_of_actuator() {
        try (var context = start(
                WithActuator.class,
                "forge.cluster.web.enabled=true",
                "spring.flyway.enabled=false",
                "spring.liquibase.enabled=false",
                "spring.autoconfigure.exclude="
                        + "org.springframework.boot.security.autoconfigure.web.servlet.ServletWebSecurityAutoConfiguration,"
                        + "org.springframework.boot.security.autoconfigure.web.servlet.SecurityFilterAutoConfiguration,"
                        + "org.springframework.boot.security.autoconfigure.actuate.web.servlet.ManagementWebSecurityAutoConfiguration",
                "management.endpoint.health.group.readiness.include=readinessState,forgeCluster,shop")) {
            TestHttp http = TestHttp.to(context);
            assertThat(http.get("/_api/health").object()).isEqualTo(Map.of("status", "UP", "version", "7.1"));
            await().untilAsserted(
                            () -> assertThat(http.get("/_api/ready").object()).isEqualTo(Map.of("status", "UP")));
            assertThat(http.post("/forge/jobs", TASK).status()).isEqualTo(202);
            WithActuator application = context.getBean(WithActuator.class);
            application.broken.set(true);
            Answer broken = http.get("/_api/ready");
            assertThat(broken.status()).isEqualTo(503);
            assertThat(broken.object()).isEqualTo(Map.of("status", "DOWN"));
            application.broken.set(false);
            await().untilAsserted(
                            () -> assertThat(http.get("/_api/ready").status()).isEqualTo(200));
            AvailabilityChangeEvent.publish(context, ReadinessState.REFUSING_TRAFFIC);
            assertThat(http.get("/_api/ready").object()).isEqualTo(Map.of("status", "OUT_OF_SERVICE"));
            assertThat(http.get("/_api/health").status()).isEqualTo(200);
        }
    }
}
