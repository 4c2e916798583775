// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.resttestclient.autoconfigure.AutoConfigureRestTestClient;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.http.MediaType;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.web.servlet.client.RestTestClient;

@SpringBootTest(webEnvironment = WebEnvironment.RANDOM_PORT)
@AutoConfigureRestTestClient
@ClusterPostgres(migrated = false)
@DirtiesContext // A cached context would start threads while other classes check for leaked ones.
class BadInputTests {

    @Autowired
    private RestTestClient http;

    @Autowired
    private JdbcClient jdbc;

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', textBlock = """
            /imports   | {}                                               | file is missing
            /imports   | {"file": " ", "customers": ["a"]}                | file is missing
            /imports   | {"file": "a.csv"}                                | customers is empty
            /imports   | {"file": "a.csv", "customers": []}               | customers is empty
            /imports   | {"file": "a.csv", "customers": ["a", null]}      | a customer is missing
            /imports   | {"file": "a.csv", "customers": ["a\\u0000"]}     | a customer contains a control character
            /imports   | {"file": "a.csv", "customers": "a"}              | Failed to read request
            /imports   | {                                                | Failed to read request
            /checkouts | {}                                               | item is missing
            /checkouts | {"item": "anvil"}                                | amount must be greater than 0
            /checkouts | {"item": "anvil", "amount": -1}                  | amount must be greater than 0
            /checkouts | {"item": "anvil", "amount": 1e1000000}           | amount must be greater than 0
            /checkouts | {"item": "anvil", "amount": "much"}              | Failed to read request
            /orders    | {"quantity": 1}                                  | item is missing
            /orders    | {"item": "anvil", "quantity": 0}                 | quantity must be greater than 0
            """)
    void bad_input_gets_the_reason(String path, String body, String reason) {
        String problem = http.post()
                .uri(path)
                .contentType(MediaType.APPLICATION_JSON)
                .body(body)
                .exchange()
                .expectStatus()
                .isBadRequest()
                .expectBody(String.class)
                .returnResult()
                .getResponseBody();
        assertThat(problem).contains(reason);
    }

    @Test
    void overlong_text_is_not_stored() {
        http.post()
                .uri("/orders")
                .contentType(MediaType.APPLICATION_JSON)
                .body("{\"item\": \"%s\", \"quantity\": 1}".formatted("a".repeat(1_000)))
                .exchange()
                .expectStatus()
                .isBadRequest();
        assertThat(jdbc.sql("SELECT count(*) FROM orders").query(Long.class).single())
                .isZero();
    }
}
