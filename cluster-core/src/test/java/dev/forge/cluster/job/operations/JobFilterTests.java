// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class JobFilterTests {

    @Test
    void text_has_the_conditions_that_are_set_and_no_others() {
        assertThat(JobFilter.all()).hasToString("every job");
        assertThat(JobFilter.all().withName("send-mail").withStatuses(JobStatus.FAILED))
                .hasToString("name=send-mail, status=failed");
        assertThat(JobFilter.all()
                        .withStatuses(JobStatus.FAILED, JobStatus.ABANDONED)
                        .withTags("red", "blue")
                        .withGroup("acme & co")
                        .withIds(List.of(new UUID(0, 1)))
                        .withMetadata("region", "eu")
                        .withCreatedFrom(Instant.parse("2026-11-18T10:00:00Z")))
                .hasToString(
                        "status=failed or abandoned, tag=blue, tag=red, group='acme & co',"
                                + " ids=00000000-0000-0000-0000-000000000001, metadata.region=eu, createdFrom=2026-11-18T10:00:00Z");
    }

    @Test
    void value_cannot_imitate_a_condition() {
        assertThat(JobFilter.all().withGroup("a, key=b"))
                .doesNotHaveToString(
                        JobFilter.all().withGroup("a").withUniqueKey("b").toString());
        assertThat(JobFilter.all().withGroup("a', key='b c"))
                .hasToString("group='a\\', key=\\'b c'")
                .doesNotHaveToString(
                        JobFilter.all().withGroup("a").withUniqueKey("b c").toString());
    }

    @Test
    void text_of_each_condition_on_a_value_contains_an_equals_sign() {
        // Callers who may not see values cannot search the audit trail for targets with this character.
        assertThat(Stream.of(
                                JobFilter.all().withGroup("4711"),
                                JobFilter.all().withUniqueKey("4711"),
                                JobFilter.all().withMetadata("card", "4711"),
                                JobFilter.all().withError("4711"))
                        .map(JobFilter::toString))
                .allSatisfy(text -> assertThat(text).contains("=4711"));
    }
}
