// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestHttp;
import dev.forge.cluster.autoconfigure.TestHttp.Answer;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.security.autoconfigure.SecurityAutoConfiguration;
import org.springframework.boot.security.autoconfigure.web.servlet.SecurityFilterAutoConfiguration;
import org.springframework.boot.security.autoconfigure.web.servlet.ServletWebSecurityAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.core.userdetails.UserDetailsService;
import org.springframework.security.crypto.bcrypt.BCryptPasswordEncoder;
import org.springframework.security.crypto.password.PasswordEncoder;
import org.springframework.security.provisioning.InMemoryUserDetailsManager;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.test.annotation.DirtiesContext;

/** Access to the routes under the security chain of the application. */
@ClusterPostgres
@SpringBootTest(
        classes = {WebTestApplication.class, WebSecurityTests.Chain.class},
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = {
            "forge.cluster.web.enabled=true",
            "forge.cluster.node.roles=gateway,function",
            WebTestApplication.JOBS
        })
@DirtiesContext
class WebSecurityTests {

    private static final String REQUEST = """
            {"jsonrpc":"2.0","id":1,"method":"tasks.execute","params":{"tasks":[{"name":"my_task"}]}}""";

    private final TestDatabase database;
    private final TestHttp http;

    @Autowired
    private Jobs jobs;

    private UUID job;

    /** The security chain of docs/reference/http.md. */
    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration({
        SecurityAutoConfiguration.class,
        ServletWebSecurityAutoConfiguration.class,
        SecurityFilterAutoConfiguration.class
    })
    static class Chain {

        @Bean
        SecurityFilterChain security(HttpSecurity http) {
            return http.authorizeHttpRequests(requests -> requests.requestMatchers("/forge", "/forge/**")
                            .hasRole("SUBMITTER")
                            .requestMatchers("/_api/health")
                            .permitAll()
                            .anyRequest()
                            .denyAll())
                    .httpBasic(Customizer.withDefaults())
                    .csrf(csrf -> csrf.ignoringRequestMatchers("/forge", "/forge/jobs", "/forge/jobs/**"))
                    .build();
        }

        /** The cheapest one: each request hashes its password. */
        @Bean
        PasswordEncoder passwordEncoder() {
            return new BCryptPasswordEncoder(4);
        }

        @Bean
        UserDetailsService users(PasswordEncoder passwordEncoder) {
            String password = passwordEncoder.encode("pw");
            return new InMemoryUserDetailsManager(
                    User.withUsername("machine")
                            .password(password)
                            .roles("SUBMITTER")
                            .build(),
                    User.withUsername("other")
                            .password(password)
                            .roles("SUBMITTER")
                            .build(),
                    // A user of this name is not the anonymous client.
                    User.withUsername("anonymous")
                            .password(password)
                            .roles("SUBMITTER")
                            .build(),
                    User.withUsername("guest").password(password).roles("USER").build());
        }
    }

    WebSecurityTests(TestDatabase database, @LocalServerPort int port) {
        this.database = database;
        this.http = new TestHttp(port);
    }

    @BeforeEach
    void enqueue() {
        job = jobs.enqueueNamed("my_task", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                .id();
    }

    private long count() {
        return database.jdbc()
                .sql("SELECT count(*) FROM forge_jobs")
                .query(Long.class)
                .single();
    }

    private Answer send(String method, String path, String body, String user) {
        String credentials = Base64.getEncoder().encodeToString((user + ":pw").getBytes(StandardCharsets.UTF_8));
        return http.send(
                method,
                path.replace("{id}", job.toString()),
                body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body),
                "Content-Type",
                "application/json",
                "Authorization",
                "Basic " + credentials);
    }

