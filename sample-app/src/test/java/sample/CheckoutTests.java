// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import java.math.BigDecimal;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.resttestclient.autoconfigure.AutoConfigureRestTestClient;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.http.MediaType;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.web.servlet.client.RestTestClient;
import sample.CheckoutController.Started;
import sample.CheckoutController.State;

@SpringBootTest(
        webEnvironment = WebEnvironment.RANDOM_PORT,
        properties = "management.endpoint.health.show-details=never")
@AutoConfigureRestTestClient
@ClusterPostgres(migrated = false)
@DirtiesContext // A cached context would start threads while other classes check for leaked ones.
class CheckoutTests {

    @Autowired
    private RestTestClient http;

    @Autowired
    private JdbcClient jdbc;

    private UUID start() {
        return http.post()
                .uri("/checkouts")
                .contentType(MediaType.APPLICATION_JSON)
                .body(new Checkout("anvil", new BigDecimal("987.65")))
                .exchange()
                .expectStatus()
                .isAccepted()
                .expectBody(Started.class)
                .returnResult()
                .getResponseBody()
                .runId();
    }

    private State state(UUID run) {
        return http.get()
                .uri("/checkouts/{run}", run)
                .exchange()
                .expectStatus()
                .isOk()
                .expectBody(State.class)
                .returnResult()
                .getResponseBody();
    }

    private void awaitApproval(UUID run) {
        await().until(() -> "approve".equals(state(run).awaits()));
    }

    @Test
    void approved_checkout_is_shipped() {
        UUID run = start();
        awaitApproval(run);
        http.post()
                .uri("/checkouts/{run}/approve", run)
                .contentType(MediaType.APPLICATION_JSON)
                .body(Map.of("by", "boss"))
                .exchange()
                .expectStatus()
                .isAccepted();
        await().until(() -> state(run).status().equals("completed"));
        assertThat(state(run).entries()).containsExactly("reserved", "charged", "shipped");
        String timeline = http.get()
                .uri("/actuator/forgecluster/workflows/{run}", run)
                .exchange()
                .expectStatus()
                .isOk()
                .expectBody(String.class)
                .returnResult()
                .getResponseBody();
        assertThat(timeline).contains("\"reserve\"", "\"charge\"", "\"ship\"", "\"completed\"");
        // Values are masked. The amount cannot occur as the seconds of a timestamp.
        assertThat(timeline).doesNotContain("987.65", "boss");
    }

    @Test
    void cancelled_checkout_is_compensated() {
        UUID run = start();
        awaitApproval(run);
        http.delete().uri("/checkouts/{run}", run).exchange().expectStatus().isAccepted();
        await().until(() -> state(run).status().equals("compensated"));
        assertThat(state(run).entries()).containsExactly("reserved", "charged", "refunded", "released");
    }

    @Test
    void stranded_runs_make_the_node_unready_until_they_are_retired() {
        UUID own = start();
        awaitApproval(own);
        for (int i = 0; i < 3; i++) {
            jdbc.sql("""
                    INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, status)
                    SELECT id, id, 'checkout', '0', 'waiting' FROM (SELECT gen_random_uuid() AS id) AS one
                    """).update();
        }
        await().untilAsserted(() -> assertThat(readiness())
                .startsWith("503 ")
                .contains("\"workflows\":false")
                // The response contains neither other hidden details nor counts.
                .doesNotContain("\"node\"", "\"db\"")
                .satisfies(answer -> assertThat(answer.substring(4)).doesNotContainPattern("[0-9]")));
        http.get().uri("/actuator/health/liveness").exchange().expectStatus().isOk();
        jdbc.sql("UPDATE forge_workflow_runs SET status = 'retired_unresumable', resolution_reason = 'gone' WHERE"
                        + " workflow_name = 'checkout' AND workflow_version = '0' AND status NOT IN"
                        + " ('completed','compensated','failed','retired_unresumable','cancelled_by_operator');")
                .update();
        await().untilAsserted(() -> assertThat(readiness()).startsWith("200 ").doesNotContain("workflows"));
        // Runs of the current version continue.
        assertThat(state(own).status()).isEqualTo("waiting");
    }

    private String readiness() {
        var result = http.get().uri("/actuator/health/readiness").exchange().returnResult(String.class);
        return result.getStatus().value() + " " + result.getResponseBody();
    }
}
