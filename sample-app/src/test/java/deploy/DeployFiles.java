// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package deploy;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import io.kubernetes.client.openapi.JSON;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1Deployment;
import io.kubernetes.client.openapi.models.V1PodDisruptionBudget;
import io.kubernetes.client.openapi.models.V1Secret;
import io.kubernetes.client.openapi.models.V1Service;
import io.kubernetes.client.openapi.models.V1StatefulSet;
import io.kubernetes.client.openapi.models.V2HorizontalPodAutoscaler;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.MapperFeature;
import tools.jackson.databind.json.JsonMapper;

/** Reads the files of deploy/ strictly: unknown fields, missing fields and values of the wrong type are errors. */
final class DeployFiles {

    static final Path ROOT = Path.of("..");
    static final Path KUBERNETES = ROOT.resolve("deploy/kubernetes");
    static final Path COMPOSE = ROOT.resolve("deploy/compose/compose.yaml");

    private static final Gson GSON = JSON.getGson();

    private static final JsonMapper STRICT = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
            .build();

    /** The classes of the objects in use, by apiVersion and kind. */
    private static final Map<String, Class<?>> KINDS = Map.of(
            "v1 ConfigMap", V1ConfigMap.class,
            "v1 Secret", V1Secret.class,
            "v1 Service", V1Service.class,
            "apps/v1 Deployment", V1Deployment.class,
            "apps/v1 StatefulSet", V1StatefulSet.class,
            "autoscaling/v2 HorizontalPodAutoscaler", V2HorizontalPodAutoscaler.class,
            "keda.sh/v1alpha1 ScaledObject", KedaObjects.V1ScaledObject.class,
            "keda.sh/v1alpha1 TriggerAuthentication", KedaObjects.V1TriggerAuthentication.class,
            "policy/v1 PodDisruptionBudget", V1PodDisruptionBudget.class);

    private DeployFiles() {}

    static List<Path> yamlFiles() throws IOException {
        try (Stream<Path> files = Files.walk(ROOT.resolve("deploy"))) {
            return files.filter(file -> file.toString().matches(".*\\.ya?ml"))
                    .sorted()
                    .toList();
        }
    }

    /** Returns every object of every manifest. */
    static List<Object> manifests() throws IOException {
        var objects = new ArrayList<Object>();
        for (Path file : yamlFiles()) {
            if (file.startsWith(KUBERNETES)) {
                objects.addAll(manifests(Files.readString(file)));
            }
        }
        return objects;
    }

    static List<Object> manifests(String yaml) {
        return documents(yaml).stream().map(DeployFiles::manifest).toList();
    }

    private static Object manifest(Map<String, Object> document) {
        String kind = document.get("apiVersion") + " " + document.get("kind");
        Class<?> type = KINDS.get(kind);
        if (type == null) {
            throw new IllegalArgumentException("Unknown kind of object '%s': add its class to KINDS".formatted(kind));
        }
        if (type.isRecord()) {
            return STRICT.convertValue(document, type);
        }
        JsonElement written = GSON.toJsonTree(document);
        try {
            type.getMethod("validateJsonElement", JsonElement.class).invoke(null, written);
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("%s: %s".formatted(kind, e.getCause()), e);
        }
        Object read = GSON.fromJson(written, type);
        // Gson silently converts "5" to 5, but the API server rejects "5".
        requireKept(kind, written, GSON.toJsonTree(read));
        return read;
    }

    /** Asserts that all written values were read unchanged. Only empty collections may have been added. */
    private static void requireKept(String path, JsonElement written, JsonElement read) {
        if (written.isJsonObject() && read.isJsonObject()) {
            written.getAsJsonObject()
                    .asMap()
                    .forEach((name, value) -> requireKept(
                            path + "." + name,
                            value,
                            read.getAsJsonObject().asMap().getOrDefault(name, JsonNull.INSTANCE)));
        } else if (written.isJsonArray()
                && read.isJsonArray()
                && written.getAsJsonArray().size() == read.getAsJsonArray().size()) {
            for (int i = 0; i < written.getAsJsonArray().size(); i++) {
                requireKept(
                        "%s[%d]".formatted(path, i),
                        written.getAsJsonArray().get(i),
                        read.getAsJsonArray().get(i));
            }
        } else if (!written.equals(read)) {
            throw new IllegalArgumentException(
                    "%s is unknown or has the wrong type. Written: %s. Read: %s".formatted(path, written, read));
        }
    }

    static <T> T only(List<Object> manifests, Class<T> type, String name) {
        List<T> found = manifests.stream()
                .filter(type::isInstance)
                .filter(one -> name.equals(GSON.toJsonTree(one)
                        .getAsJsonObject()
                        .getAsJsonObject("metadata")
                        .get("name")
                        .getAsString()))
                .map(type::cast)
                .toList();
        if (found.size() != 1) {
            throw new IllegalArgumentException(
                    "Expected one object, found %d: %s '%s'".formatted(found.size(), type.getSimpleName(), name));
        }
        return found.get(0);
    }

    /** Parses YAML documents; a duplicate key is an error. */
    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> documents(String yaml) {
        var options = new LoaderOptions();
        options.setAllowDuplicateKeys(false);
        var documents = new ArrayList<Map<String, Object>>();
        new Yaml(new SafeConstructor(options))
                .loadAll(yaml)
                .forEach(document -> documents.add((Map<String, Object>) document));
        return documents;
    }

    /** The keys of the Compose specification that are in use; any other key is an error. */
    record Compose(String name, Map<String, Service> services, Map<String, Volume> volumes) {

        record Service(
                String image,
                Build build,
                Map<String, String> environment,
                List<String> ports,
                Map<String, Dependency> depends_on,
                Healthcheck healthcheck,
                String restart,
                String stop_grace_period,
                String mem_limit,
                Boolean read_only,
                List<String> tmpfs,
                List<String> cap_drop,
                List<String> security_opt,
                List<String> volumes) {}

        record Build(String context, String dockerfile) {}

        record Dependency(String condition) {}

        record Healthcheck(List<String> test, String interval, String timeout, int retries) {}

        record Volume() {}
    }

    static Compose compose(String yaml) {
        Map<String, Object> document = documents(yaml).get(0);
        document.keySet().removeIf(key -> key.startsWith("x-"));
        // A volume without options has no value.
        if (document.get("volumes") instanceof Map<?, ?> volumes) {
            document.put("volumes", volumes.keySet().stream().collect(Collectors.toMap(key -> key, key -> Map.of())));
        }
        return JsonMapper.builder()
                .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
                .build()
                .convertValue(document, Compose.class);
    }
}
