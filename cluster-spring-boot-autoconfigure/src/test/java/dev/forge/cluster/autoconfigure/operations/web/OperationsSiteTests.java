// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.TestHttp;
import dev.forge.cluster.autoconfigure.TestHttp.Answer;
import dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.http.converter.autoconfigure.HttpMessageConvertersAutoConfiguration;
import org.springframework.boot.jackson.autoconfigure.JacksonAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.security.autoconfigure.SecurityAutoConfiguration;
import org.springframework.boot.security.autoconfigure.web.servlet.SecurityFilterAutoConfiguration;
import org.springframework.boot.security.autoconfigure.web.servlet.ServletWebSecurityAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.boot.tomcat.autoconfigure.servlet.TomcatServletWebServerAutoConfiguration;
import org.springframework.boot.web.server.context.ServerPortInfoApplicationContextInitializer;
import org.springframework.boot.web.server.servlet.context.AnnotationConfigServletWebServerApplicationContext;
import org.springframework.boot.webmvc.autoconfigure.DispatcherServletAutoConfiguration;
import org.springframework.boot.webmvc.autoconfigure.WebMvcAutoConfiguration;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.core.userdetails.UserDetails;
import org.springframework.security.core.userdetails.UserDetailsService;
import org.springframework.security.provisioning.InMemoryUserDetailsManager;
import org.springframework.security.web.SecurityFilterChain;

/** The HTTP API for operators at its own path, without the page of the dashboard. */
@ClusterPostgres
class OperationsSiteTests {

    private final TestDatabase database;

    OperationsSiteTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    static class Work {

        @ClusterJob(name = "send")
        void send(Map<String, String> letter) {}
    }

    @Configuration(proxyBeanMethods = false)
    static class Chain {

        @Bean
        SecurityFilterChain security(HttpSecurity http) {
            return http.authorizeHttpRequests(requests -> requests.anyRequest().authenticated())
                    .httpBasic(Customizer.withDefaults())
                    .build();
        }

        @Bean
        UserDetailsService users() {
            return new InMemoryUserDetailsManager(user("ada", "ADMIN"), user("vic", "VIEWER"), user("sam", "USER"));
        }

        private static UserDetails user(String name, String role) {
            return User.withUsername(name).password("{noop}pw").roles(role).build();
        }
    }

    private WebApplicationContextRunner runner() {
        return new WebApplicationContextRunner(AnnotationConfigServletWebServerApplicationContext::new)
                .withInitializer(new ServerPortInfoApplicationContextInitializer())
                .withPropertyValues(
                        "server.port=0",
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password(),
                        "spring.datasource.hikari.minimum-idle=1",
                        "forge.cluster.operations.authorities.view=ROLE_ADMIN,ROLE_VIEWER")
                .withConfiguration(TestApplications.CLUSTER)
                .withConfiguration(AutoConfigurations.of(
                        DataSourceAutoConfiguration.class,
                        JacksonAutoConfiguration.class,
                        HttpMessageConvertersAutoConfiguration.class,
                        TomcatServletWebServerAutoConfiguration.class,
                        DispatcherServletAutoConfiguration.class,
                        WebMvcAutoConfiguration.class,
                        ClusterOperationsAutoConfiguration.class,
                        OperationsApiAutoConfiguration.class,
                        SitesAutoConfiguration.class))
                .withBean(Work.class);
    }

    private WebApplicationContextRunner secured() {
        return runner().withConfiguration(AutoConfigurations.of(
                        SecurityAutoConfiguration.class,
                        ServletWebSecurityAutoConfiguration.class,
                        SecurityFilterAutoConfiguration.class))
                .withUserConfiguration(Chain.class)
                .withPropertyValues("forge.cluster.operations.enabled=true");
    }

    private static Answer send(
            ApplicationContext context, String method, String path, String body, String user, String... headers) {
        String credentials = Base64.getEncoder().encodeToString((user + ":pw").getBytes(StandardCharsets.UTF_8));
        List<String> all =
                new ArrayList<>(List.of("Authorization", "Basic " + credentials, "Content-Type", "application/json"));
        all.addAll(List.of(headers));
        return TestHttp.to(context)
                .send(
                        method,
                        "/forge/operations/v1/" + path,
                        BodyPublishers.ofString(body),
                        all.toArray(String[]::new));
    }

    private static Answer get(ApplicationContext context, String path, String user) {
        return send(context, "GET", path, "", user);
    }

