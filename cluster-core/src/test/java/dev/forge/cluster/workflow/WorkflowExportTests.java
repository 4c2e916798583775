// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class WorkflowExportTests {

    private static final UUID ID = UUID.fromString("01900000-0000-7000-8000-000000000001");

    private static WorkflowExport.Step step(StepKind kind, String result) {
        return new WorkflowExport.Step(0, "a", kind, StepStatus.COMPLETED, 1, result, null, null, null);
    }

    private static String maskedInput(String input) {
        return String.valueOf(new WorkflowExport(ID, "checkout", "1", WorkflowStatus.RUNNING, input, List.of())
                .masked()
                .input());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"anvil\" | \"x\"",
                "\"\" | \"x\"",
                "-12.5e+3 | 0",
                "true | true",
                "null | null",
                "{\"a\":[{}, {\"b\" :0.1E-5}],\"c\":\"\\u0022\"} | {\"a\":[{}, {\"b\" :0}],\"c\":\"x\"}",
                "[] | []",
                "[1, \"a\", [false, null, {}]] | [0, \"x\", [false, null, {}]]",
                "{\"to\": \"Ann: \\\"quoted\\\" \\\\\", \"n 1\" : {\"a\\\":\": 17}} | {\"to\": \"x\", \"n 1\" : {\"a\\\":\": 0}}"
            })
    void masking_keeps_names_and_shapes(String input, String masked) {
        assertThat(maskedInput(input)).isEqualTo(masked);
    }

    @Test
    void masking_replaces_results_and_errors_except_for_those_that_the_cluster_parses() {
        var failed = new WorkflowExport.Step(
                3, "pay", StepKind.STEP, StepStatus.FAILED, 2, "{\"card\": 4711}", "card 4711", Instant.EPOCH, ID);
        var export = new WorkflowExport(
                        ID,
                        "checkout",
                        "1",
                        WorkflowStatus.FAILED,
                        null,
                        List.of(
                                step(StepKind.NOW, "\"2030-01-01T00:00:00Z\""),
                                step(StepKind.UUID, "\"" + ID + "\""),
                                step(StepKind.BATCH, "\"COMPLETED\""),
                                step(StepKind.SIGNAL, "\"yes\""),
                                failed))
                .masked();
        assertThat(export.input()).isNull();
        assertThat(export.steps())
                .extracting(WorkflowExport.Step::result)
                .containsExactly(
                        "\"2030-01-01T00:00:00Z\"", "\"" + ID + "\"", "\"COMPLETED\"", "\"x\"", "{\"card\": 0}");
        assertThat(export.steps().get(4))
                .isEqualTo(new WorkflowExport.Step(
                        3, "pay", StepKind.STEP, StepStatus.FAILED, 2, "{\"card\": 0}", "x", Instant.EPOCH, ID));
    }

    @Test
    void export_is_one_line_of_json() {
        var step = new WorkflowExport.Step(
                0,
                "a \"b\" \\",
                StepKind.STEP,
                StepStatus.TIMED_OUT,
                1,
                "{\"a\": 1.50}",
                "line\n\tnext é",
                Instant.EPOCH,
                ID);
        assertThat(new WorkflowExport(
                                ID,
                                "checkout",
                                "2",
                                WorkflowStatus.BLOCKED_MISSING_VERSION,
                                null,
                                List.of(step, step(StepKind.NOW, "null")))
                        .json())
                .isEqualTo("{\"id\":\"" + ID
                        + "\",\"name\":\"checkout\",\"version\":\"2\",\"status\":\"blocked_missing_version\",\"input\":null,"
                        + "\"steps\":[{\"position\":0,\"name\":\"a \\\"b\\\" \\\\\",\"kind\":\"step\",\"status\":\"timed_out\","
                        + "\"attempts\":1,\"result\":{\"a\": 1.50},\"lastError\":\"line\\u000a\\u0009next é\","
                        + "\"wakeAt\":\"1970-01-01T00:00:00Z\",\"ref\":\"" + ID + "\"},"
                        + "{\"position\":0,\"name\":\"a\",\"kind\":\"now\",\"status\":\"completed\",\"attempts\":1,"
                        + "\"result\":null,\"lastError\":null,\"wakeAt\":null,\"ref\":null}]}");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                " ",
                "secret",
                "'secret'",
                "\"secret",
                "\"secret\\",
                "\"secret\":",
                "\"secret\": 1",
                "[\"secret\": 1]",
                "{\"a\"}",
                "{\"a\", \"b\"}",
                "{\"a\": \"b\": 1}",
                "{1: 2}",
                "{\"a\": 1,}",
                "[1,]",
                "[1 2]",
                "[1}",
                "[1",
                "1]",
                "1, 2",
                "\"two\nlines\"",
                "01",
                "1.",
                "-",
                "+1",
                "nul",
                "NaN",
                "\u00a01"
            })
    void masking_refuses_a_text_that_is_not_json_and_names_the_part(String text) {
        var run = new WorkflowExport(ID, "checkout", "1", WorkflowStatus.RUNNING, text, List.of());
        assertThatIllegalArgumentException()
                .isThrownBy(run::masked)
                .withMessageContaining("Cannot mask the input: not JSON at position")
                .satisfies(e -> assertThat(e).hasMessageNotContaining("secret"));
        var step = new WorkflowExport.Step(7, "a", StepKind.STEP, StepStatus.COMPLETED, 1, text, null, null, null);
        assertThatIllegalArgumentException()
                .isThrownBy(() ->
                        new WorkflowExport(ID, "checkout", "1", WorkflowStatus.RUNNING, null, List.of(step)).masked())
                .withMessageContaining("result at position 7");
    }

    @Test
    void masking_needs_no_stack_for_nested_values() {
        int depth = 1_000_000;
        assertThat(maskedInput("[".repeat(depth) + "17" + "]".repeat(depth)))
                .isEqualTo("[".repeat(depth) + "0" + "]".repeat(depth));
    }

    @Test
    void export_contains_no_character_that_some_reader_takes_for_the_end_of_a_line() {
        String separators = "a\u0085b\u2028c\u2029d";
        var step = new WorkflowExport.Step(
                0,
                separators,
                StepKind.STEP,
                StepStatus.FAILED,
                1,
                "{\n\t\"%s\":\r\"%s\"}".formatted(separators, separators),
                separators,
                null,
                null);
        var run = new WorkflowExport(
                ID, separators, separators, WorkflowStatus.FAILED, "[\"%s\"]".formatted(separators), List.of(step));
        for (String json : List.of(run.json(), run.masked().json())) {
            assertThat(json.chars()).noneMatch(c -> c < ' ' || c == 0x85 || c == 0x2028 || c == 0x2029);
            assertThat(json).contains("\"name\":\"a\\u0085b\\u2028c\\u2029d\"", "{  \"a\\u0085b\\u2028c\\u2029d\": ");
        }
    }
}
