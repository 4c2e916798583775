// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Verifies that the pages for contributors name what the sources contain: types, methods, loops, uses between packages. */
class ContributorPageTests {

    private static final Path ARCHITECTURE = Pages.ROOT.resolve("docs/architecture.md");
    private static final List<Path> PAGES = List.of(ARCHITECTURE, Pages.ROOT.resolve("docs/change-a-claim.md"));

    private static final String INTERNAL = "dev.forge.cluster.internal.";

    /** A code span. */
    private static final Pattern SPAN = Pattern.compile("`([^`\\n]+)`");

    /** A type, or a member of a type. The names of constants and statuses have no lower-case letters. */
    private static final Pattern NAME =
            Pattern.compile("([A-Z][A-Z0-9]*[a-z][A-Za-z0-9]*)((?:\\.[A-Z][A-Za-z0-9]*)*)(?:\\.([a-z][A-Za-z0-9]*))?");

    private static final Pattern LOOP =
            Pattern.compile("(?:NodeLoop\\s*\\.(?:of|upkeep|cleanUp)|new FollowUps)\\(\\s*\"([^\"]+)\"");

    private static final Pattern ARROW = Pattern.compile("(?m)^ +(\\w+) --> (\\w+)$");

    /** The sources of the product, by the names of their top-level types. */
    private static final Map<String, String> MAIN = sources("src/main/java");

    private static final Map<String, String> TESTS = sources("src/test/java");

    private static Map<String, String> sources(String folder) {
        var sources = new HashMap<String, String>();
        try (Stream<Path> modules = Files.list(Pages.ROOT)) {
            for (Path module : modules.map(each -> each.resolve(folder))
                    .filter(Files::isDirectory)
                    .toList()) {
                try (Stream<Path> files = Files.walk(module)) {
                    files.filter(file -> file.toString().endsWith(".java"))
                            .forEach(file ->
                                    sources.put(file.getFileName().toString().replace(".java", ""), Pages.text(file)));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return sources;
    }

    private static boolean exists(String name) {
        Matcher parts = NAME.matcher(name);
        if (!parts.matches()) {
            return false;
        }
        String source = MAIN.getOrDefault(parts.group(1), TESTS.get(parts.group(1)));
        if (source == null) {
            return false;
        }
        boolean nested = Pattern.compile("\\.")
                .splitAsStream(parts.group(2))
                .filter(type -> !type.isEmpty())
                .allMatch(type -> Pattern.compile("\\b(class|interface|record|enum) " + type + "\\b")
                        .matcher(source)
                        .find());
        return nested && (parts.group(3) == null || declares(source, parts.group(3)));
    }

    private static boolean declares(String source, String method) {
        // A call follows a dot, an operator or a keyword.
        return Pattern.compile("(?m)^ +(?!return |throw |else |new )[\\w@][\\w.<>\\[\\]?,@ ]*[ >\\]]" + method + "\\(")
                .matcher(source)
                .find();
    }

    @Test
    void types_and_methods_in_code_font_exist() {
        var unknown = new TreeSet<String>();
        int found = 0;
        for (Path page : PAGES) {
            List<String> names = SPAN.matcher(Pages.withoutBlocks(Pages.text(page)))
                    .results()
                    .map(span -> span.group(1))
                    .filter(span -> NAME.matcher(span).matches())
                    .toList();
            found += names.size();
            names.stream().filter(name -> !exists(name)).forEach(name -> unknown.add(page.getFileName() + ": " + name));
        }
        assertThat(unknown).isEmpty();
        assertThat(found).isGreaterThan(100);
    }

    @Test
    void unknown_type_or_method_is_found() {
        assertThat(exists("JobEnqueuer")).isTrue();
        assertThat(exists("JobEnqueuer.enqueue")).isTrue();
        assertThat(exists("JobEnqueuer.Request")).isTrue();
        assertThat(exists("JobEnqueurer")).isFalse();
        assertThat(exists("JobEnqueuer.enqueued")).isFalse();
        assertThat(exists("JobEnqueuer.Response")).isFalse();
        // Called there, but declared elsewhere.
        assertThat(exists("JobEnqueuer.requireFreeKey")).isFalse();
    }

    @Test
    void table_of_loops_is_complete() {
        var declared = new TreeSet<String>();
        MAIN.values().forEach(source -> LOOP.matcher(source).results().forEach(loop -> declared.add(loop.group(1))));
        String section = section("## Loops");
        var listed = new TreeSet<String>();
        section.lines()
                .filter(line -> line.startsWith("| `"))
                .forEach(line -> SPAN.matcher(line.substring(0, line.indexOf('|', 2)))
                        .results()
                        .forEach(loop -> listed.add(loop.group(1))));
        assertThat(listed).isEqualTo(declared).hasSizeGreaterThan(20);
    }

    private static String section(String heading) {
        String text = Pages.text(ARCHITECTURE);
        int begin = text.indexOf(heading + "\n") + heading.length();
        return text.substring(begin, text.indexOf("\n## ", begin));
    }

    @Test
    void arrows_of_the_picture_are_uses_in_the_sources() {
        String picture = Pages.blocks(ARCHITECTURE, "mermaid").get(0).text();
        String job = picture.substring(picture.indexOf("subgraph job"), picture.indexOf("\n    end"));
        var missing = new TreeSet<String>();
        List<MatchResult> arrows = ARROW.matcher(picture).results().toList();
        for (MatchResult arrow : arrows) {
            boolean inJob = job.contains(arrow.group());
            String root = inJob ? INTERNAL + "job." : INTERNAL;
            if (!uses(root + arrow.group(1), root + arrow.group(2))) {
                missing.add(arrow.group().strip());
            }
        }
        assertThat(missing).isEmpty();
        assertThat(arrows).hasSizeGreaterThan(20);
        assertThat(uses(INTERNAL + "database", INTERNAL + "job")).isFalse();
    }

    /** Returns whether a type of a package, or of one below it, imports a type of another one. */
    private static boolean uses(String from, String to) {
        Pattern inside = Pattern.compile("(?m)^package " + Pattern.quote(from) + "[.;]");
        Pattern imports = Pattern.compile("(?m)^import (static )?" + Pattern.quote(to) + "\\.");
        return MAIN.values().stream()
                .anyMatch(source ->
                        inside.matcher(source).find() && imports.matcher(source).find());
    }
}
