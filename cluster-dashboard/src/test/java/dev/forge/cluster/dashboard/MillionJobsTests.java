// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.context.TestPropertySource;

/** How long the server needs for each response if there are a million jobs. */
@Tag("soak")
@ClusterPostgres
@SpringBootTest(classes = DashboardTestApplication.class, webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT)
@TestPropertySource(properties = DashboardTestApplication.PROPERTIES)
@DirtiesContext
class MillionJobsTests {

    private static final int ROUNDS = 5;
    private static final Duration LIMIT = Duration.ofMillis(300);
    private static final Pattern NEXT = Pattern.compile("\"next\":\"([^\"]+)\"");

    private final HttpClient client = HttpClient.newHttpClient();
    private final JdbcClient jdbc;

    @LocalServerPort
    private int port;

    MillionJobsTests(TestDatabase database) {
        this.jdbc = database.jdbc();
    }

    private UUID insert() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, created_at, scheduled_at, started_at, finished_at, attempts, claim_epoch,
                                        unique_key, job_group, tags, payload, last_error, body_bytes)
                SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000800' || lpad(to_hex(n), 13, '0'))::uuid,
                       'name-' || n % 40, status, at, CASE WHEN status = 'pending' THEN now() + interval '1 day' ELSE at END,
                       CASE WHEN status <> 'pending' THEN at END, CASE WHEN status <> 'pending' THEN at END,
                       CASE WHEN status = 'pending' THEN 0 ELSE 1 END, CASE WHEN status = 'pending' THEN 0 ELSE 1 END,
                       CASE WHEN n % 7 = 0 THEN 'key-' || n END, CASE WHEN n % 5 = 0 THEN 'group-' || n % 1000 END,
                       CASE WHEN n % 10 = 0 THEN ARRAY['tag-' || n % 100] END, '{"orderId": 42}',
                       CASE WHEN status = 'failed' THEN 'java.lang.IllegalStateException: no stock for item ' || n END, 15
                FROM (SELECT n, now() - (1000001 - n) * interval '50 milliseconds' AS at,
                             CASE WHEN n % 10 < 6 THEN 'completed' WHEN n % 10 < 8 THEN 'pending'
                                  WHEN n % 10 = 8 THEN 'failed' ELSE 'cancelled' END AS status
                      FROM generate_series(1, 1000000) AS n) AS jobs
                """).update();
        jdbc.sql("""
                INSERT INTO forge_job_tags (job_id, tag) SELECT id, unnest(tags) FROM forge_jobs WHERE tags IS NOT NULL
                ON CONFLICT DO NOTHING
                """).update();
        jdbc.sql("VACUUM ANALYZE").update();
        return jdbc.sql("SELECT id FROM forge_jobs ORDER BY id OFFSET 500000 LIMIT 1")
                .query(UUID.class)
                .single();
    }

    private record Timed(Duration took, String body) {}

    private Timed time(String address) throws Exception {
        String user = Base64.getEncoder().encodeToString("ada:pw".getBytes(StandardCharsets.UTF_8));
        var request = HttpRequest.newBuilder(
                        URI.create("http://localhost:%d/shop/forge/dashboard/api/v1/%s".formatted(port, address)))
                .header("Authorization", "Basic " + user)
                .build();
        long began = System.nanoTime();
        HttpResponse<String> response = client.send(request, BodyHandlers.ofString());
        Duration took = Duration.ofNanos(System.nanoTime() - began);
        assertThat(response.statusCode()).as("%s: %s", address, response.body()).isEqualTo(200);
        return new Timed(took, response.body());
    }

    /** Measures a list and, if it has one, its second page. */
    private void time(String address, Map<String, Duration> best) throws Exception {
        Timed first = time(address);
        best.merge(address, first.took, MillionJobsTests::shorter);
        Matcher next = NEXT.matcher(first.body);
        if (next.find()) {
            String second = "%s%safter=%s"
                    .formatted(
                            address,
                            address.contains("?") ? "&" : "?",
                            URLEncoder.encode(next.group(1), StandardCharsets.UTF_8));
            best.merge(address + " (second page)", time(second).took, MillionJobsTests::shorter);
        }
    }

    private static Duration shorter(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    @Test
    void every_response_takes_less_than_300_milliseconds() throws Exception {
        UUID job = insert();
        var addresses = new ArrayList<>(List.of(
                "overview",
                "attention",
                "nodes",
                "demand",
                "locks",
                "limits",
                "batches",
                "crons",
                "daemons",
                "workflows"));
        addresses.addAll(
                List.of("workflow-versions", "rate-limits", "audit", "job-names", "history", "history?range=P7D"));
        addresses.addAll(List.of("history?name=name-3", "limits?id=waits", "jobs?id=" + job, "jobs/logs?id=" + job));
        addresses.addAll(List.of("jobs", "jobs?limit=200", "jobs?name=name-3", "jobs?name=none"));
        for (String status : List.of("pending", "running", "completed", "failed", "cancelled", "abandoned")) {
            addresses.add("jobs?status=" + status);
            addresses.add("jobs?name=name-3&status=" + status);
            addresses.add("jobs?name=none&status=" + status);
        }
        addresses.addAll(List.of("jobs?tag=tag-50", "jobs?tag=none", "jobs?group=group-5", "jobs?group=none"));
        addresses.addAll(
                List.of("jobs?key=key-700", "jobs?key=none", "jobs?name=name-3&key=key-3", "jobs?batch=" + job));
        addresses.addAll(
                List.of("jobs?error=item%20999998", "jobs?status=failed&error=none", "jobs?metadata=customer%3D1"));
        addresses.addAll(List.of(
                "jobs?createdFrom=2100-01-01T00:00:00Z",
                "jobs?finishedBefore=2000-01-01T00:00:00Z",
                "jobs?status=failed&finishedFrom=2100-01-01T00:00:00Z"));
        Map<String, Duration> best = new TreeMap<>();
        for (int round = 0; round < ROUNDS; round++) {
            for (String address : addresses) {
                time(address, best);
            }
            // Until then a response may be shared.
            Awaitility.await().pollDelay(Duration.ofMillis(1100)).until(() -> true);
        }
        best.forEach((address, took) -> System.out.printf("%6d ms  %s%n", took.toMillis(), address));
        assertThat(best).allSatisfy((address, took) -> assertThat(took).isLessThan(LIMIT));
    }
}
