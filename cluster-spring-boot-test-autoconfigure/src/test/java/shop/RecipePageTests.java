// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The recipes of the guide are tests of this module, word by word. */
class RecipePageTests {

    private static final Path PAGE = Path.of("../docs/reference/testing.md");
    private static final Path TESTS = Path.of("src/test/java/shop");

    @Test
    void page_has_the_twelve_recipes_that_run_here() throws IOException {
        List<String> ofPage = Pattern.compile("(?ms)^```java recipe\\n(.*?)^```$")
                .matcher(Files.readString(PAGE))
                .results()
                .map(block -> stripped(block.group(1)))
                .toList();
        List<String> ofTests = Stream.of("RecipeTests.java", "RecipesWithNodesTests.java")
                .flatMap(file -> recipes(TESTS.resolve(file)))
                .toList();
        assertThat(ofTests).hasSize(12);
        assertThat(ofPage).containsExactlyElementsOf(ofTests);
    }

    /** Returns what follows each comment "recipe", up to the end of its method. */
    private static Stream<String> recipes(Path test) {
        try {
            return Pattern.compile("(?ms)^    // recipe\\n(.*?^    }$)")
                    .matcher(Files.readString(test))
                    .results()
                    .map(recipe -> stripped(recipe.group(1)));
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static String stripped(String code) {
        return code.lines().map(String::strip).filter(line -> !line.isEmpty()).collect(Collectors.joining("\n"));
    }
}
