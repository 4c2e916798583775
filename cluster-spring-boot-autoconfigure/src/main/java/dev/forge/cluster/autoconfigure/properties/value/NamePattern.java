// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.value;

import java.util.regex.Pattern;

/**
 * A glob over names whose segments are separated by {@code ::}. {@code *} matches any characters within one segment, {@code **}
 * any number of whole segments, including none.
 */
public final class NamePattern {

    private static final String SEPARATOR = "::";
    private static final String WITHIN_SEGMENT = "(?:(?!::).)*";
    private static final String ANY_SEGMENTS = "(?:(?:(?!::).)+::)*";

    private final String text;
    /** Matches a name with a separator behind every segment, including the last one. */
    private final Pattern compiled;

    /** @throws IllegalArgumentException if the pattern is malformed, with the reason */
    public NamePattern(String text) {
        if (text.isBlank()) {
            throw new IllegalArgumentException("pattern must not be empty");
        }
        var regex = new StringBuilder();
        for (String segment : text.split(SEPARATOR, -1)) {
            regex.append(segment.equals("**") ? ANY_SEGMENTS : regexOf(segment) + SEPARATOR);
        }
        this.text = text;
        this.compiled = Pattern.compile(regex.toString(), Pattern.DOTALL);
    }

    private static String regexOf(String segment) {
        if (segment.isEmpty()) {
            throw new IllegalArgumentException("it has an empty segment");
        }
        if (segment.contains(":") || segment.chars().anyMatch(Character::isWhitespace)) {
            throw new IllegalArgumentException("segment '%s' has a space or a single colon".formatted(segment));
        }
        if (segment.contains("**")) {
            throw new IllegalArgumentException("'**' must be a segment of its own, not '%s'".formatted(segment));
        }
        var regex = new StringBuilder();
        for (String literal : segment.split("(?<=\\*)|(?=\\*)", -1)) {
            regex.append(literal.equals("*") ? WITHIN_SEGMENT : Pattern.quote(literal));
        }
        return regex.toString();
    }

    /** Returns whether the pattern matches the whole name. */
    public boolean matches(String name) {
        return compiled.matcher(name + SEPARATOR).matches();
    }

    @Override
    public String toString() {
        return text;
    }
}
