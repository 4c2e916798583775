// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.lang.reflect.Method;
import java.lang.reflect.Parameter;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.web.WebEndpointHttpMethod;
import org.springframework.boot.autoconfigure.AutoConfigurations;

/** The parameters of the endpoint are those of the resources. */
@ClusterPostgres
class EndpointParametersTests {

    private final TestDatabase database;

    EndpointParametersTests(TestDatabase database) {
        this.database = database;
    }

    private static Set<String> ofMethod(String name) {
        Method method = Stream.of(ClusterEndpoint.class.getMethods())
                .filter(candidate -> candidate.getName().equals(name))
                .findFirst()
                .orElseThrow();
        var parameters = new TreeSet<String>();
        Stream.of(method.getParameters()).map(Parameter::getName).forEach(parameters::add);
        parameters.removeAll(List.of("user", "path", "state"));
        return parameters;
    }

    private static Set<String> ofResources(
            ClusterOperations operations, Function<List<String>, Optional<Set<String>>> parameters) {
        var all = new TreeSet<String>();
        for (String resource : operations.resources()) {
            parameters.apply(List.of(resource)).ifPresent(all::addAll);
            parameters.apply(List.of(resource, "entry")).ifPresent(all::addAll);
        }
        return all;
    }

    @Test
    void endpoint_has_the_parameters_of_all_resources() {
        EndpointClient.expose(TestApplications.on(database)
                        .withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class)))
                .run(context -> {
                    var operations = context.getBean(ClusterOperations.class);
                    assertThat(ofMethod("resource")).isEqualTo(ofResources(operations, operations::readParameters));
                    assertThat(ofMethod("changeState"))
                            .isEqualTo(ofResources(operations, operations::changeParameters));
                });
    }

    @Test
    void parameters_of_other_resources_are_refused_with_those_of_the_resource() {
        EndpointClient.expose(TestApplications.on(database)).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            assertThat(client.get(Map.of("tag", "a"), "locks").error(400))
                    .isEqualTo("Unknown parameters [tag]. Known: [limit]");
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
        EndpointClient.expose(TestApplications.on(database))
                .run(context -> assertThat(EndpointClient.of(context)
                                .get(Map.of("key", "a"), "jobs")
                                .error(400))
                        .contains("hidden from this user", "management.endpoint.forgecluster.show-values"));
    }
}
