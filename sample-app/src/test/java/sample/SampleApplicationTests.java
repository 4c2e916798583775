package sample;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.ClusterPostgres;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.resttestclient.autoconfigure.AutoConfigureRestTestClient;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.http.MediaType;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.web.servlet.client.RestTestClient;
import sample.OrderController.NewOrder;
import sample.OrderController.Order;

@SpringBootTest(webEnvironment = WebEnvironment.RANDOM_PORT)
@AutoConfigureRestTestClient
@ClusterPostgres(migrated = false)
@DirtiesContext // a cached context would go on starting threads while other classes look for leftovers
class SampleApplicationTests {

    @Autowired
    private RestTestClient http;

    @Autowired
    private JdbcClient jdbc;

    @Test
    void an_order_is_stored_and_found_again() {
        Order created = http.post()
                .uri("/orders")
                .contentType(MediaType.APPLICATION_JSON)
                .body(new NewOrder("anvil", 2))
                .exchange()
                .expectStatus()
                .isCreated()
                .expectBody(Order.class)
                .returnResult()
                .getResponseBody();
        assertThat(created.item()).isEqualTo("anvil");
        http.get()
                .uri("/orders/{id}", created.id())
                .exchange()
                .expectStatus()
                .isOk()
                .expectBody(Order.class)
                .isEqualTo(created);
        http.get()
                .uri("/orders/{id}", "00000000-0000-0000-0000-000000000000")
                .exchange()
                .expectStatus()
                .isNotFound();
    }

    @Test
    void the_application_is_a_node_and_ready() {
        http.get().uri("/actuator/health/readiness").exchange().expectStatus().isOk();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_nodes WHERE status = 'active'")
                        .query(Long.class)
                        .single())
                .isOne();
    }
}
