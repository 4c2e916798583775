// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.springframework.boot.builder.SpringApplicationBuilder;

/** Checks that a node without the role gateway serves only Actuator, at any configured path. */
@ClusterPostgres(migrated = false)
class GatewayTests {

    private static Map<String, Integer> answers(String roles, Map<String, String> properties, String... paths)
            throws IOException, InterruptedException {
        var all = new TreeMap<>(properties);
        try (TestDatabase database = PostgresServer.shared().createEmptyDatabase("gateway")) {
            all.put("server.port", "0");
            all.put("spring.datasource.url", database.url());
            all.put("spring.datasource.username", database.username());
            all.put("spring.datasource.password", database.password());
            all.put("forge.cluster.node.roles", roles);
            String[] arguments = all.entrySet().stream()
                    .map(property -> "--" + property.getKey() + "=" + property.getValue())
                    .toArray(String[]::new);
            try (var context = new SpringApplicationBuilder(SampleApplication.class).run(arguments)) {
                String port = context.getEnvironment().getRequiredProperty("local.server.port");
                var answers = new TreeMap<String, Integer>();
                for (String path : paths) {
                    var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                            .build();
                    answers.put(
                            path,
                            HttpClient.newHttpClient()
                                    .send(request, BodyHandlers.discarding())
                                    .statusCode());
                }
                return answers;
            }
        }
    }

    @Test
    void node_without_the_gateway_role_serves_actuator_only() throws Exception {
        assertThat(answers(
                        "worker",
                        Map.of(),
                        "/orders/00000000-0000-0000-0000-000000000000",
                        "/actuatorx",
                        "/actuator",
                        "/actuator/health/liveness"))
                .containsExactlyInAnyOrderEntriesOf(Map.of(
                        "/orders/00000000-0000-0000-0000-000000000000", 503,
                        "/actuatorx", 503,
                        "/actuator", 200,
                        "/actuator/health/liveness", 200));
    }

    @Test
    void gateway_serves_requests_and_actuator() throws Exception {
        assertThat(answers(
                        "gateway",
                        Map.of(),
                        "/orders/00000000-0000-0000-0000-000000000000",
                        "/actuator/health/liveness"))
                .containsExactlyInAnyOrderEntriesOf(
                        Map.of("/orders/00000000-0000-0000-0000-000000000000", 404, "/actuator/health/liveness", 200));
    }

    @Test
    void actuator_at_the_root_consists_of_its_endpoints_only() throws Exception {
        assertThat(answers(
                        "worker",
                        Map.of("management.endpoints.web.base-path", "/"),
                        "/health/liveness",
                        "/orders/00000000-0000-0000-0000-000000000000"))
                .containsExactlyInAnyOrderEntriesOf(
                        Map.of("/health/liveness", 200, "/orders/00000000-0000-0000-0000-000000000000", 503));
    }

    @Test
    void additional_probe_paths_and_a_servlet_path_are_known() throws Exception {
        assertThat(answers(
                        "worker",
                        Map.of(
                                "management.endpoint.health.probes.add-additional-paths", "true",
                                "spring.mvc.servlet.path", "/api"),
                        "/api/livez",
                        "/api/actuator/health/liveness",
                        "/api/orders/00000000-0000-0000-0000-000000000000"))
                .containsExactlyInAnyOrderEntriesOf(Map.of(
                        "/api/livez", 200,
                        "/api/actuator/health/liveness", 200,
                        "/api/orders/00000000-0000-0000-0000-000000000000", 503));
    }
}
