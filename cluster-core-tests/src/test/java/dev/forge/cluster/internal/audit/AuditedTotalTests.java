// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.OperationAudited;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataAccessException;

/** Totals of operations on many jobs of which a transaction fails. */
@ClusterPostgres
class AuditedTotalTests extends AuditFixture {

    AuditedTotalTests(TestDatabase database) {
        super(database);
    }

    private List<UUID> failedWithKeys(int number) {
        return IntStream.range(0, number)
                .mapToObj(n -> failed(order(JobOptions.defaults().withUniqueKey("k" + n))))
                .toList();
    }

    private void failIf(String condition, String state) {
        jdbc.sql("CREATE SEQUENCE IF NOT EXISTS retries").update();
        jdbc.sql("""
                CREATE OR REPLACE FUNCTION fail_retry() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF NEW.status = 'pending' AND %s THEN RAISE EXCEPTION 'failed' USING ERRCODE = '%s'; END IF;
                    RETURN NEW;
                END $$
                """.formatted(condition, state)).update();
        jdbc.sql("CREATE TRIGGER fail_retry BEFORE UPDATE ON forge_jobs FOR EACH ROW EXECUTE FUNCTION fail_retry()")
                .update();
    }

    @AfterEach
    void succeed() {
        jdbc.sql("DROP TRIGGER IF EXISTS fail_retry ON forge_jobs").update();
        jdbc.sql("DROP SEQUENCE IF EXISTS retries").update();
    }

    private BulkResult retry(List<UUID> ids) {
        return trail.as(
                ALICE, "again", () -> operations.retryAll(JobFilter.all().withIds(ids), BulkOptions.defaults()));
    }

    private void assertReported(List<UUID> ids, long number) {
        assertThat(ids)
                .filteredOn(id -> jobs.find(id).orElseThrow().status() == JobStatus.PENDING)
                .hasSize((int) number);
        assertThat(entries())
                .filteredOn(entry -> entry.action().equals("jobs.retry-all"))
                .extracting(AuditEntry::count)
                .hasSize((int) number)
                .containsOnly(1L);
        await().untilAsserted(() -> assertThat(events())
                .filteredOn(event -> event.action().equals("jobs.retry-all"))
                .extracting(OperationAudited::count)
                .containsExactly(number));
    }

    @Test
    void retries_before_a_deadlock_count_although_the_batch_is_repeated() {
        List<UUID> ids = failedWithKeys(5);
        failIf("NEW.unique_key = 'k2' AND nextval('retries') = 1", "40P01");
        assertThat(retry(ids)).isEqualTo(new BulkResult(5, 5, 5, 0, null));
        assertReported(ids, 5);
    }

    @Test
    void retries_before_a_failure_are_reported() {
        List<UUID> ids = failedWithKeys(5);
        failIf("NEW.unique_key = 'k3'", "53100");
        assertThatExceptionOfType(DataAccessException.class).isThrownBy(() -> retry(ids));
        assertReported(
                ids,
                ids.stream()
                        .filter(id -> jobs.find(id).orElseThrow().status() == JobStatus.PENDING)
                        .count());
        assertThat(events()).isNotEmpty();
    }
}
