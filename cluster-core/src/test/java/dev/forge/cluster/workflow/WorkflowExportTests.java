// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class WorkflowExportTests {

    private static final UUID ID = UUID.fromString("01900000-0000-7000-8000-000000000001");

    private static WorkflowExport.Step step(String kind, String result) {
        return new WorkflowExport.Step(0, "a", kind, "completed", 1, result, null, null, null);
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
                3, "pay", "step", "failed", 2, "{\"card\": 4711}", "card 4711", Instant.EPOCH, ID);
        var export = new WorkflowExport(
                        ID,
                        "checkout",
                        "1",
                        WorkflowStatus.FAILED,
                        null,
                        List.of(
                                step("now", "\"2030-01-01T00:00:00Z\""),
                                step("uuid", "\"" + ID + "\""),
                                step("batch", "\"COMPLETED\""),
                                step("signal", "\"yes\""),
                                failed))
                .masked();
        assertThat(export.input()).isNull();
        assertThat(export.steps())
                .extracting(WorkflowExport.Step::result)
                .containsExactly(
                        "\"2030-01-01T00:00:00Z\"", "\"" + ID + "\"", "\"COMPLETED\"", "\"x\"", "{\"card\": 0}");
        assertThat(export.steps().get(4))
                .isEqualTo(new WorkflowExport.Step(
                        3, "pay", "step", "failed", 2, "{\"card\": 0}", "x", Instant.EPOCH, ID));
    }

    @Test
    void export_is_one_line_of_json() {
        var step = new WorkflowExport.Step(
                0, "a \"b\" \\", "step", "timed_out", 1, "{\"a\": 1.50}", "line\n\tnext é", Instant.EPOCH, ID);
        assertThat(new WorkflowExport(
                                ID,
                                "checkout",
                                "2",
                                WorkflowStatus.BLOCKED_MISSING_VERSION,
                                null,
                                List.of(step, step("now", "null")))
                        .json())
                .isEqualTo("{\"id\":\"" + ID
                        + "\",\"name\":\"checkout\",\"version\":\"2\",\"status\":\"blocked_missing_version\",\"input\":null,"
                        + "\"steps\":[{\"position\":0,\"name\":\"a \\\"b\\\" \\\\\",\"kind\":\"step\",\"status\":\"timed_out\","
                        + "\"attempts\":1,\"result\":{\"a\": 1.50},\"lastError\":\"line\\u000a\\u0009next é\","
                        + "\"wakeAt\":\"1970-01-01T00:00:00Z\",\"ref\":\"" + ID + "\"},"
                        + "{\"position\":0,\"name\":\"a\",\"kind\":\"now\",\"status\":\"completed\",\"attempts\":1,"
                        + "\"result\":null,\"lastError\":null,\"wakeAt\":null,\"ref\":null}]}");
    }
}
