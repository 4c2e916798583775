// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.json;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.JacksonPayloadCodec;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import java.lang.reflect.RecordComponent;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import tools.jackson.databind.json.JsonMapper;

/** The table of the records that become JSON. */
class ApiRecordsTests {

    private static final UUID ID = UUID.fromString("0190c8a1-6c1e-7f00-8000-000000000001");

    record Undecided(UUID id, int number, String text) {}

    private static ValueSanitizer.Sanitized shownTo(boolean seesValues) {
        return new ValueSanitizer(
                        List.of(), new JacksonPayloadCodec(JsonMapper.builder().build()))
                .shownTo(new Caller(seesValues, null, null, AuditSource.ENDPOINT));
    }

    @Test
    void text_that_nobody_has_decided_about_is_refused() {
        assertThatThrownBy(() -> RecordShape.of(Undecided.class).complete())
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("Undecided.text: is it shown, sanitized or left out?");
        assertThat(RecordShape.of(Undecided.class)
                        .value("text", "secret")
                        .complete()
                        .object(new Undecided(ID, 7, "4711"), false, shownTo(false)))
                .isEqualTo(Map.of("id", ID, "number", 7, "text", "******"));
    }

    @Test
    void rule_for_a_component_that_does_not_exist_is_refused() {
        assertThatThrownBy(() -> RecordShape.of(Undecided.class).open("txt"))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("'txt'");
    }

    @Test
    void type_that_is_not_in_the_table_is_refused() {
        assertThatThrownBy(() -> shownTo(true).object(new Undecided(ID, 7, "4711")))
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void job_is_written_without_null_and_infinite_times_and_its_values_are_masked() {
        var job = new JobInfo(
                ID,
                "send",
                JobStatus.PENDING,
                "{\"a\": 1}",
                50,
                null,
                Instant.MAX,
                0,
                null,
                0,
                null,
                0,
                null,
                null,
                null,
                null,
                null,
                "key",
                "acme",
                null,
                Map.of(),
                List.of(),
                Instant.EPOCH,
                List.of());
        Map<String, Object> summary = Map.of(
                "id",
                ID,
                "name",
                "send",
                "status",
                "pending",
                "priority",
                50,
                "attempts",
                0,
                "recoveries",
                0,
                "epoch",
                0L,
                "group",
                "acme",
                "createdAt",
                Instant.EPOCH);
        assertThat(shownTo(true).summary(job)).isEqualTo(summary);
        assertThat(shownTo(true).object(job))
                .containsAllEntriesOf(summary)
                .containsEntry("payload", Map.of("a", 1))
                .containsEntry("uniqueKey", "key")
                .containsEntry("metadata", Map.of())
                .hasSize(summary.size() + 3);
        assertThat(shownTo(false).object(job).toString()).doesNotContain("acme", "key=key", "a=1");
    }

    @Test
    void native_images_can_read_all_components() {
        var hints = new RuntimeHints();
        new ValueSanitizer.Hints().registerHints(hints, null);
        assertThat(ApiRecords.types()).isNotEmpty().allSatisfy(type -> {
            for (RecordComponent component : type.getRecordComponents()) {
                assertThat(RuntimeHintsPredicates.reflection().onMethodInvocation(component.getAccessor()))
                        .as("%s.%s", type, component.getName())
                        .accepts(hints);
            }
        });
    }
}