    /** Returns the headers that a script sends with a change. */
    private static String[] token(ApplicationContext context, String user) {
        Answer session = get(context, "session", user);
        String cookie = session.header("Set-Cookie");
        return new String[] {
            String.valueOf(session.at("csrf", "header")),
            String.valueOf(session.at("csrf", "token")),
            "Cookie",
            cookie.substring(0, cookie.indexOf(';'))
        };
    }

    @Test
    void script_searches_and_changes_many_jobs_with_its_login_and_the_token_of_the_application() {
        secured().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            JobOptions sale = JobOptions.defaults().withTags("sale").withDelay(Duration.ofDays(1));
            List<UUID> tagged = Stream.of("acme", "other")
                    .map(name ->
                            jobs.enqueueNamed("send", Map.of("to", name), sale).id())
                    .toList();
            UUID other = jobs.enqueueNamed("send", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                    .id();
            assertThat((List<?>)
                            get(context, "jobs?tag=sale&status=pending", "ada").at("jobs"))
                    .hasSize(2);
            String change = "{\"state\": \"cancelled\", \"tag\": \"sale\", \"reason\": \"the sale is over\"}";
            assertThat(send(context, "POST", "jobs", change, "ada").status()).isIn(401, 403);
            assertThat(jobs.find(tagged.get(0)).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            Answer changed = send(context, "POST", "jobs", change, "ada", token(context, "ada"));
            assertThat(changed.status()).as(changed.body()).isEqualTo(200);
            assertThat(changed.at("changed")).isEqualTo(2);
            assertThat(tagged)
                    .allSatisfy(job ->
                            assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED));
            assertThat(jobs.find(other).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            assertThat((Map<?, ?>)
                            get(context, "audit?action=jobs.cancel-all", "ada").at("entries", 0))
                    .extracting("who", "source", "address", "reason")
                    .containsExactly("ada", "http", "127.0.0.1", "the sale is over");
        });
    }

    @Test
    void permissions_are_asked_of_spring_security() {
        secured().run(context -> {
            UUID job = context.getBean(Jobs.class)
                    .enqueueNamed(
                            "send", Map.of("to", "4711"), JobOptions.defaults().withDelay(Duration.ofDays(1)))
                    .id();
            assertThat(TestHttp.to(context).get("/forge/operations/v1/jobs").status())
                    .isEqualTo(401);
            assertThat(get(context, "jobs", "sam").at("code")).isEqualTo("forbidden");
            assertThat(get(context, "jobs?id=" + job, "ada").body()).contains("4711");
            assertThat(get(context, "jobs?id=" + job, "vic").at("payload")).isEqualTo("******");
            Answer session = get(context, "session", "vic");
            assertThat(session.at("readOnly")).asString().contains("you lack the permission");
            Answer refused = send(
                    context,
                    "POST",
                    "jobs",
                    "{\"id\": \"%s\", \"state\": \"retry\"}".formatted(job),
                    "vic",
                    token(context, "ada"));
            assertThat(refused.at("code")).isEqualTo("forbidden");
            assertThat(get(context, "nothing", "ada").status()).isEqualTo(404);
        });
    }

    @Test
    void api_is_read_only_and_hides_values_without_spring_security() {
        runner().withClassLoader(new FilteredClassLoader(SecurityFilterChain.class))
                .withPropertyValues("forge.cluster.operations.enabled=true", "forge.cluster.operations.path=/ops")
                .run(context -> {
                    TestHttp http = TestHttp.to(context);
                    UUID job = context.getBean(Jobs.class)
                            .enqueueNamed(
                                    "send",
                                    Map.of("to", "4711"),
                                    JobOptions.defaults().withDelay(Duration.ofDays(1)))
                            .id();
                    assertThat(http.get("/ops/v1/jobs?id=" + job).at("payload")).isEqualTo("******");
                    assertThat(http.get("/ops/v1/audit").status()).isEqualTo(403);
                    String change = "{\"id\": \"%s\", \"state\": \"cancelled\", \"reason\": \"x\"}".formatted(job);
                    assertThat(http.post("/ops/v1/jobs", change).at("code")).isEqualTo("read-only");
                    assertThat(context.getBean(Jobs.class)
                                    .find(job)
                                    .orElseThrow()
                                    .status())
                            .isEqualTo(JobStatus.PENDING);
                });
    }

    @Test
    void api_is_not_served_unless_it_is_enabled() {
        runner().withClassLoader(new FilteredClassLoader(SecurityFilterChain.class))
                .run(context -> {
                    assertThat(context).hasSingleBean(OperationsApi.class).doesNotHaveBean(Site.class);
                    assertThat(TestHttp.to(context)
                                    .get("/forge/operations/v1/session")
                                    .status())
                            .isEqualTo(404);
                });
    }
}
