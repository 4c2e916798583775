// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package deploy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import deploy.DeployFiles.Compose;
import deploy.KedaObjects.V1ScaledObject;
import deploy.KedaObjects.V1TriggerAuthentication;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1Container;
import io.kubernetes.client.openapi.models.V1ContainerPort;
import io.kubernetes.client.openapi.models.V1Deployment;
import io.kubernetes.client.openapi.models.V1EnvVar;
import io.kubernetes.client.openapi.models.V1LabelSelector;
import io.kubernetes.client.openapi.models.V1PodDisruptionBudget;
import io.kubernetes.client.openapi.models.V1PodSpec;
import io.kubernetes.client.openapi.models.V1Probe;
import io.kubernetes.client.openapi.models.V1Secret;
import io.kubernetes.client.openapi.models.V1Service;
import io.kubernetes.client.openapi.models.V1StatefulSet;
import io.kubernetes.client.openapi.models.V2HorizontalPodAutoscaler;
import io.kubernetes.client.openapi.models.V2HorizontalPodAutoscalerSpec;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.context.LifecycleProperties;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.boot.env.YamlPropertySourceLoader;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.EnumerablePropertySource;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.env.PropertySource;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.env.SystemEnvironmentPropertySource;
import org.springframework.core.io.ByteArrayResource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.util.unit.DataSize;
import sample.SampleApplication;

/** Checks deploy/ and its documentation page against the schemas of Kubernetes and against the sample. */
@ClusterPostgres(migrated = false)
class DeployTests {

    private static final String APP = "orders";
    private static final String POSTGRES = "orders-postgres";

    /** The longest time to leave after the drain: session, loops, workers and the node's row each have a limit. */
    private static final Duration LEAVING = Duration.ofSeconds(20);

    /** The time a node tries to migrate before its start fails; see docs/reference/deployment.md, "Migrations under load". */
    private static final Duration MIGRATING = Duration.ofMinutes(5);

    /** The variables of the PostgreSQL image. */
    private static final Set<String> POSTGRES_VARIABLES =
            Set.of("POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD", "PGDATA");

    private static V1Deployment deployment() throws IOException {
        return DeployFiles.only(DeployFiles.manifests(), V1Deployment.class, APP);
    }

    private static V1PodSpec pod() throws IOException {
        return pod(deployment());
    }

    private static V1PodSpec pod(V1Deployment deployment) {
        return deployment.getSpec().getTemplate().getSpec();
    }

    private static V1Container container() throws IOException {
        return container(deployment());
    }

    private static V1Container container(V1Deployment deployment) {
        assertThat(pod(deployment).getContainers()).hasSize(1);
        return pod(deployment).getContainers().get(0);
    }

    /** Returns the container of the Deployment, with one change in its manifest. */
    private static V1Container changed(String right, String wrong) throws IOException {
        String good = Files.readString(DeployFiles.KUBERNETES.resolve("deployment.yaml"));
        assertThat(good).contains(right);
        return container(DeployFiles.only(DeployFiles.manifests(good.replace(right, wrong)), V1Deployment.class, APP));
    }

    /** Returns the application.yaml in the ConfigMap, as Spring Boot reads it. */
    private static EnumerablePropertySource<?> configuration() throws IOException {
        V1ConfigMap map = DeployFiles.only(DeployFiles.manifests(), V1ConfigMap.class, APP);
        assertThat(map.getData()).containsOnlyKeys("application.yaml");
        List<PropertySource<?>> sources = new YamlPropertySourceLoader()
                .load(
                        "ConfigMap",
                        new ByteArrayResource(
                                map.getData().get("application.yaml").getBytes(StandardCharsets.UTF_8)));
        assertThat(sources).hasSize(1);
        return (EnumerablePropertySource<?>) sources.get(0);
    }

    private static Compose compose() throws IOException {
        return DeployFiles.compose(Files.readString(DeployFiles.COMPOSE));
    }

    @Test
    void every_manifest_matches_the_schema_of_its_kind() throws IOException {
        assertThat(DeployFiles.manifests().stream()
                        .map(one -> one.getClass().getSimpleName().substring(2))
                        .distinct())
                .containsExactlyInAnyOrder(
                        "ConfigMap",
                        "Deployment",
                        "HorizontalPodAutoscaler",
                        "PodDisruptionBudget",
                        "ScaledObject",
                        "Secret",
                        "Service",
                        "StatefulSet",
                        "TriggerAuthentication");
        // The tests read every YAML file in deploy/.
        assertThat(DeployFiles.yamlFiles())
                .allMatch(file -> file.startsWith(DeployFiles.KUBERNETES) || file.equals(DeployFiles.COMPOSE))
                .contains(DeployFiles.COMPOSE);
    }

