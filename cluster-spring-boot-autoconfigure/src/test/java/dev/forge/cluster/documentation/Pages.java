// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The Markdown pages of this project, and the code blocks in them. */
final class Pages {

    static final Path ROOT = Path.of("..");

    private static final Pattern BLOCK = Pattern.compile("(?m)^```(\\w*)\\n(.*?)^```$", Pattern.DOTALL);

    private Pages() {}

    /**
     * A fenced code block.
     *
     * @param line the line of its page in which the block begins
     */
    record Block(Path page, int line, String language, String text) {
        String place() {
            return "%s:%d".formatted(ROOT.relativize(page), line);
        }
    }

    /** Returns README and the pages of the reference guide. */
    static List<Path> guide() {
        return Stream.concat(Stream.of(ROOT.resolve("README.md")), markdown(ROOT.resolve("docs/reference")))
                .toList();
    }

    /** Returns all pages, including those for contributors. */
    static List<Path> all() {
        return Stream.concat(markdown(ROOT), markdown(ROOT.resolve("docs"))).toList();
    }

    private static Stream<Path> markdown(Path directory) {
        try (Stream<Path> files = Files.walk(directory, directory.equals(ROOT) ? 1 : Integer.MAX_VALUE)) {
            return files.filter(file -> file.toString().endsWith(".md")).sorted().toList().stream();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static List<Block> blocks(Path page, String language) {
        String text = text(page);
        var blocks = new ArrayList<Block>();
        Matcher matcher = BLOCK.matcher(text);
        while (matcher.find()) {
            if (matcher.group(1).equals(language)) {
                int line = (int) text.substring(0, matcher.start()).lines().count() + 1;
                blocks.add(new Block(page, line, language, matcher.group(2)));
            }
        }
        return blocks;
    }

    /** Returns the blocks of README and guide in a language. */
    static List<Block> blocks(String language) {
        return guide().stream().flatMap(page -> blocks(page, language).stream()).collect(Collectors.toList());
    }

    static String withoutBlocks(String text) {
        return BLOCK.matcher(text).replaceAll("");
    }
}
