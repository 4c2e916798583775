// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.Workflows;
import java.math.BigDecimal;
import java.net.CookieManager;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.context.annotation.Bean;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.core.userdetails.MapReactiveUserDetailsService;
import org.springframework.security.core.userdetails.ReactiveUserDetailsService;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.crypto.bcrypt.BCryptPasswordEncoder;
import org.springframework.security.crypto.password.PasswordEncoder;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.test.annotation.DirtiesContext;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The dashboard in a WebFlux application with Spring Security, on a real server. */
@ClusterPostgres
@SpringBootTest(
        classes = ReactiveApplicationTests.Application.class,
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = {
            "spring.application.name=orders",
            "spring.main.web-application-type=reactive",
            "spring.webflux.base-path=/shop",
            "management.endpoints.web.exposure.include=forgecluster",
            "management.endpoint.forgecluster.show-values=when-authorized",
            "management.endpoint.forgecluster.roles=ADMIN",
            "forge.cluster.operations.authorities.view=ROLE_ADMIN,ROLE_VIEWER"
        })
@DirtiesContext
class ReactiveApplicationTests {

    private static final JsonMapper JSON = JsonMapper.builder().build();

    @SpringBootConfiguration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Application {

        @ClusterJob(name = "waits")
        void nothing() {}

        @ClusterWorkflow(name = "sleeps")
        void sleep(WorkflowContext wf, Map<String, Object> input) {
            wf.sleep("for long", Duration.ofDays(1));
        }

        @Bean
        SecurityWebFilterChain security(ServerHttpSecurity http) {
            return http.authorizeExchange(exchanges -> exchanges.anyExchange().authenticated())
                    .httpBasic(Customizer.withDefaults())
                    .build();
        }

        /** The cheapest one: each request hashes its password. */
        @Bean
        PasswordEncoder passwordEncoder() {
            return new BCryptPasswordEncoder(4);
        }

        @Bean
        ReactiveUserDetailsService users(PasswordEncoder passwordEncoder) {
            String password = passwordEncoder.encode("pw");
            return new MapReactiveUserDetailsService(
                    User.withUsername("ada").password(password).roles("ADMIN").build(),
                    User.withUsername("vic").password(password).roles("VIEWER").build(),
                    User.withUsername("sam").password(password).roles("USER").build());
        }
    }

    private final HttpClient client =
            HttpClient.newBuilder().cookieHandler(new CookieManager()).build();

    @LocalServerPort
    private int port;

    @Autowired
    private Jobs jobs;

    @Autowired
    private Workflows workflows;

    private HttpRequest.Builder request(String path, String user) {
        return requestTo("/forge/dashboard" + path, user);
    }

    private HttpRequest.Builder requestTo(String path, String user) {
        return HttpRequest.newBuilder(URI.create("http://localhost:%d/shop%s".formatted(port, path)))
                .header(
                        "Authorization",
                        "Basic " + Base64.getEncoder().encodeToString((user + ":pw").getBytes(StandardCharsets.UTF_8)));
    }

    private HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), BodyHandlers.ofString());
    }

    @Test
    void page_files_and_data_are_served_to_users_with_the_permission() throws Exception {
        HttpResponse<String> page = send(request("/", "vic"));
        assertThat(page.statusCode()).isEqualTo(200);
        assertThat(page.body()).contains("<div id=\"app\">");
        assertThat(page.headers().firstValue("Content-Security-Policy").orElseThrow())
                .contains("default-src 'none'");
        assertThat(send(request("/assets/0/app.js", "vic")).statusCode()).isEqualTo(200);
        HttpResponse<String> nodes = send(request("/api/v1/nodes", "vic"));
        assertThat(JSON.readTree(nodes.body()).path("nodes").isArray())
                .as(nodes.body())
                .isTrue();
        assertThat(send(request("/", "sam")).statusCode()).isEqualTo(403);
        assertThat(send(request("/api/v1/nodes", "sam")).statusCode()).isEqualTo(403);
        assertThat(send(request("/api/v1/nodes", "nobody")).statusCode()).isEqualTo(401);
    }

    @Test
    void change_needs_the_token_and_is_recorded_with_user_and_address() throws Exception {
        UUID job = jobs.enqueueNamed("waits", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                .id();
        String body = "{\"id\":\"%s\",\"state\":\"cancelled\",\"reason\":\"duplicate\"}".formatted(job);
        assertThat(send(request("/api/v1/jobs", "ada")
                                .header("Content-Type", "application/json")
                                .POST(BodyPublishers.ofString(body)))
                        .statusCode())
                .isEqualTo(403);
        JsonNode csrf =
                JSON.readTree(send(request("/api/v1/session", "ada")).body()).path("csrf");
        HttpResponse<String> done = send(request("/api/v1/jobs", "ada")
                .header("Content-Type", "application/json")
                .header(csrf.path("header").asString(), csrf.path("token").asString())
                .POST(BodyPublishers.ofString(body)));
        assertThat(done.statusCode()).as(done.body()).isEqualTo(200);
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
        JsonNode entry = JSON.readTree(
                        send(request("/api/v1/audit?target=" + job, "ada")).body())
                .path("entries")
                .path(0);
        assertThat(entry.path("who").asString()).isEqualTo("ada");
        assertThat(entry.path("source").asString()).isEqualTo("dashboard");
        assertThat(entry.path("reason").asString()).isEqualTo("duplicate");
        assertThat(entry.path("address").asString()).isNotBlank();
    }

    @Test
    void exported_history_has_the_values_of_the_table_and_needs_the_permission() throws Exception {
        UUID run = workflows.start("sleeps", Map.of("total", new BigDecimal("0.12345678901234567890123450")));
        String api = "/forge/dashboard/api/v1/workflows/history?id=" + run;
        HttpResponse<String> full = send(requestTo(api + "&values=full", "ada"));
        assertThat(full.body()).contains("\"input\":{\"total\": 0.12345678901234567890123450}");
        assertThat(JSON.readTree(full.body()).path("name").asString()).isEqualTo("sleeps");
        for (String address : List.of(api, "/actuator/forgecluster/workflows/%s/history".formatted(run))) {
            assertThat(send(requestTo(address, "ada")).body()).contains("\"input\":{\"total\": 0}");
            HttpResponse<String> refused = send(requestTo(address, "vic"));
            assertThat(refused.statusCode()).isEqualTo(400);
            assertThat(refused.body()).contains("hidden from this user");
        }
    }
}
