// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.ratelimit.RateLimitAutoConfiguration;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.web.WebEndpointHttpMethod;
import org.springframework.boot.autoconfigure.AutoConfigurations;

/** The parameters of the endpoint: few, and the HTTP API has the others. */
@ClusterPostgres
class EndpointParametersTests {

    private final TestDatabase database;

    EndpointParametersTests(TestDatabase database) {
        this.database = database;
    }

    @Test
    void parameters_of_other_resources_are_refused_with_those_of_the_resource() {
        EndpointClient.expose(TestApplications.on(database)).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            assertThat(client.get(Map.of("tag", "a"), "locks").error(400))
                    .isEqualTo("Unknown parameters [tag]. Known: [limit]");
            assertThat(client.get(Map.of("tag", "a", "limit", "1"), "jobs").error(400))
                    .isEqualTo(
                            "Unknown parameters [tag]. Known: [after, limit, name, status]. " + UnknownParameters.API);
            assertThat(client.invoke(
                                    WebEndpointHttpMethod.POST,
                                    Map.of("state", "retry", "payload", "{}"),
                                    "jobs",
                                    new UUID(0, 1).toString())
                            .error(400))
                    .isEqualTo("Unknown parameters [payload]. Known: [reason]. " + UnknownParameters.API);
            assertThat(client.get(Map.of("name", "a"), "locks").error(400))
                    .isEqualTo("Unknown parameters [name]. Known: [limit]");
            assertThat(client.get(Map.of("tagg", "a"), "locks").error(400))
                    .isEqualTo("Unknown parameters [tagg]. Known: [limit]");
            assertThat(client.invoke(
                                    WebEndpointHttpMethod.POST,
                                    Map.of("state", "paused", "limit", "1"),
                                    "crons",
                                    "nightly")
                            .error(400))
                    .isEqualTo("Unknown parameters [limit]. Known: [reason]");
        });
    }

    @Test
    void hidden_values_are_refused_with_the_property_that_shows_them() {
        EndpointClient.expose(TestApplications.on(database)
                        .withConfiguration(AutoConfigurations.of(RateLimitAutoConfiguration.class)))
                .run(context -> assertThat(EndpointClient.of(context)
                                .get(Map.of("after", "a"), "rate-limits")
                                .error(400))
                        .contains("hidden from this user", "management.endpoint.forgecluster.show-values"));
    }
}
