// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.env.YamlPropertySourceLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.PropertySource;
import org.springframework.core.io.ByteArrayResource;

/** Verifies the configurations and the matrix of docs/reference/deployment.md. */
@ClusterPostgres
class DeploymentTests {

    private final TestDatabase database;

    DeploymentTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database).withPropertyValues("spring.datasource.hikari.maximum-pool-size=2");
    }

    static Stream<Arguments> documents() throws IOException {
        String page = Files.readString(Path.of("../docs/reference/deployment.md"));
        Matcher block = Pattern.compile("```yaml\\n# ([a-z-]+)\\n(.*?)```", Pattern.DOTALL)
                .matcher(page);
        var documents = new ArrayList<Arguments>();
        while (block.find()) {
            documents.add(Arguments.of(block.group(1), block.group(2)));
        }
        return documents.stream();
    }

    @Test
    void page_shows_every_topology() throws IOException {
        assertThat(documents().map(arguments -> arguments.get()[0]))
                .containsExactly(
                        "ha-pair",
                        "api",
                        "worker",
                        "scheduler",
                        "gpu-worker",
                        "media-worker",
                        "leader",
                        "scaled-worker",
                        "observer",
                        "green");
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("documents")
    void each_document_of_the_page_starts(String name, String yaml) throws IOException {
        List<PropertySource<?>> sources =
                new YamlPropertySourceLoader().load(name, new ByteArrayResource(yaml.getBytes(StandardCharsets.UTF_8)));
        runner().withInitializer(
                        context -> sources.forEach(context.getEnvironment().getPropertySources()::addLast))
                .run(context -> assertThat(context).hasNotFailed());
    }

    /** Returns the combinations of mode and role in the matrix of the page. */
    static Stream<Arguments> nodes() {
        return Stream.of(NodeMode.values())
                .flatMap(mode -> Stream.of(NodeRole.values())
                        .filter(role -> mode != NodeMode.LEADER || role == NodeRole.SCHEDULER)
                        .map(role -> Arguments.of(mode, role)));
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("nodes")
    void mode_and_roles_determine_the_duties_of_a_node(NodeMode mode, NodeRole role) {
        runner().withUserConfiguration(RoleBeans.class)
                .withPropertyValues("forge.cluster.node.mode=" + mode, "forge.cluster.node.roles=" + role)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    // Every node registers and sends heartbeats. An observer has no role but gateway.
                    boolean shown = mode != NodeMode.OBSERVER || role == NodeRole.GATEWAY;
                    assertThat(database.jdbc()
                                    .sql("SELECT array_to_string(roles, ',') FROM forge_nodes WHERE status = 'active'")
                                    .query(String.class)
                                    .single())
                            .isEqualTo(shown ? role.name().toLowerCase(Locale.ROOT) : "");
                    // Schedulers in mode auto and leader are candidates.
                    boolean candidate =
                            role == NodeRole.SCHEDULER && (mode == NodeMode.AUTO || mode == NodeMode.LEADER);
                    Leadership leadership = context.getBean(Leadership.class);
                    if (candidate) {
                        await().until(() -> leadership.isLeader(Leadership.SCHEDULER));
                    } else {
                        await().during(Duration.ofMillis(600)).until(() -> !leadership.isLeader(Leadership.SCHEDULER));
                    }
                    // Nodes with the role function may change the cluster, except observers.
                    boolean mutates = role == NodeRole.FUNCTION && mode != NodeMode.OBSERVER;
                    try {
                        context.getBean(ClusterLocks.class).tryLock("matrix").ifPresent(lock -> lock.close());
                        assertThat(mutates).isTrue();
                    } catch (MutationRefusedException e) {
                        assertThat(mutates).isFalse();
                    }
                    // Beans can depend on the role.
                    assertThat(context.containsBean("workerOnly")).isEqualTo(role == NodeRole.WORKER);
                });
    }

    @Configuration(proxyBeanMethods = false)
    static class RoleBeans {
        @Bean
        @ConditionalOnClusterRole(NodeRole.WORKER)
        String workerOnly() {
            return "worker";
        }
    }
}