    @ParameterizedTest
    @CsvSource({
        "POST, /forge",
        "GET, /forge",
        "POST, /forge/jobs",
        "GET, /forge/jobs",
        "GET, /forge/jobs/{id}",
        "HEAD, /forge/jobs/{id}",
        "DELETE, /forge/jobs/{id}",
        "OPTIONS, /forge/jobs",
        "GET, /forge/jobs/nonsense",
        "GET, /_api/ready"
    })
    void request_denied_by_the_filter_chain_reaches_no_route(String method, String path) {
        long before = count();
        for (String body : new String[] {REQUEST, "{\"name\":\"my_task\"}", "nonsense"}) {
            assertThat(send(method, path, body, "nobody").status()).isEqualTo(401);
            assertThat(send(method, path, body, "guest").status()).isEqualTo(403);
        }
        // The security chain comes before the check of the content type.
        assertThat(http.send(
                                method,
                                path.replace("{id}", job.toString()),
                                BodyPublishers.ofString("--x--\r\n"),
                                "Content-Type",
                                "multipart/form-data;boundary=x")
                        .status())
                .isEqualTo(401);
        assertThat(count()).isEqualTo(before);
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void permitted_client_may_submit_show_and_cancel_jobs() {
        job = UUID.fromString((String)
                send("POST", "/forge/jobs", "{\"name\":\"my_task\"}", "machine").at("id"));
        assertThat(send("POST", "/forge", REQUEST, "machine").at("result", "tasks"))
                .asString()
                .contains("jobId");
        assertThat(send("GET", "/forge/jobs/{id}", null, "machine").status()).isEqualTo(200);
        assertThat(send("DELETE", "/forge/jobs/{id}", null, "machine").status()).isEqualTo(200);
        assertThat(database.jdbc()
                        .sql("SELECT who || ' ' || source || ' ' || action FROM forge_audit WHERE target = ?")
                        .param(job.toString())
                        .query(String.class)
                        .list())
                .containsExactly("machine http job.cancel");
        assertThat(http.get("/_api/health").status()).isEqualTo(200);
    }

    @Test
    void key_of_one_principal_never_meets_that_of_another() {
        String body = "{\"name\":\"my_task\",\"key\":\"k\"}";
        Object machine = send("POST", "/forge/jobs", body, "machine").at("id");
        Object other = send("POST", "/forge/jobs", body, "other").at("id");
        assertThat(other).isNotEqualTo(machine);
        assertThat(send("POST", "/forge/jobs", body, "machine").at("id")).isEqualTo(machine);
        String task = REQUEST.replace("{\"name\"", "{\"id\":\"k\",\"name\"");
        assertThat(send("POST", "/forge", task, "machine").at("result", "tasks", 0, "jobId"))
                .isEqualTo(machine);
        assertThat(send("POST", "/forge", task, "other").at("result", "tasks", 0, "jobId"))
                .isEqualTo(other);
    }

    @Test
    void job_of_another_principal_is_neither_readable_nor_cancellable() {
        job = UUID.fromString((String)
                send("POST", "/forge/jobs", "{\"name\":\"my_task\"}", "machine").at("id"));
        String unknown = http.send(
                        "GET",
                        "/forge/jobs/" + UUID.randomUUID(),
                        BodyPublishers.noBody(),
                        "Authorization",
                        "Basic " + Base64.getEncoder().encodeToString("other:pw".getBytes(StandardCharsets.UTF_8)))
                .body();
        for (String user : new String[] {"other", "anonymous"}) {
            assertThat(send("GET", "/forge/jobs/{id}", null, user).status()).isEqualTo(404);
            assertThat(send("GET", "/forge/jobs/{id}", null, user).body()).isEqualTo(unknown);
            assertThat(send("DELETE", "/forge/jobs/{id}", null, user).body()).isEqualTo(unknown);
        }
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        assertThat(jobs.find(job).orElseThrow().metadata()).containsEntry("forge.http.principal", "user:machine");
        assertThat(send("GET", "/forge/jobs/{id}", null, "machine").status()).isEqualTo(200);
    }
}
