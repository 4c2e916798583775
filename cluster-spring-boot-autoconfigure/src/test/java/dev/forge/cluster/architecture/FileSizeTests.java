// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Verifies that a newcomer can survey the files of each package of main code, and the lines of each file. */
class FileSizeTests {

    private static final int MOST_FILES = 25;
    private static final int MOST_LINES = 400;

    /** Files that may have more lines of code, each with its limit and its reason. */
    private static final Map<String, Integer> LONG_FILES = Map.of(
            // Assembles all parts of the slice. It shrinks when these no longer hand each other's settings down.
            "dev/forge/cluster/internal/job/JobEngine.java", 440);

    @Test
    void main_code_keeps_the_limits() throws IOException {
        var roots = new ArrayList<Path>();
        try (Stream<Path> modules = Files.list(Path.of(".."))) {
            modules.map(module -> module.resolve("src/main/java"))
                    .filter(Files::isDirectory)
                    .forEach(roots::add);
        }
        assertThat(roots).hasSizeGreaterThan(5);
        assertThat(violations(roots, LONG_FILES)).isEmpty();
    }

    @Test
    void full_package_is_found(@TempDir Path root) throws IOException {
        for (int i = 0; i < MOST_FILES; i++) {
            write(root.resolve("full/File%d.java".formatted(i)), List.of("class File%d {}".formatted(i)));
        }
        assertThat(violations(List.of(root), Map.of())).isEmpty();
        write(root.resolve("full/package-info.java"), List.of("package full;"));
        assertThat(violations(List.of(root), Map.of())).containsExactly("package full has 26 files");
    }

    @Test
    void long_file_is_found(@TempDir Path root) throws IOException {
        List<String> code = Collections.nCopies(MOST_LINES, "    int i = /* not a comment of its own line */ 1;");
        List<String> noCode = List.of("package p;", "", "import p.Q;", "// why", "/** What. */", "/*", " why", " */");
        write(
                root.resolve("p/Long.java"),
                Stream.of(noCode, code, noCode).flatMap(List::stream).toList());
        assertThat(violations(List.of(root), Map.of())).isEmpty();

        write(
                root.resolve("p/Long.java"),
                Stream.of(code, List.of("}")).flatMap(List::stream).toList());
        assertThat(violations(List.of(root), Map.of())).containsExactly("p/Long.java has 401 lines of code");
        assertThat(violations(List.of(root), Map.of("p/Long.java", 401))).isEmpty();
    }

    @Test
    void exception_that_is_not_needed_is_found(@TempDir Path root) throws IOException {
        write(root.resolve("p/Short.java"), List.of("class Short {}"));
        assertThat(violations(List.of(root), Map.of("p/Short.java", 500, "p/Gone.java", 500)))
                .containsExactlyInAnyOrder("p/Short.java needs no exception", "p/Gone.java needs no exception");
    }

    private static List<String> violations(Collection<Path> roots, Map<String, Integer> longFiles) throws IOException {
        var violations = new ArrayList<String>();
        var unneeded = new TreeMap<>(longFiles);
        for (Path root : roots) {
            var packages = new TreeMap<String, Integer>();
            for (Path file : javaFiles(root)) {
                String name = root.relativize(file).toString().replace('\\', '/');
                packages.merge(name.substring(0, name.lastIndexOf('/')).replace('/', '.'), 1, Integer::sum);
                int lines = linesOfCode(file);
                if (lines > MOST_LINES) {
                    unneeded.remove(name);
                }
                if (lines > longFiles.getOrDefault(name, MOST_LINES)) {
                    violations.add("%s has %d lines of code".formatted(name, lines));
                }
            }
            packages.forEach((name, files) -> {
                if (files > MOST_FILES) {
                    violations.add("package %s has %d files".formatted(name, files));
                }
            });
        }
        unneeded.keySet().forEach(name -> violations.add("%s needs no exception".formatted(name)));
        return violations;
    }

    private static List<Path> javaFiles(Path root) throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            return files.filter(file -> file.toString().endsWith(".java")).toList();
        }
    }

    /** Counts the lines that are neither blank nor a comment, an import or the package. */
    private static int linesOfCode(Path file) throws IOException {
        int lines = 0;
        boolean comment = false;
        for (String line : Files.readAllLines(file)) {
            String text = line.strip();
            comment |= text.startsWith("/*");
            boolean code = !comment
                    && !text.isEmpty()
                    && !text.startsWith("//")
                    && !text.startsWith("import ")
                    && !text.startsWith("package ");
            if (code) {
                lines++;
            }
            comment &= !text.endsWith("*/");
        }
        return lines;
    }

    private static void write(Path file, List<String> lines) throws IOException {
        Files.createDirectories(file.getParent());
        Files.write(file, lines);
    }
}
