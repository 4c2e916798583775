// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package deploy;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The configuration keys of the sample, from the metadata of all libraries on its class path. */
final class PropertyKeys {

    private final Set<String> names = new HashSet<>();
    /** The prefixes of keys whose values are maps: every key below them is allowed. */
    private final Set<String> maps = new HashSet<>();

    static PropertyKeys ofClassPath() throws IOException {
        var keys = new PropertyKeys();
        List<URL> files = Collections.list(
                PropertyKeys.class.getClassLoader().getResources("META-INF/spring-configuration-metadata.json"));
        for (URL file : files) {
            try (InputStream in = file.openStream()) {
                for (JsonNode property : new JsonMapper().readTree(in).path("properties")) {
                    String name = property.path("name").asString();
                    keys.names.add(name);
                    if (property.path("type").asString("").startsWith("java.util.Map")) {
                        keys.maps.add(name + ".");
                    }
                }
            }
        }
        return keys;
    }

    /** Returns the given keys, in the notation of a properties file, that do not exist. */
    List<String> unknown(Collection<String> keys) {
        return keys.stream()
                .filter(key -> {
                    String withoutIndex = key.replaceAll("\\[\\d+].*", "");
                    return !names.contains(withoutIndex) && maps.stream().noneMatch(key::startsWith);
                })
                .toList();
    }

    /** Returns the given environment variables that set no known key. */
    List<String> unknownVariables(Collection<String> variables) {
        Set<String> known = new HashSet<>();
        names.forEach(name -> known.add(variable(name)));
        var mapVariables = new ArrayList<String>();
        maps.forEach(name -> mapVariables.add(variable(name)));
        return variables.stream()
                .filter(one -> !known.contains(one) && mapVariables.stream().noneMatch(one::startsWith))
                .toList();
    }

    private static String variable(String name) {
        return name.replace("-", "").replace('.', '_').toUpperCase(Locale.ROOT);
    }
}
