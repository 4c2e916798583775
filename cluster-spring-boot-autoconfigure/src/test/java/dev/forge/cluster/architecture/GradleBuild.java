// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.architecture;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The declarations of the Gradle scripts, read as text without Gradle. An unknown line in a {@code dependencies} block is an
 * error, so that no declaration is overlooked.
 */
final class GradleBuild {

    private static final Pattern LIBRARY =
            Pattern.compile("library\\(\"([\\w-]+)\", \"([\\w.-]+)\", \"([\\w.-]+)\"\\)\\.version(.*)");
    private static final Pattern VERSION_PROPERTY = Pattern.compile("v\\(\"([\\w.-]+)\"\\)");
    private static final Pattern QUOTED = Pattern.compile("\"([^\"]+)\"");
    private static final Pattern DECLARATION = Pattern.compile("\"?(\\w+)\"?\\((.+)\\)");
    private static final Map<String, String> SCOPES = Map.of(
            "api", "compile",
            "implementation", "compile",
            "runtimeOnly", "runtime",
            "optional", "optional",
            "compileOnly", "compileOnly",
            "testCompileOnly", "testCompileOnly",
            "testImplementation", "test",
            "testRuntimeOnly", "testRuntime",
            "annotationProcessor", "processor");

    private final Path root;
    private final String settings;
    private final Map<String, String> aliases = new TreeMap<>();
    private final Map<String, String> versionProperties = new TreeMap<>();

    GradleBuild(Path root) throws Exception {
        this.root = root;
        this.settings = Files.readString(root.resolve("settings.gradle.kts"));
        Matcher library = LIBRARY.matcher(settings);
        while (library.find()) {
            String coordinates = library.group(2) + ":" + library.group(3);
            aliases.put(library.group(1), coordinates);
            Matcher property = VERSION_PROPERTY.matcher(library.group(4));
            if (property.find()) {
                versionProperties.put(coordinates, property.group(1));
            }
        }
    }

    Set<String> modules() {
        return quoted(block(settings, "include(", '(', ')'));
    }

    /** Returns, for each library of the catalog, the property of the root {@code pom.xml} that contains its version. */
    Map<String, String> versionProperties() {
        return versionProperties;
    }

    /** Returns the names in a set, list or map literal of the root script, given its first characters. */
    Set<String> literal(String start) throws Exception {
        return quoted(block(rootScript(), start, '(', ')'));
    }

    String rootScript() throws Exception {
        return Files.readString(root.resolve("build.gradle.kts"));
    }

    Dependencies dependencies(String module) throws Exception {
        return dependenciesOf(Files.readString(root.resolve(module).resolve("build.gradle.kts")));
    }

    Dependencies dependenciesOf(String script) {
        var dependencies = new Dependencies();
        for (String line : declarations(script)) {
            Matcher declaration = DECLARATION.matcher(line);
            if (!declaration.matches() || !SCOPES.containsKey(declaration.group(1))) {
                throw new IllegalArgumentException("Not understood in a dependencies block: " + line);
            }
            dependencies.add(SCOPES.get(declaration.group(1)), coordinates(declaration.group(2)));
        }
        // Maven's "provided" is on the class path of tests as well.
        dependencies.merge("compileOnly", "testCompileOnly", "provided");
        return dependencies;
    }

    private static List<String> declarations(String script) {
        List<String> lines = new ArrayList<>();
        for (String line : block(script, "dependencies {", '{', '}').lines().toList()) {
            String code = line.replaceFirst("//.*", "").trim();
            // The constraints of a platform are declared like dependencies.
            if (!code.isEmpty() && !code.equals("constraints {") && !code.equals("}")) {
                lines.add(code);
            }
        }
        return lines;
    }

    private String coordinates(String argument) {
        if (argument.startsWith("libs.")) {
            return byAlias(argument.substring("libs.".length()).replace('.', '-'));
        }
        Matcher quoted = QUOTED.matcher(argument);
        if (!quoted.find()) {
            throw new IllegalArgumentException("Not understood as a dependency: " + argument);
        }
        String text = quoted.group(1);
        if (argument.startsWith("project(")) {
            return "dev.forge.cluster" + text;
        }
        return argument.contains("findLibrary(") ? byAlias(text) : text;
    }

    private String byAlias(String alias) {
        String coordinates = aliases.get(alias);
        if (coordinates == null) {
            throw new IllegalArgumentException("No library '%s' in settings.gradle.kts".formatted(alias));
        }
        return coordinates;
    }

    private static Set<String> quoted(String text) {
        var names = new TreeSet<String>();
        Matcher matcher = QUOTED.matcher(text);
        while (matcher.find()) {
            names.add(matcher.group(1));
        }
        return names;
    }

    /** Returns the text between the bracket that ends {@code start} and its counterpart. */
    private static String block(String script, String start, char open, char close) {
        int at = script.indexOf(start);
        if (at < 0) {
            throw new IllegalArgumentException("No '%s' in the script".formatted(start));
        }
        int depth = 1;
        int from = at + start.length();
        int to = from;
        while (depth > 0) {
            char c = script.charAt(to++);
            depth += c == open ? 1 : c == close ? -1 : 0;
        }
        return script.substring(from, to - 1);
    }
}
