// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataIntegrityViolationException;

/** Verifies insertions with unique keys, and constraints of new rows. */
@ClusterPostgres
class JobInsertStoreTests extends JobStoreFixture {

    JobInsertStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void unique_key_belongs_to_one_active_job() {
        NewJob first = job("job");
        assertThat(unique.insertUnique(first, "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        assertThat(unique.insertUnique(job("job"), "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        NewJob other = job("other");
        assertThat(unique.insertUnique(other, "k", UniquePolicy.KEEP)).isEqualTo(other.id());
        Claimed claimed = claimOne(one);
        assertThat(unique.insertUnique(job("job"), "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        finishes.finish(one, List.of(completed(claimed, null)));
        NewJob next = job("job");
        assertThat(unique.insertUnique(next, "k", UniquePolicy.KEEP)).isEqualTo(next.id());
    }

    @Test
    void concurrent_enqueuers_of_a_key_agree_on_one_job() throws Exception {
        var threads = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 25; round++) {
                String key = "k" + round;
                UniquePolicy policy = round % 2 == 0 ? UniquePolicy.KEEP : UniquePolicy.REPLACE;
                Callable<UUID> enqueuer = () -> unique.insertUnique(job("job"), key, policy);
                var ids = new HashSet<UUID>();
                for (Future<UUID> id : threads.invokeAll(List.of(enqueuer, enqueuer, enqueuer, enqueuer))) {
                    ids.add(id.get());
                }
                assertThat(ids).hasSize(1);
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void replacement_overwrites_a_job_that_has_not_started() {
        NewJob first = job("job", "{\"v\": 1}");
        unique.insertUnique(first, "k", UniquePolicy.KEEP);
        assertThat(unique.insertUnique(job("job", "{\"v\": 2}"), "k", UniquePolicy.REPLACE))
                .isEqualTo(first.id());
        assertThat(claimOne(one).payload()).contains("2");
    }

    @Test
    void replacement_waits_for_the_running_job_and_can_be_replaced() {
        NewJob first = job("job", "{\"v\": 1}");
        unique.insertUnique(first, "k", UniquePolicy.KEEP);
        Claimed running = claimOne(one);
        NewJob second = job("job", "{\"v\": 2}");
        assertThat(unique.insertUnique(second, "k", UniquePolicy.REPLACE)).isEqualTo(second.id());
        assertThat(unique.insertUnique(job("job", "{\"v\": 3}"), "k", UniquePolicy.REPLACE))
                .isEqualTo(second.id());
        assertThat(claim(two, 10)).as("claims beside the replaced job").isEmpty();
        assertThat(reports.obstacles(second.id()).orElseThrow().waitsFor()).isEqualTo(first.id());

        // A failed attempt is not the end: the replaced job runs again first.
        finishes.finish(one, List.of(again(running, 0)));
        List<Claimed> repeated = claim(two, 10);
        assertThat(repeated).extracting(Claimed::id).containsExactly(first.id());
        finishes.finish(two, List.of(completed(repeated.get(0), null)));
        List<Claimed> after = claim(two, 10);
        assertThat(after).extracting(Claimed::id).containsExactly(second.id());
        assertThat(after.get(0).payload()).contains("3");
    }

    @Test
    void infinite_past_is_rejected_as_schedule() {
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> jdbc.sql("SELECT forge_enqueue('job', scheduled_at => '-infinity')")
                        .query((row, n) -> true)
                        .single());
    }
}
