// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.architecture;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The Maven and the Gradle build declare the same modules, dependencies and published artifacts. */
class BuildFilesTests {

    private static final Path ROOT = Path.of("..");
    private static final String BOM = "cluster-bom";

    private static MavenModule maven(String module) throws Exception {
        return MavenModule.read(ROOT.resolve(module).resolve("pom.xml"));
    }

    private static GradleBuild gradle() throws Exception {
        return new GradleBuild(ROOT);
    }

    private static List<String> modules() throws Exception {
        return maven(".").modules();
    }

    private static List<String> jars() throws Exception {
        return modules().stream().filter(module -> !module.equals(BOM)).toList();
    }

    private static Set<String> publishedJars() throws Exception {
        var published = new TreeSet<String>();
        for (String module : jars()) {
            if (!maven(module).properties().containsKey("maven.deploy.skip")) {
                published.add(module);
            }
        }
        return published;
    }

    @Test
    void security_workflow_scans_the_sbom_of_every_published_jar() throws Exception {
        String workflow = Files.readString(ROOT.resolve(".github/workflows/security.yml"));
        for (String module : publishedJars()) {
            assertThat(workflow).contains("--lockfile=./%s.cdx.json".formatted(module));
            assertThat(workflow).as("copied for the scan").containsPattern("[ \\n]%s( |;)".formatted(module));
        }
    }

    @Test
    void workflows_name_the_commit_of_every_action() throws IOException {
        try (Stream<Path> workflows = Files.list(ROOT.resolve(".github/workflows"))) {
            for (Path workflow : workflows.toList()) {
                assertThat(Files.readAllLines(workflow))
                        .filteredOn(line -> line.contains("uses:"))
                        .as("%s: a tag can be moved", workflow)
                        .allMatch(line -> line.matches(".*uses: [^@]+@[0-9a-f]{40} # v\\d+\\.\\d+\\.\\d+"));
            }
        }
    }

    @Test
    void both_builds_list_the_same_modules() throws Exception {
        assertThat(gradle().modules()).isEqualTo(new TreeSet<>(modules()));
    }

    @ParameterizedTest
    @MethodSource("jars")
    void both_builds_declare_the_same_dependencies(String module) throws Exception {
        assertThat(gradle().dependencies(module).byScope())
                .isEqualTo(maven(module).dependencies().byScope());
    }

    @Test
    void both_builds_import_the_same_platforms() throws Exception {
        Dependencies common = gradle().dependenciesOf(gradle().rootScript());
        assertThat(common.in("compile")).isEqualTo(maven(".").importedBoms().keySet());
        // Surefire brings its own launcher.
        assertThat(common.in("testRuntime")).containsExactly("org.junit.platform:junit-platform-launcher");
        assertThat(common.byScope()).containsOnlyKeys("compile", "testRuntime");
    }

    @Test
    void versions_come_from_the_same_properties() throws Exception {
        Map<String, String> expected = new TreeMap<>(maven(".").managedVersions());
        expected.keySet().removeIf(coordinates -> coordinates.startsWith("dev.forge.cluster:"));
        expected.putAll(maven(".").importedBoms());
        Map<String, String> catalog = new TreeMap<>();
        gradle().versionProperties()
                .forEach((coordinates, property) -> catalog.put(coordinates, "${%s}".formatted(property)));
        // Maven declares the versions of annotation processors in the modules.
        catalog.keySet().removeIf(coordinates -> coordinates.endsWith("-processor"));
        assertThat(catalog).isEqualTo(expected);
    }

    @Test
    void tests_do_not_take_jackson_from_the_run_time_class_path() throws Exception {
        for (String module : jars()) {
            // flyway-core needs Jackson: Maven would narrow the transitive dependency to tests, Gradle would not.
            assertThat(maven(module).dependencies().in("test"))
                    .as(module)
                    .doesNotContain("tools.jackson.core:jackson-databind");
        }
    }

    @Test
    void both_builds_publish_the_same_modules() throws Exception {
        assertThat(gradle().literal("val publishedJars = setOf(")).isEqualTo(publishedJars());
    }

    @Test
    void bom_manages_all_published_jars_in_both_builds() throws Exception {
        var expected = new TreeSet<String>();
        publishedJars().forEach(module -> expected.add("dev.forge.cluster:" + module));
        assertThat(maven(BOM).managedVersions())
                .allSatisfy((module, version) -> assertThat(version).isEqualTo("${project.version}"));
        assertThat(maven(BOM).managedVersions().keySet()).isEqualTo(expected);
        assertThat(gradle().dependencies(BOM).in("compile")).isEqualTo(expected);
        assertThat(maven(".").managedVersions().keySet()).containsAll(expected);
    }

