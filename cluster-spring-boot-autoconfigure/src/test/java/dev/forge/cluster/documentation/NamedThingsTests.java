// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Verifies that messages, property keys and metrics exist that the guide names. */
class NamedThingsTests {

    private static final List<String> MODULES = List.of("cluster-core", "cluster-spring-boot-autoconfigure");

    /** A message in quotes. Messages of other programs are followed by their source, such as (by PostgreSQL). */
    private static final Pattern MESSAGE = Pattern.compile("\"([^\"]+)\"(\\s*\\(by |, by )?");

    private static final Pattern KEY = Pattern.compile("`(forge\\.cluster\\.[a-z0-9.-]*[a-z0-9])(\\.\\*)?(=[^`]*)?`");

    @Test
    void messages_of_the_troubleshooting_page_exist() throws IOException {
        String sources = sources();
        var unknown = new ArrayList<String>();
        for (String message : messages(Pages.text(Pages.ROOT.resolve("docs/reference/troubleshooting.md")))) {
            if (!isIn(sources, message)) {
                unknown.add(message);
            }
        }
        assertThat(unknown).as("messages that no class logs or throws").isEmpty();
    }

    @Test
    void unknown_message_is_found() {
        String sources = "log.warn(\"Node {}: the lease of job '{}' is over\")";
        assertThat(isIn(sources, "the lease of job '...' is over")).isTrue();
        assertThat(isIn(sources, "the lease of job '...' has ended")).isFalse();
        assertThat(messages("As \"a message\" and \"one\n of PostgreSQL\" (by PostgreSQL), `{\"state\": 1}`"))
                .containsExactly("a message");
    }

    @Test
    void keys_and_metrics_of_the_guide_exist() throws IOException {
        String sources = sources();
        String configuration = Pages.text(Pages.ROOT.resolve("docs/reference/configuration.md"));
        var unknown = new TreeSet<String>();
        for (Path page : Pages.guide()) {
            Matcher key = KEY.matcher(Pages.withoutBlocks(Pages.text(page)));
            while (key.find()) {
                String name = key.group(1);
                boolean property = configuration.contains("| `" + name + (key.group(2) == null ? "` |" : "."));
                boolean prefix = configuration.contains("| `" + name + ".");
                if (!property && !prefix && !sources.contains("\"" + name + "\"")) {
                    unknown.add(page.getFileName() + ": " + name);
                }
            }
        }
        assertThat(unknown).isEmpty();
    }

    private static List<String> messages(String page) {
        String text = Pages.withoutBlocks(page).replaceAll("`[^`\\n]*`", "").replaceAll("\\s+", " ");
        return MESSAGE.matcher(text)
                .results()
                .filter(match -> match.group(2) == null)
                .map(match -> match.group(1))
                .toList();
    }

    /** Returns whether the sources contain a message, in which three dots stand for arguments. */
    private static boolean isIn(String sources, String message) {
        return Stream.of(message.split("\\.\\.\\.", -1))
                .map(part -> part.replaceAll("^[ ']+|[ ']+$", ""))
                .allMatch(sources::contains);
    }

    /** Returns all main sources, with concatenated string literals joined. */
    private static String sources() throws IOException {
        var all = new StringBuilder();
        for (String module : MODULES) {
            try (Stream<Path> files = Files.walk(Pages.ROOT.resolve(module).resolve("src/main/java"))) {
                all.append(files.filter(file -> file.toString().endsWith(".java"))
                        .map(Pages::text)
                        .map(text -> text.replaceAll("\"\\s*\\+\\s*\"", "").replace("\\\"", "\""))
                        .collect(Collectors.joining("\n")));
            }
        }
        return all.toString();
    }
}