    @Test
    void faulty_manifests_are_refused() throws IOException {
        String good = Files.readString(DeployFiles.KUBERNETES.resolve("deployment.yaml"));
        DeployFiles.manifests(good);
        Map.of(
                        "terminationGracePeriodSeconds", "terminationGracePeriod",
                        "readinessProbe", "readynessProbe",
                        "containerPort: 8080", "containerPort: \"8080\"",
                        "maxSkew: 1", "maxSkew: one",
                        "replicas: 3", "replicas: 3\n  replicas: 3",
                        "whenUnsatisfiable: ScheduleAnyway", "")
                .forEach((right, wrong) -> {
                    assertThat(good).contains(right);
                    assertThatThrownBy(() -> DeployFiles.manifests(good.replace(right, wrong)))
                            .as(wrong)
                            .isInstanceOf(RuntimeException.class);
                });
        assertThatIllegalArgumentException()
                .isThrownBy(() -> DeployFiles.manifests(good.replace("apps/v1", "extensions/v1beta1")));
        String keda = Files.readString(DeployFiles.KUBERNETES.resolve("autoscaling/keda.yaml"));
        DeployFiles.manifests(keda);
        Map.of("pollingInterval", "polingInterval", "maxReplicaCount: 5", "maxReplicaCount: many")
                .forEach((right, wrong) -> {
                    assertThat(keda).contains(right);
                    assertThatThrownBy(() -> DeployFiles.manifests(keda.replace(right, wrong)))
                            .as(wrong)
                            .isInstanceOf(RuntimeException.class);
                });
        String compose = Files.readString(DeployFiles.COMPOSE);
        DeployFiles.compose(compose);
        assertThatThrownBy(() -> DeployFiles.compose(compose.replace("depends_on", "dependson")))
                .hasMessageContaining("dependson");
    }

    @Test
    void every_property_key_exists() throws IOException {
        PropertyKeys keys = PropertyKeys.ofClassPath();
        assertThat(configuration().getPropertyNames()).isNotEmpty();
        assertThat(keys.unknown(List.of(configuration().getPropertyNames()))).isEmpty();
        assertThat(keys.unknownVariables(names(container().getEnv()))).isEmpty();
        compose().services().forEach((name, service) -> {
            Set<String> variables = service.environment().keySet();
            assertThat(name.equals("postgres") ? without(variables) : keys.unknownVariables(variables))
                    .as(name)
                    .isEmpty();
        });
        V1StatefulSet postgres = DeployFiles.only(DeployFiles.manifests(), V1StatefulSet.class, POSTGRES);
        for (V1Container one : postgres.getSpec().getTemplate().getSpec().getContainers()) {
            assertThat(without(names(one.getEnv()))).isEmpty();
        }
    }

    private static List<String> without(Collection<String> variables) {
        return variables.stream()
                .filter(one -> !POSTGRES_VARIABLES.contains(one))
                .toList();
    }

    private static List<String> names(List<V1EnvVar> variables) {
        return variables.stream().map(V1EnvVar::getName).toList();
    }

    @Test
    void misspelt_keys_are_found() throws IOException {
        PropertyKeys keys = PropertyKeys.ofClassPath();
        assertThat(keys.unknown(List.of(
                        "forge.cluster.shutdown.drain-timeout",
                        "forge.cluster.shutdown.drain-timeot",
                        "forge.cluster.node.info.colour",
                        "spring.datasource.ulr")))
                .containsExactly("forge.cluster.shutdown.drain-timeot", "spring.datasource.ulr");
        assertThat(keys.unknownVariables(List.of(
                        "FORGE_CLUSTER_NODE_NAME",
                        "FORGE_CLUSTER_NODENAME",
                        "FORGE_CLUSTER_SHUTDOWN_DRAINTIMEOUT",
                        "SPRING_DATASOURCE_PASSWORT")))
                .containsExactly("FORGE_CLUSTER_NODENAME", "SPRING_DATASOURCE_PASSWORT");
    }

