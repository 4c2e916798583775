// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Writes the JSON of a {@link WorkflowExport}, and masks values. Needs no codec: PostgreSQL has validated the values. */
final class ExportJson {

    static final String MASKED_TEXT = "x";

    private final StringBuilder json = new StringBuilder();

    private ExportJson() {}

    static String of(WorkflowExport run) {
        var writer = new ExportJson();
        writer.begin("{", "id").text(run.id());
        writer.next("name").text(run.name());
        writer.next("version").text(run.version());
        writer.next("status").text(run.status().name().toLowerCase(Locale.ROOT));
        writer.next("input").raw(run.input());
        writer.next("steps").json.append('[');
        String separator = "";
        for (WorkflowExport.Step step : run.steps()) {
            writer.json.append(separator);
            writer.step(step);
            separator = ",";
        }
        return writer.json.append("]}").toString();
    }

    private void step(WorkflowExport.Step step) {
        begin("{", "position").raw(step.position());
        next("name").text(step.name());
        next("kind").text(step.kind());
        next("status").text(step.status());
        next("attempts").raw(step.attempts());
        next("result").raw(step.result());
        next("lastError").text(step.lastError());
        next("wakeAt").text(step.wakeAt());
        next("ref").text(step.ref());
        json.append('}');
    }

    private ExportJson begin(String before, String member) {
        json.append(before).append('"').append(member).append("\":");
        return this;
    }

    private ExportJson next(String member) {
        return begin(",", member);
    }

    private void raw(@Nullable Object value) {
        json.append(value);
    }

    private void text(@Nullable Object value) {
        if (value == null) {
            json.append("null");
            return;
        }
        json.append('"');
        value.toString().chars().forEach(c -> {
            if (c == '"' || c == '\\') {
                json.append('\\').append((char) c);
            } else if (c < ' ') {
                json.append("\\u%04x".formatted(c));
            } else {
                json.append((char) c);
            }
        });
        json.append('"');
    }

    /** Replaces each text of a JSON value, except for names of members, and each number. */
    static String masked(String value) {
        var masked = new StringBuilder(value.length());
        int at = 0;
        while (at < value.length()) {
            char c = value.charAt(at);
            int end = at + 1;
            if (c == '"') {
                end = endOfText(value, at);
                masked.append(isName(value, end) ? value.substring(at, end) : '"' + MASKED_TEXT + '"');
            } else if (c == '-' || isDigit(c)) {
                end = endOfNumber(value, at);
                masked.append('0');
            } else {
                masked.append(c);
            }
            at = end;
        }
        return masked.toString();
    }

    private static int endOfText(String value, int begin) {
        int at = begin + 1;
        while (value.charAt(at) != '"') {
            at += value.charAt(at) == '\\' ? 2 : 1;
        }
        return at + 1;
    }

    private static boolean isName(String value, int end) {
        int at = end;
        while (at < value.length() && Character.isWhitespace(value.charAt(at))) {
            at++;
        }
        return at < value.length() && value.charAt(at) == ':';
    }

    private static int endOfNumber(String value, int begin) {
        int at = begin;
        while (at < value.length() && (isDigit(value.charAt(at)) || "+-.eE".indexOf(value.charAt(at)) >= 0)) {
            at++;
        }
        return at;
    }

    private static boolean isDigit(char c) {
        return c >= '0' && c <= '9';
    }
}
