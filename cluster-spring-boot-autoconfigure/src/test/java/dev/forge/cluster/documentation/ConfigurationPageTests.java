// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.RecordComponent;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.json.JsonParserFactory;

/**
 * Verifies that the tables of docs/reference/configuration.md match the configuration metadata, which the build generates from
 * the property records and additional metadata. The system property {@code forge.guide.write} rewrites the page.
 */
class ConfigurationPageTests {

    private static final Path PAGE = Pages.ROOT.resolve("docs/reference/configuration.md");
    private static final String PREFIX = "forge.cluster.";
    private static final String BEGIN = "<!-- generated: begin -->\n";
    private static final String END = "<!-- generated: end -->";

    @Test
    void page_shows_every_key_of_the_metadata() throws IOException {
        String page = Pages.text(PAGE);
        int begin = page.indexOf(BEGIN) + BEGIN.length();
        int end = page.indexOf(END);
        assertThat(begin).isLessThanOrEqualTo(end);
        String generated = tables(metadata());
        if (Boolean.getBoolean("forge.guide.write")) {
            Files.writeString(PAGE, page.substring(0, begin) + generated + page.substring(end));
            return;
        }
        assertThat(page.substring(begin, end))
                .as("run this test with -Dforge.guide.write=true to update %s", PAGE)
                .isEqualTo(generated);
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> metadata() throws IOException {
        try (InputStream json = Objects.requireNonNull(
                ClusterProperties.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json"))) {
            return (List<Map<String, Object>>) JsonParserFactory.getJsonParser()
                    .parseMap(new String(json.readAllBytes(), StandardCharsets.UTF_8))
                    .get("properties");
        }
    }

    private static String tables(List<Map<String, Object>> properties) {
        Map<String, List<Map<String, Object>>> groups = new LinkedHashMap<>();
        groups.put("General", new ArrayList<>());
        for (RecordComponent component : ClusterProperties.class.getRecordComponents()) {
            String name = kebab(component.getName());
            if (component.getType().isRecord()) {
                groups.put(name, new ArrayList<>());
            }
        }
        groups.put("Endpoint", new ArrayList<>());
        for (Map<String, Object> property : properties) {
            String name = name(property);
            String key = name.startsWith(PREFIX) ? name.substring(PREFIX.length()) : "";
            String group =
                    key.isEmpty() ? "Endpoint" : key.contains(".") ? key.substring(0, key.indexOf('.')) : "General";
            assertThat(groups).as(name).containsKey(group);
            groups.get(group).add(property);
        }
        return groups.entrySet().stream()
                .map(group -> "## %s%n%n| Key | Type | Default | Description |%n|---|---|---|---|%n%s%n"
                        .formatted(
                                group.getKey().equals("General")
                                                || group.getKey().equals("Endpoint")
                                        ? group.getKey()
                                        : "%s%s.*".formatted(PREFIX, group.getKey()),
                                group.getValue().stream()
                                        .map(ConfigurationPageTests::row)
                                        .collect(Collectors.joining())))
                .collect(Collectors.joining());
    }

    private static String row(Map<String, Object> property) {
        Object value = property.get("defaultValue");
        // A list is written in brackets, a constant of another project's enum with an underscore.
        String written = String.valueOf(value).replaceAll("[\\[\\] ]", "");
        boolean texts = String.valueOf(property.get("type")).contains("java.lang.String");
        String text = texts ? written : written.replace('_', '-');
        return "| `%s` | %s | %s | %s |%n"
                .formatted(
                        name(property),
                        type(String.valueOf(property.get("type"))),
                        value == null ? "" : "`" + text + "`",
                        String.valueOf(property.get("description")).replace("|", "\\|"));
    }

    private static String name(Map<String, Object> property) {
        return String.valueOf(property.get("name"));
    }

    /** Returns the description of the values that a type allows. */
    private static String type(String name) {
        if (name.matches("java\\.util\\.(List|Set)<.*>")) {
            String element = type(name.replaceFirst(".*<(.*)>", "$1"));
            return element.startsWith("`") ? "list of " + element : "list";
        }
        Class<?> type = load(name);
        if (type != null && type.isEnum()) {
            return Arrays.stream(type.getEnumConstants())
                    .map(constant -> "`%s`"
                            .formatted(((Enum<?>) constant)
                                    .name()
                                    .toLowerCase(Locale.ROOT)
                                    .replace('_', '-')))
                    .collect(Collectors.joining(", "));
        }
        return switch (name.replaceFirst("<.*", "").replaceFirst(".*\\.", "")) {
            case "Boolean" -> "`true`, `false`";
            case "Integer", "Long", "Double" -> "number";
            case "Duration" -> "duration";
            case "DataSize" -> "size";
            case "Map" -> "map";
            default -> "text";
        };
    }

    private static @Nullable Class<?> load(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    private static String kebab(String name) {
        return ConfigurationPropertyName.adapt(name.replaceAll("([A-Z])", "-$1"), '.')
                .toString();
    }
}
