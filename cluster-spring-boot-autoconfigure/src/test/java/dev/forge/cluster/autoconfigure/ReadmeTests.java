package dev.forge.cluster.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.properties.ClusterPropertiesTests;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class ReadmeTests {

    @Test
    void configuration_table_lists_all_keys_and_no_others() throws IOException {
        String readme = Files.readString(Path.of("../README.md"));
        String table = readme.substring(readme.indexOf("## Configuration"), readme.indexOf("## Beside"));
        var keys = new TreeSet<String>();
        for (String row : table.lines().filter(line -> line.startsWith("| `")).toList()) {
            Pattern.compile("`([^`]+)`")
                    .matcher(List.of(row.split("\\|", -1)).get(1))
                    .results()
                    .forEach(key -> keys.add(key.group(1)));
        }
        Set<String> expected = ClusterPropertiesTests.contract().keySet();
        assertThat(keys).containsExactlyInAnyOrderElementsOf(expected);
    }
}
