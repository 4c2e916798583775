// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
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
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.context.TestPropertySource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The API in a servlet application with Spring Security and a database. */
@ClusterPostgres
@SpringBootTest(classes = DashboardTestApplication.class, webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT)
@TestPropertySource(properties = DashboardTestApplication.PROPERTIES)
@DirtiesContext
class DashboardApplicationTests {

    private static final JsonMapper JSON = JsonMapper.builder().build();

    private final HttpClient client =
            HttpClient.newBuilder().cookieHandler(new CookieManager()).build();

    @LocalServerPort
    private int port;

    @Autowired
    private Jobs jobs;

    private HttpRequest.Builder request(String path, String user) {
        var request = HttpRequest.newBuilder(
                        URI.create("http://localhost:%d/shop/forge/dashboard%s".formatted(port, path)))
                .header("X-Requested-With", "XMLHttpRequest");
        return user.isEmpty()
                ? request
                : request.header(
                        "Authorization",
                        "Basic " + Base64.getEncoder().encodeToString((user + ":pw").getBytes(StandardCharsets.UTF_8)));
    }

    private HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), BodyHandlers.ofString());
    }

    private HttpResponse<String> get(String path, String user) throws Exception {
        return send(request(path, user));
    }

    private static JsonNode json(HttpResponse<String> response) {
        assertThat(response.headers().firstValue("Content-Type"))
                .as(response.body())
                .contains("application/json");
        return JSON.readTree(response.body());
    }

    private UUID completed() {
        UUID job = jobs.enqueueNamed(
                        "completes",
                        Map.of("text", "4711"),
                        JobOptions.defaults().withMetadata("customer", "4711"))
                .id();
        await().atMost(Duration.ofMinutes(2))
                .until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
        return job;
    }

    private UUID pending() {
        return jobs.enqueueNamed("waits", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                .id();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "overview",
                "nodes",
                "demand",
                "locks",
                "jobs",
                "limits",
                "batches",
                "crons",
                "daemons",
                "crons?id=new-year",
                "limits?id=waits",
                "jobs?name=completes&status=completed&limit=10",
                "daemons?id=feed"
            })
    void every_resource_is_delivered(String resource) throws Exception {
        HttpResponse<String> response = get("/api/v1/" + resource, "ada");
        assertThat(response.statusCode()).as(response.body()).isEqualTo(200);
        assertThat(json(response).isObject()).isTrue();
        assertThat(response.headers().firstValue("Cache-Control")).contains("no-store");
        assertThat(response.headers().firstValue("Content-Security-Policy").orElseThrow())
                .contains("default-src 'none'");
    }

    @Test
    void values_are_masked_without_the_permission() throws Exception {
        UUID job = completed();
        HttpResponse<String> shown = get("/api/v1/jobs?id=" + job, "ada");
        assertThat(shown.body()).contains("4711");
        HttpResponse<String> masked = get("/api/v1/jobs?id=" + job, "vic");
        assertThat(masked.statusCode()).isEqualTo(200);
        assertThat(masked.body()).contains("******").doesNotContain("4711");
        assertThat(get("/api/v1/jobs/logs?id=" + job, "vic").body()).doesNotContain("line with");
        assertThat(get("/api/v1/jobs?metadata=customer%3D4711", "vic").statusCode())
                .isEqualTo(400);
    }

    @Test
    void user_without_the_permission_gets_json_with_status_403() throws Exception {
        HttpResponse<String> response = get("/api/v1/session", "sam");
        assertThat(response.statusCode()).isEqualTo(403);
        assertThat(json(response).path("code").asString()).isEqualTo("forbidden");
        assertThat(get("/", "sam").statusCode()).isEqualTo(403);
    }

    @Test
    void request_without_a_login_gets_status_401() throws Exception {
        assertThat(get("/api/v1/session", "").statusCode()).isEqualTo(401);
    }

    @Test
    void change_without_the_token_is_refused_by_the_application() throws Exception {
        UUID job = pending();
        String body = "{\"id\":\"%s\",\"state\":\"cancelled\"}".formatted(job);
        HttpResponse<String> refused = send(request("/api/v1/jobs", "ada")
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(body)));
        assertThat(refused.statusCode()).isEqualTo(403);
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void change_with_the_token_of_the_session_is_visible_at_once() throws Exception {
        UUID job = pending();
        JsonNode csrf = json(get("/api/v1/session", "ada")).path("csrf");
        assertThat(json(get("/api/v1/jobs?id=" + job, "ada")).path("status").asString())
                .isEqualTo("pending");
        HttpResponse<String> done = send(request("/api/v1/jobs", "ada")
                .header("Content-Type", "application/json")
                .header(csrf.path("header").asString(), csrf.path("token").asString())
                .POST(BodyPublishers.ofString(
                        "{\"id\":\"%s\",\"state\":\"cancelled\",\"reason\":\"test\"}".formatted(job))));
        assertThat(done.statusCode()).as(done.body()).isEqualTo(200);
        assertThat(json(get("/api/v1/jobs?id=" + job, "ada")).path("status").asString())
                .isEqualTo("cancelled");
    }

    @Test
    void viewer_changes_nothing_even_with_a_token() throws Exception {
        UUID job = pending();
        JsonNode admin = json(get("/api/v1/session", "ada")).path("csrf");
        HttpResponse<String> refused = send(request("/api/v1/jobs", "vic")
                .header("Content-Type", "application/json")
                .header(admin.path("header").asString(), admin.path("token").asString())
                .POST(BodyPublishers.ofString("{\"id\":\"%s\",\"state\":\"cancelled\"}".formatted(job))));
        assertThat(refused.statusCode()).isEqualTo(403);
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void entry_that_does_not_exist_is_not_found() throws Exception {
        assertThat(get("/api/v1/jobs?id=" + UUID.randomUUID(), "ada").statusCode())
                .isEqualTo(404);
        assertThat(get("/api/v1/jobs?id=nonsense", "ada").statusCode()).isEqualTo(400);
        assertThat(get("/api/v1/jobs?limit=x", "ada").statusCode()).isEqualTo(400);
    }

    @Test
    void path_without_a_slash_is_redirected_relatively() throws Exception {
        HttpResponse<String> response = get("", "ada");
        assertThat(response.statusCode()).isEqualTo(302);
        assertThat(response.headers().firstValue("Location")).contains("dashboard/");
    }
}