    @Test
    void names_and_ports_fit_together() throws IOException {
        List<Object> manifests = DeployFiles.manifests();
        V1Deployment deployment = deployment();
        V1Container container = container();
        Map<String, String> labels =
                deployment.getSpec().getTemplate().getMetadata().getLabels();

        // Selectors match the pods of the application, and no others.
        V1Service service = DeployFiles.only(manifests, V1Service.class, APP);
        V1LabelSelector budget = DeployFiles.only(manifests, V1PodDisruptionBudget.class, APP)
                .getSpec()
                .getSelector();
        V1StatefulSet postgres = DeployFiles.only(manifests, V1StatefulSet.class, POSTGRES);
        Map<String, String> postgresLabels =
                postgres.getSpec().getTemplate().getMetadata().getLabels();
        Stream.of(
                        deployment.getSpec().getSelector().getMatchLabels(),
                        service.getSpec().getSelector(),
                        budget.getMatchLabels())
                .forEach(selector -> {
                    assertThat(labels).containsAllEntriesOf(selector);
                    assertThat(postgresLabels.entrySet()).doesNotContainAnyElementsOf(selector.entrySet());
                });
        pod().getTopologySpreadConstraints()
                .forEach(spread -> assertThat(labels)
                        .containsAllEntriesOf(spread.getLabelSelector().getMatchLabels()));
        V1Service postgresService =
                DeployFiles.only(manifests, V1Service.class, postgres.getSpec().getServiceName());
        assertThat(postgresLabels)
                .containsAllEntriesOf(postgresService.getSpec().getSelector())
                .containsAllEntriesOf(postgres.getSpec().getSelector().getMatchLabels());

        // Ports.
        Map<String, Integer> ports = container.getPorts().stream()
                .collect(Collectors.toMap(port -> port.getName(), port -> port.getContainerPort()));
        assertThat(ports)
                .containsExactly(Map.entry("http", (Integer) configuration().getProperty("server.port")));
        assertThat(service.getSpec().getPorts())
                .allMatch(port -> ports.containsKey(port.getTargetPort().getStrValue()));
        requireProbes(container);

        // Configuration and credentials.
        assertThat(pod().getVolumes())
                .anyMatch(volume -> volume.getConfigMap() != null
                        && APP.equals(volume.getConfigMap().getName())
                        && container.getVolumeMounts().stream()
                                .anyMatch(mount -> mount.getName().equals(volume.getName())
                                        && "/application/config".equals(mount.getMountPath())));
        assertThat(Files.readString(DeployFiles.ROOT.resolve("deploy/Dockerfile")))
                .contains("WORKDIR /application\n");
        Stream.concat(
                        container.getEnv().stream(),
                        postgres.getSpec().getTemplate().getSpec().getContainers().get(0).getEnv().stream())
                .filter(variable -> variable.getValueFrom() != null)
                .map(variable -> variable.getValueFrom().getSecretKeyRef())
                .filter(Objects::nonNull)
                .forEach(reference -> {
                    try {
                        assertThat(DeployFiles.only(manifests, V1Secret.class, reference.getName())
                                        .getStringData())
                                .containsKey(reference.getKey());
                    } catch (IllegalArgumentException e) {
                        throw new AssertionError("Secret " + reference.getName(), e);
                    }
                });
        String database = postgres.getSpec().getTemplate().getSpec().getContainers().get(0).getEnv().stream()
                .filter(variable -> variable.getName().equals("POSTGRES_DB"))
                .map(V1EnvVar::getValue)
                .findFirst()
                .orElseThrow();
        assertThat(configuration().getProperty("spring.datasource.url"))
                .isEqualTo("jdbc:postgresql://%s:%d/%s"
                        .formatted(
                                POSTGRES,
                                postgresService.getSpec().getPorts().get(0).getPort(),
                                database));
        compose().services().forEach((name, one) -> {
            if (!name.equals("postgres")) {
                assertThat(one.image()).isEqualTo(container.getImage());
                assertThat(one.environment())
                        .containsEntry(
                                "SPRING_DATASOURCE_URL",
                                "jdbc:postgresql://postgres:5432/"
                                        + composeOf("postgres").get("POSTGRES_DB"))
                        .containsEntry(
                                "SPRING_DATASOURCE_USERNAME",
                                composeOf("postgres").get("POSTGRES_USER"))
                        .containsEntry(
                                "SPRING_DATASOURCE_PASSWORD",
                                composeOf("postgres").get("POSTGRES_PASSWORD"));
                assertThat(one.ports()).allMatch(port -> port.endsWith(":" + ports.get("http")));
                assertThat(one.depends_on()).containsOnlyKeys("postgres");
                assertThat(DeployFiles.COMPOSE
                                .resolveSibling(one.build().context())
                                .resolve(one.build().dockerfile()))
                        .isRegularFile();
            }
        });
        assertThat(compose().services()).containsOnlyKeys("postgres", "node-1", "node-2");
    }

