// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.resttestclient.autoconfigure.AutoConfigureRestTestClient;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.web.servlet.client.RestTestClient;
import sample.OrderController.Accepted;
import sample.OrderController.NewOrder;
import sample.OrderController.Order;

@SpringBootTest(webEnvironment = WebEnvironment.RANDOM_PORT)
@AutoConfigureRestTestClient
@ClusterPostgres(migrated = false)
@DirtiesContext // A cached context would start threads while other classes check for leaked ones.
class SampleApplicationTests {

    @Autowired
    private RestTestClient http;

    @Autowired
    private JdbcClient jdbc;

    @Test
    void order_is_stored_and_processed_by_its_job_at_the_second_attempt() {
        Accepted accepted = http.post()
                .uri("/orders")
                .contentType(MediaType.APPLICATION_JSON)
                .body(new NewOrder("anvil", 2, 0L, 1))
                .exchange()
                .expectStatus()
                .isAccepted()
                .expectBody(Accepted.class)
                .returnResult()
                .getResponseBody();
        await().untilAsserted(() -> {
            Order order = http.get()
                    .uri("/orders/{id}", accepted.orderId())
                    .exchange()
                    .expectStatus()
                    .isOk()
                    .expectBody(Order.class)
                    .returnResult()
                    .getResponseBody();
            assertThat(order.item()).isEqualTo("anvil");
            assertThat(order.status()).isEqualTo("processed");
            assertThat(order.attempt()).isEqualTo(2);
            assertThat(order.node()).isNotBlank();
        });
        assertThat(jdbc.sql("SELECT status FROM forge_jobs WHERE id = ?")
                        .param(accepted.jobId())
                        .query(String.class)
                        .single())
                .isEqualTo("completed");
        http.get()
                .uri("/orders/{id}", "00000000-0000-0000-0000-000000000000")
                .exchange()
                .expectStatus()
                .isNotFound();
    }

    @Test
    void items_are_seeded_once_and_the_action_is_recorded() {
        assertThat(http.get()
                        .uri("/items")
                        .exchange()
                        .expectStatus()
                        .isOk()
                        .expectBody(Items.Item[].class)
                        .returnResult()
                        .getResponseBody())
                .extracting(Items.Item::name)
                .containsExactly("anvil", "rocket skates");
        assertThat(jdbc.sql("SELECT name || ' ' || version FROM forge_startup_actions")
                        .query(String.class)
                        .list())
                .containsExactly("seed-items 1");
    }

    @Test
    void import_reports_its_progress_and_its_end() {
        List<String> customers = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            customers.add(i == 7 ? "?" : "customer " + i % 4);
        }
        Imports.Accepted accepted = http.post()
                .uri("/imports")
                .contentType(MediaType.APPLICATION_JSON)
                .body(new Imports.NewImport("a.csv", customers))
                .exchange()
                .expectStatus()
                .isAccepted()
                .expectBody(Imports.Accepted.class)
                .returnResult()
                .getResponseBody();
        await().untilAsserted(() -> assertThat(http.get()
                        .uri("/imports/{id}", accepted.importId())
                        .exchange()
                        .expectStatus()
                        .isOk()
                        .expectBody(Imports.Progress.class)
                        .returnResult()
                        .getResponseBody())
                .isEqualTo(new Imports.Progress("a.csv", "FAILED", 60, 59, 1, true)));
        assertThat(jdbc.sql("SELECT count(*) FROM imported_lines WHERE import_id = ?")
                        .param(accepted.importId())
                        .query(Integer.class)
                        .single())
                .isEqualTo(59);
        http.get()
                .uri("/imports/{id}", "00000000-0000-0000-0000-000000000000")
                .exchange()
                .expectStatus()
                .isNotFound();
    }

    @Test
    void views_are_counted_by_a_handler_that_takes_many_jobs() {
        for (int i = 0; i < 30; i++) {
            http.post()
                    .uri("/items/{name}/views", i % 3 == 0 ? "rocket skates" : "anvil")
                    .exchange()
                    .expectStatus()
                    .isAccepted();
        }
        await().untilAsserted(() -> assertThat(jdbc.sql("SELECT name || ' ' || views FROM items ORDER BY name")
                        .query(String.class)
                        .list())
                .containsExactly("anvil 20", "rocket skates 10"));
        assertThat(jdbc.sql("SELECT DISTINCT status || ' ' || attempts FROM forge_jobs WHERE name = 'count-view'")
                        .query(String.class)
                        .list())
                .containsExactly("completed 1");
    }

    @Test
    void application_is_a_node_and_ready() {
        await().untilAsserted(() -> http.get()
                .uri("/actuator/health/readiness")
                .exchange()
                .expectStatus()
                .isOk());
        assertThat(jdbc.sql("SELECT count(*) FROM forge_nodes WHERE status = 'active'")
                        .query(Long.class)
                        .single())
                .isOne();
    }

    @Test
    void denied_request_gets_a_retry_after_header() {
        // Even a slow machine sends requests faster than the bucket refills.
        var denied = http.get().uri("/quote").exchange();
        int admitted = 0;
        while (denied.returnResult().getStatus().is2xxSuccessful()) {
            denied = http.get().uri("/quote").exchange();
            admitted++;
        }
        assertThat(admitted).isGreaterThanOrEqualTo(100);
        String body = denied.expectStatus()
                .isEqualTo(HttpStatus.TOO_MANY_REQUESTS)
                .expectHeader()
                .valueEquals("Retry-After", "1")
                .expectHeader()
                .valueEquals("RateLimit-Limit", "100")
                .expectHeader()
                .valueEquals("RateLimit-Remaining", "0")
                .expectHeader()
                .valueEquals("RateLimit-Policy", "\"quote-controller.quote\";q=100;w=60")
                .expectHeader()
                .contentType(MediaType.APPLICATION_PROBLEM_JSON)
                .expectBody(String.class)
                .returnResult()
                .getResponseBody();
        assertThat(body)
                .contains(
                        "\"status\":429",
                        "\"title\":\"Too Many Requests\"",
                        "At most 100 calls per 1m. Try again in 1 s.");
        // Other rate limits are not affected.
        http.get()
                .uri("/global-quote")
                .exchange()
                .expectStatus()
                .isOk()
                .expectHeader()
                .valueEquals("RateLimit-Remaining", "99");
    }
}