    @Test
    void bom_repeats_the_metadata_of_the_parent() throws Exception {
        MavenModule parent = maven(".");
        MavenModule bom = maven(BOM);
        assertThat(bom.text("parent")).as("importing a BOM imports its parent").isEmpty();
        for (String element : List.of(
                "groupId", "version", "url", "inceptionYear", "licenses", "developers", "scm", "issueManagement")) {
            assertThat(bom.text(element)).as(element).isNotEmpty().isEqualToIgnoringWhitespace(parent.text(element));
        }
        assertThat(parent.properties()).containsAllEntriesOf(bom.properties());
    }

    @ParameterizedTest
    @MethodSource("modules")
    void every_module_has_a_name_and_a_description(String module) throws Exception {
        assertThat(maven(module).text("name")).startsWith("Forge Cluster: ");
        assertThat(maven(module).text("description")).isNotEmpty();
    }

    @ParameterizedTest
    @MethodSource("jars")
    void module_name_is_the_root_package_of_its_jar(String module) throws Exception {
        String name = maven(module).properties().get("java.module.name");
        assertThat(name).isNotNull();
        ModuleDescriptor.newAutomaticModule(name); // throws if the name is not valid
        assertThat(gradle().rootScript()).contains("\"%s\" to \"%s\"".formatted(module, name));
        assertThat(packages(ROOT.resolve(module).resolve("src/main/java")))
                .allSatisfy(found -> assertThat(found + ".").startsWith(name + "."));
    }

    @Test
    void module_names_are_unique_and_written_to_the_manifest() throws Exception {
        var names = new ArrayList<String>();
        for (String module : jars()) {
            names.add(maven(module).properties().get("java.module.name"));
        }
        assertThat(names).doesNotHaveDuplicates();
        assertThat(Files.readString(ROOT.resolve("pom.xml")))
                .contains("<Automatic-Module-Name>${java.module.name}</Automatic-Module-Name>");
        assertThat(gradle().rootScript()).contains("\"Automatic-Module-Name\" to ");
    }

    @Test
    void jars_share_no_package() throws Exception {
        var owners = new TreeMap<String, List<String>>();
        for (String module : publishedJars()) {
            packages(ROOT.resolve(module).resolve("src/main/java"))
                    .forEach(found -> owners.computeIfAbsent(found, key -> new ArrayList<>())
                            .add(module));
        }
        assertThat(owners)
                .isNotEmpty()
                .allSatisfy((found, jars) -> assertThat(jars).as(found).hasSize(1));
    }

    private static Set<String> packages(Path sources) throws IOException {
        if (!Files.exists(sources)) {
            return Set.of();
        }
        var packages = new TreeSet<String>();
        try (Stream<Path> files = Files.walk(sources)) {
            files.filter(file -> file.toString().endsWith(".java"))
                    .map(file -> sources.relativize(file.getParent()))
                    .forEach(directory ->
                            packages.add(directory.toString().replace('\\', '/').replace('/', '.')));
        }
        return packages;
    }

    @Test
    void difference_between_the_builds_is_found() throws Exception {
        MavenModule maven = MavenModule.parse("""
                <project>
                  <dependencies>
                    <dependency><groupId>g</groupId><artifactId>a</artifactId></dependency>
                    <dependency><groupId>g</groupId><artifactId>o</artifactId><optional>true</optional></dependency>
                    <dependency><groupId>g</groupId><artifactId>p</artifactId><scope>provided</scope></dependency>
                    <dependency><groupId>g</groupId><artifactId>t</artifactId><scope>test</scope></dependency>
                  </dependencies>
                </project>
                """);
        String same = """
                dependencies {
                    api("g:a") // exported
                    optional("g:o")
                    compileOnly("g:p")
                    testCompileOnly("g:p")
                    testImplementation("g:t")
                }
                """;
        Map<String, Set<String>> expected = maven.dependencies().byScope();
        assertThat(gradle().dependenciesOf(same).byScope()).isEqualTo(expected);
        for (String other : List.of(
                same.replace("api", "runtimeOnly"),
                same.replace("optional", "testImplementation"),
                same.replace("    testCompileOnly(\"g:p\")\n", ""),
                same.replace("g:t", "g:u"),
                same.replace("    testImplementation(\"g:t\")\n", ""))) {
            assertThat(gradle().dependenciesOf(other).byScope()).isNotEqualTo(expected);
        }
        assertThatThrownBy(
                        () -> gradle().dependenciesOf(same.replace("api(\"g:a\")", "listOf(\"g:a\").forEach(::api)")))
                .hasMessageContaining("Not understood");
    }
}