    private static Map<String, String> composeOf(String service) {
        try {
            return compose().services().get(service).environment();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void autoscalers_fit_the_deployment_and_the_database() throws IOException {
        List<Object> manifests = DeployFiles.manifests();
        V2HorizontalPodAutoscalerSpec hpa = DeployFiles.only(manifests, V2HorizontalPodAutoscaler.class, APP)
                .getSpec();
        V1ScaledObject keda = DeployFiles.only(manifests, V1ScaledObject.class, APP);
        assertThat(hpa.getScaleTargetRef().getName())
                .isEqualTo(keda.spec().scaleTargetRef().name())
                .isEqualTo(deployment().getMetadata().getName());
        assertThat(hpa.getMinReplicas()).isEqualTo(keda.spec().minReplicaCount());
        assertThat(hpa.getMaxReplicas()).isEqualTo(keda.spec().maxReplicaCount());
        assertThat(keda.spec().fallback().replicas())
                .isBetween(keda.spec().minReplicaCount(), keda.spec().maxReplicaCount());
        requireConnections(hpa.getMaxReplicas());

        // A pod that stops must not be replaced while its jobs still run.
        assertThat(hpa.getBehavior().getScaleDown().getStabilizationWindowSeconds())
                .isEqualTo(keda.spec()
                        .advanced()
                        .horizontalPodAutoscalerConfig()
                        .behavior()
                        .scaleDown()
                        .stabilizationWindowSeconds())
                .isGreaterThan(pod().getTerminationGracePeriodSeconds().intValue());
        assertThat(hpa.getMetrics().get(0).getExternal().getMetric().getName())
                .isEqualTo("forge.cluster.executor.slots.needed".replace('.', '_'));
        assertThat(DeployFiles.only(manifests, V1Service.class, APP)
                        .getSpec()
                        .getPorts()
                        .get(0)
                        .getPort())
                .as("the port of http://orders")
                .isEqualTo(80);
        V1TriggerAuthentication login = DeployFiles.only(
                manifests,
                V1TriggerAuthentication.class,
                keda.spec().triggers().get(0).authenticationRef().name());
        assertThat(login.spec().secretTargetRef())
                .extracting(KedaObjects.SecretTarget::parameter)
                .containsExactly("username", "password");
    }

    /** Asserts that the endpoint has the value that KEDA looks for. */
    private static void requireDemand(String port) throws IOException, InterruptedException {
        Map<String, String> trigger = DeployFiles.only(DeployFiles.manifests(), V1ScaledObject.class, APP)
                .spec()
                .triggers()
                .get(0)
                .metadata();
        URI url = URI.create(trigger.get("url"));
        assertThat(url.getHost()).isEqualTo(APP);
        String body = HttpClient.newHttpClient()
                .send(
                        HttpRequest.newBuilder(URI.create("http://localhost:" + port + url.getPath()))
                                .timeout(Duration.ofSeconds(30))
                                .build(),
                        BodyHandlers.ofString())
                .body();
        JsonElement value = JsonParser.parseString(body);
        for (String name : trigger.get("valueLocation").split("\\.", -1)) {
            assertThat(value.getAsJsonObject().has(name))
                    .as("%s in %s", name, body)
                    .isTrue();
            value = value.getAsJsonObject().get(name);
        }
        assertThat(value.getAsJsonPrimitive().isNumber()).isTrue();
    }

    private static List<V1Probe> probes(V1Container container) {
        return List.of(container.getStartupProbe(), container.getReadinessProbe(), container.getLivenessProbe());
    }

    /** Asserts that each probe uses a port that the container names, and the matching health path. */
    private static void requireProbes(V1Container container) {
        List<String> ports =
                container.getPorts().stream().map(V1ContainerPort::getName).toList();
        assertThat(probes(container))
                .allSatisfy(probe -> assertThat(ports)
                        .as("ports of the container")
                        .contains(probe.getHttpGet().getPort().toString()));
        // If liveness included readiness, an unreachable database would restart all pods.
        assertThat(container.getReadinessProbe().getHttpGet().getPath()).endsWith("/readiness");
        assertThat(container.getLivenessProbe().getHttpGet().getPath()).endsWith("/liveness");
        assertThat(container.getStartupProbe().getHttpGet().getPath()).endsWith("/liveness");
    }

    /** Asserts that the application serves the path of each probe. */
    private static void requireServed(V1Container container, String port) {
        assertThat(probes(container))
                .extracting(probe -> probe.getHttpGet().getPath())
                .allSatisfy(path ->
                        assertThat(status(port, path)).as("status of %s", path).isEqualTo(200));
    }

    @Test
    void faulty_probes_are_found() throws IOException {
        requireProbes(container());
        for (V1Container faulty : List.of(
                changed("port: http", "port: web"),
                changed("port: http", "port: 8081"),
                changed("- name: http", "- name: web"),
                changed("/actuator/health/readiness", "/actuator/health/liveness"),
                changed("/actuator/health/liveness", "/actuator/health/readiness"))) {
            assertThatThrownBy(() -> requireProbes(faulty)).isInstanceOf(AssertionError.class);
        }
    }

    @Test
    void pods_need_neither_root_nor_a_new_kubernetes() throws IOException {
        V1Container container = container();
        assertThat(pod().getSecurityContext().getRunAsNonRoot()).isTrue();
        assertThat(container.getSecurityContext().getAllowPrivilegeEscalation()).isFalse();
        assertThat(container.getSecurityContext().getReadOnlyRootFilesystem()).isTrue();
        assertThat(container.getSecurityContext().getCapabilities().getDrop()).containsExactly("ALL");
        assertThat(Files.readString(DeployFiles.ROOT.resolve("deploy/Dockerfile")))
                .contains("USER " + pod().getSecurityContext().getRunAsUser());
        assertThat(container.getResources().getRequests()).containsOnlyKeys("cpu", "memory");
        assertThat(container.getResources().getLimits()).containsKey("memory");
        // The action "sleep" needs Kubernetes 1.30.
        assertThat(container.getLifecycle().getPreStop().getSleep()).isNull();
    }

    @Test
    void replicas_find_enough_connections() throws IOException {
        requireConnections(deployment().getSpec().getReplicas());
    }

    private static void requireConnections(int replicas) throws IOException {
        int nodes = replicas
                + deployment()
                        .getSpec()
                        .getStrategy()
                        .getRollingUpdate()
                        .getMaxSurge()
                        .getIntValue();
        int pool = (Integer) configuration().getProperty("spring.datasource.hikari.maximum-pool-size");
        // Each node has a session, two control connections and a connection for shared rate limits.
        // The server reserves three of its 100 connections for superusers.
        assertThat(nodes * (pool + 4)).isLessThanOrEqualTo(97);
    }

    @Test
    void sample_runs_as_the_manifests_configure_it(TestDatabase database) throws Exception {
        String podName = "orders-5d8f7c9b6d-x2x7k";
        Map<String, Object> variables = new HashMap<>();
        for (V1EnvVar variable : container().getEnv()) {
            switch (variable.getName()) {
                case "SPRING_DATASOURCE_USERNAME" -> variables.put(variable.getName(), database.username());
                case "SPRING_DATASOURCE_PASSWORD" -> variables.put(variable.getName(), database.password());
                default -> {
                    assertThat(variable.getValueFrom().getFieldRef().getFieldPath())
                            .isEqualTo("metadata.name");
                    variables.put(variable.getName(), podName);
                }
            }
        }
        EnumerablePropertySource<?> configuration = configuration();
        var application = new SpringApplication(SampleApplication.class);
        application.setRegisterShutdownHook(false);
        application.addInitializers(context -> {
            var sources = context.getEnvironment().getPropertySources();
            sources.addFirst(configuration);
            sources.addFirst(new SystemEnvironmentPropertySource(
                    "pod-" + StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME, variables));
            sources.addFirst(
                    new MapPropertySource("test", Map.of("spring.datasource.url", database.url(), "server.port", "0")));
        });
        try (ConfigurableApplicationContext context = application.run()) {
            String port = context.getEnvironment().getProperty("local.server.port");
            requireServed(container(), port);
            requireDemand(port);
            for (V1Container faulty : List.of(
                    changed("/actuator/health/readiness", "/actuator/health/ready"),
                    changed("/actuator/health/liveness", "/actuator/liveness"),
                    changed("/actuator/health/", "/health/"),
                    changed("/actuator/health/", "/management/health/"))) {
                assertThatThrownBy(() -> requireServed(faulty, port))
                        .isInstanceOf(AssertionError.class)
                        .hasMessageContaining("404");
            }
            assertThat(context.getBean(JdbcClient.class)
                            .sql("SELECT name FROM forge_nodes")
                            .query(String.class)
                            .list())
                    .containsExactly(podName);

            Duration preStop = Duration.ofSeconds(Long.parseLong(container()
                    .getLifecycle()
                    .getPreStop()
                    .getExec()
                    .getCommand()
                    .get(1)));
            Duration stopping = context.getBean(ClusterProperties.class)
                    .shutdown()
                    .drainTimeout()
                    .plus(LEAVING)
                    .plus(context.getBean(LifecycleProperties.class).getTimeoutPerShutdownPhase());
            assertThat(Duration.ofSeconds(pod().getTerminationGracePeriodSeconds()))
                    .isGreaterThanOrEqualTo(preStop.plus(stopping));
            compose().services().forEach((name, service) -> {
                if (!name.equals("postgres")) {
                    assertThat(DurationStyle.SIMPLE.parse(service.stop_grace_period()))
                            .isGreaterThanOrEqualTo(stopping);
                    assertThat(DataSize.parse(service.mem_limit().toUpperCase(Locale.ROOT) + "B"))
                            .isGreaterThanOrEqualTo(DataSize.ofMegabytes(512));
                }
            });
            V1Probe startup = container().getStartupProbe();
            assertThat(Duration.ofSeconds((long) startup.getPeriodSeconds() * startup.getFailureThreshold()))
                    .isGreaterThan(MIGRATING);
        }
    }

    private static int status(String port, String path) throws IOException, InterruptedException {
        return HttpClient.newHttpClient()
                .send(
                        HttpRequest.newBuilder(URI.create("http://localhost:" + port + path))
                                .timeout(Duration.ofSeconds(30))
                                .build(),
                        BodyHandlers.discarding())
                .statusCode();
    }

    /**
     * Checks that each block after a comment that names a file is part of that file, and that no other block looks like a
     * manifest or a Dockerfile.
     */
    @Test
    void snippets_of_the_page_are_parts_of_the_files() throws IOException {
        String page = Files.readString(DeployFiles.ROOT.resolve("docs/reference/deployment.md"));
        Matcher block = Pattern.compile("(?:<!-- (deploy/\\S+) -->\\n)?```(\\w+)\\n(.*?)```", Pattern.DOTALL)
                .matcher(page);
        var shown = new ArrayList<String>();
        while (block.find()) {
            String file = block.group(1);
            String text = block.group(3);
            if (file == null) {
                if (block.group(2).equals("sql")) {
                    continue;
                }
                assertThat(text)
                        .as("a block without a comment that names its file")
                        .doesNotContain("apiVersion:", "services:", "containers:", "Probe:", "FROM ");
                continue;
            }
            shown.add(file);
            assertThat(indented(Files.readString(DeployFiles.ROOT.resolve(file)), text))
                    .as("%s contains%n%s", file, text)
                    .isTrue();
        }
        assertThat(shown)
                .contains("deploy/Dockerfile", "deploy/kubernetes/deployment.yaml", "deploy/compose/compose.yaml");
        // Every file that the page names exists.
        Matcher name = Pattern.compile("deploy/[\\w./-]*\\w").matcher(page);
        while (name.find()) {
            assertThat(DeployFiles.ROOT.resolve(name.group())).exists();
        }
        assertThat(Path.of("../docs/reference/deployment.md")).content().doesNotContain("preStop: {sleep");
    }

    /** Returns whether the file contains the lines of the text in sequence, at any depth of indentation. */
    private static boolean indented(String file, String text) {
        List<String> lines = file.lines().toList();
        List<String> wanted = text.lines().toList();
        for (int at = 0; at + wanted.size() <= lines.size(); at++) {
            int depth = lines.get(at).length() - wanted.get(0).length();
            if (depth >= 0) {
                String prefix = " ".repeat(depth);
                List<String> deeper = wanted.stream()
                        .map(line -> line.isEmpty() ? line : prefix + line)
                        .toList();
                if (lines.subList(at, at + wanted.size()).equals(deeper)) {
                    return true;
                }
            }
        }
        return false;
    }
}
