// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Masks the values of JSON without reading it into objects: each text, except for names of members, becomes {@code "x"} and each
 * number 0. The grammar is checked on the way, because whatever is not recognized would be copied with its content.
 */
final class MaskedJson {

    static final String TEXT = "x";

    /** Possessive: a number that fails to match does not try its digits again. */
    private static final Pattern NUMBER =
            Pattern.compile("-?+(?:0|[1-9][0-9]*+)(?:\\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+");

    private static final List<String> LITERALS = List.of("true", "false", "null");

    /** What may come next. */
    private enum Expected {
        VALUE,
        VALUE_OR_END,
        NAME,
        NAME_OR_END,
        COLON,
        COMMA_OR_END
    }

    private final String json;
    private final Matcher numbers;
    private final StringBuilder masked;

    /** The open brackets, not a call per level: stored values may be nested deeper than the stack of a thread. */
    private final StringBuilder open = new StringBuilder();

    private Expected expected = Expected.VALUE;
    private int at;

    private MaskedJson(String json) {
        this.json = json;
        this.numbers = NUMBER.matcher(json);
        this.masked = new StringBuilder(json.length());
    }

    /** @throws IllegalArgumentException if the text is not JSON, with the position but without the text, which may be secret */
    static String of(String json) {
        return new MaskedJson(json).masked();
    }

    private String masked() {
        while (at < json.length()) {
            char c = json.charAt(at);
            switch (c) {
                case ' ', '\t', '\n', '\r' -> copy(1);
                case '{' -> begin(c, Expected.NAME_OR_END);
                case '[' -> begin(c, Expected.VALUE_OR_END);
                case '}' -> end('{', Expected.NAME_OR_END);
                case ']' -> end('[', Expected.VALUE_OR_END);
                case ',' -> comma();
                case ':' -> colon();
                case '"' -> text();
                default -> scalar();
            }
        }
        require(expected == Expected.COMMA_OR_END && open.isEmpty());
        return masked.toString();
    }

    private void begin(char bracket, Expected next) {
        requireValue();
        open.append(bracket);
        copy(1);
        expected = next;
    }

    private void end(char bracket, Expected empty) {
        require(isIn(bracket) && (expected == Expected.COMMA_OR_END || expected == empty));
        open.setLength(open.length() - 1);
        copy(1);
        expected = Expected.COMMA_OR_END;
    }

    private void comma() {
        require(expected == Expected.COMMA_OR_END && !open.isEmpty());
        copy(1);
        expected = isIn('{') ? Expected.NAME : Expected.VALUE;
    }

    private void colon() {
        require(expected == Expected.COLON);
        copy(1);
        expected = Expected.VALUE;
    }

    private void text() {
        int length = textLength();
        if (expected == Expected.NAME || expected == Expected.NAME_OR_END) {
            copy(length);
            expected = Expected.COLON;
        } else {
            requireValue();
            masked.append('"').append(TEXT).append('"');
            at += length;
            expected = Expected.COMMA_OR_END;
        }
    }

    private int textLength() {
        int end = at + 1;
        while (end < json.length() && json.charAt(end) != '"') {
            require(json.charAt(end) >= ' ');
            end += json.charAt(end) == '\\' ? 2 : 1;
        }
        require(end < json.length());
        return end + 1 - at;
    }

    private void scalar() {
        requireValue();
        expected = Expected.COMMA_OR_END;
        for (String literal : LITERALS) {
            if (json.startsWith(literal, at)) {
                copy(literal.length());
                return;
            }
        }
        require(numbers.region(at, json.length()).lookingAt());
        masked.append('0');
        at = numbers.end();
    }

    private void copy(int length) {
        masked.append(json, at, at + length);
        at += length;
    }

    private boolean isIn(char bracket) {
        return !open.isEmpty() && open.charAt(open.length() - 1) == bracket;
    }

    private void requireValue() {
        require(expected == Expected.VALUE || expected == Expected.VALUE_OR_END);
    }

    private void require(boolean valid) {
        if (!valid) {
            throw new IllegalArgumentException("not JSON at position %d of %d".formatted(at, json.length()));
        }
    }
}
