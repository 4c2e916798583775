// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Writes a {@link WorkflowExport} as one line of JSON. Needs no codec: PostgreSQL has validated the values. */
final class ExportJson {

    private final StringBuilder json = new StringBuilder();

    private ExportJson() {}

    static String of(WorkflowExport run) {
        var writer = new ExportJson();
        writer.begin("{", "id").text(run.id());
        writer.next("name").text(run.name());
        writer.next("version").text(run.version());
        writer.next("status").text(word(run.status()));
        writer.next("input").value(run.input());
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
        begin("{", "position").number(step.position());
        next("name").text(step.name());
        next("kind").text(word(step.kind()));
        next("status").text(word(step.status()));
        next("attempts").number(step.attempts());
        next("result").value(step.result());
        next("lastError").text(step.lastError());
        next("wakeAt").text(step.wakeAt());
        next("ref").text(step.ref());
        json.append('}');
    }

    private static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }

    private ExportJson begin(String before, String member) {
        json.append(before).append('"').append(member).append("\":");
        return this;
    }

    private ExportJson next(String member) {
        return begin(",", member);
    }

    private void number(int number) {
        json.append(number);
    }

    /** JSON has control characters only between its tokens, where they mean as much as a blank. */
    private void value(@Nullable String value) {
        if (value == null) {
            json.append("null");
            return;
        }
        value.chars().forEach(c -> {
            if (c < ' ') {
                json.append(' ');
            } else {
                character((char) c);
            }
        });
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
            } else {
                character((char) c);
            }
        });
        json.append('"');
    }

    /** Escapes all characters at which some reader of files ends a line: JSON allows three of them in texts. */
    private void character(char c) {
        if (c < ' ' || c == '\u0085' || c == '\u2028' || c == '\u2029') {
            json.append("\\u%04x".formatted((int) c));
        } else {
            json.append(c);
        }
    }
}
