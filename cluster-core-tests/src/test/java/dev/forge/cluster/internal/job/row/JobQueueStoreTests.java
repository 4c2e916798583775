// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobQueueStore.Head;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Searches for queues with due jobs. */
@ClusterPostgres
class JobQueueStoreTests extends JobStoreFixture {

    JobQueueStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void search_finds_queues_by_urgency_and_the_time_of_the_next_job() {
        jobs.insert(new NewJob(UUID.randomUUID(), "job", "{}", 25, null, 0, null, null, "{}", null, List.of()));
        jobs.insert(new NewJob(UUID.randomUUID(), "job", "{}", 75, null, 0, null, null, "{}", null, List.of()));
        jobs.insert(new NewJob(UUID.randomUUID(), "other", "{}", 100, "gpu", 0, null, null, "{}", null, List.of()));
        jobs.insert(new NewJob(UUID.randomUUID(), "other", "{}", 100, null, 30_000, null, null, "{}", null, List.of()));
        jobs.insert(job("unknown"));
        jobs.insert(job("paused"));
        names.pause("paused");
        JobQueueStore.Queues seen = queues.queues(List.of("job", "other", "paused"), List.of("", "general"));
        assertThat(seen.due())
                .extracting(Head::queue)
                .containsExactly(Queue.ungrouped("job", "", 75), Queue.ungrouped("job", "", 25));
        assertThat(seen.nextMillis()).isBetween(1L, 30_000L);
        assertThat(queues.queues(List.of("other"), List.of("", "gpu")).due())
                .extracting(Head::queue)
                .containsExactly(Queue.ungrouped("other", "gpu", 100));
    }

    @Test
    void search_sees_the_most_urgent_queues_of_a_name_and_continues_with_the_others() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, priority, scheduled_at)
                SELECT gen_random_uuid(), name, priority, now() - interval '1 minute'
                FROM unnest(ARRAY['job', 'other']) AS name, generate_series(1, 11) AS priority
                WHERE name = 'job' OR priority < 3
                """).update();
        Map<JobQueueStore.Place, Integer> continued = Map.of();
        var seen = new ArrayList<List<Integer>>();
        for (int i = 0; i < 4; i++) {
            JobQueueStore.Queues found = queues.queues(
                    new JobQueueStore.Search(List.of("job", "other"), List.of(""), Map.of(), 3, continued));
            assertThat(found.due().stream()
                            .filter(head -> head.queue().name().equals("other"))
                            .map(head -> head.queue().priority()))
                    .containsExactly(2, 1);
            seen.add(found.due().stream()
                    .filter(head -> head.queue().name().equals("job"))
                    .map(head -> head.queue().priority())
                    .toList());
            continued = found.unseen();
        }
        assertThat(seen)
                .containsExactly(
                        List.of(11, 10, 9),
                        List.of(11, 10, 9, 8, 7, 6),
                        List.of(11, 10, 9, 5, 4, 3),
                        List.of(11, 10, 9, 2, 1));
    }

    @Test
    void recent_search_finds_every_priority_but_nothing_older_than_its_reach() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, priority, scheduled_at)
                SELECT gen_random_uuid(), 'job', n, now() - n * interval '1 minute' FROM generate_series(1, 30) AS n
                """).update();
        assertThat(queues.recentQueues(List.of("job"), List.of(""), Duration.ofSeconds(630))
                        .due())
                .hasSize(10)
                .allSatisfy(head -> assertThat(head.queue().priority()).isLessThanOrEqualTo(10));
    }

    @Test
    void search_and_claim_among_jobs_of_the_same_time_read_no_dead_entries() throws Exception {
        int finished = 5_000;
        rows(finished, "name, scheduled_at", "'job', date_trunc('hour', now()) - interval '1 hour'");
        try (Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs LIMIT 1");
            jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now()")
                    .update();
            rows(20, "name, scheduled_at", "'job', date_trunc('hour', now()) - interval '1 hour'");
            List<String> names = List.of("job");
            List<String> capabilities = List.of("");
            JobQueueStore.Queues whole = queues.queues(names, capabilities);
            JobQueueStore.Queues marked = queues.queues(names, capabilities, whole.marks());
            assertThat(marked.due()).isEqualTo(whole.due()).hasSize(1);
            assertThat(reads(() -> queues.queues(names, capabilities))).isGreaterThan(finished);
            assertThat(reads(() -> queues.queues(names, capabilities, whole.marks())))
                    .isLessThan(20);
            var claiming = new Claiming(one, 10, 0, 10, LEASE);
            Mark head = marked.due().get(0).mark();
            List<Claimed> first = new ArrayList<>();
            assertThat(reads(() -> first.addAll(claims.claim(QUEUE, head, claiming))))
                    .isLessThan(100);
            assertThat(first).hasSize(10);
            assertThat(claims.claim(QUEUE, first.get(9).mark(), claiming))
                    .hasSize(10)
                    .extracting(Claimed::id)
                    .doesNotContainAnyElementsOf(first.stream().map(Claimed::id).toList());
            holder.rollback();
        }
    }

    @Test
    void search_from_marks_reads_no_dead_entries() throws Exception {
        // Few enough for the timeout of a search on a busy machine.
        int finished = 5_000;
        // Marks stay a second behind the clock.
        rows(finished, "name, scheduled_at", "'job', clock_timestamp() - interval '5 seconds'");
        try (Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs LIMIT 1");
            jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now()")
                    .update();
            UUID due = insert();
            List<String> names = List.of("job", "other");
            List<String> capabilities = List.of("", "general");
            JobQueueStore.Queues whole = queues.queues(names, capabilities);
            JobQueueStore.Queues marked = queues.queues(names, capabilities, whole.marks());
            // On one connection, on which the statements are prepared.
            transactions().executeWithoutResult(status -> {
                long[] best = {Long.MAX_VALUE, Long.MAX_VALUE};
                for (int i = 0; i < 10; i++) {
                    long start = System.nanoTime();
                    queues.queues(names, capabilities);
                    long marking = System.nanoTime();
                    queues.queues(names, capabilities, whole.marks());
                    best[0] = Math.min(best[0], marking - start);
                    best[1] = Math.min(best[1], System.nanoTime() - marking);
                }
                System.out.printf(
                        "search through %d dead entries: %d us, from its marks %d us%n",
                        finished, best[0] / 1_000, best[1] / 1_000);
            });
            assertThat(marked.due()).isEqualTo(whole.due()).hasSize(1);
            assertThat(reads(() -> queues.queues(names, capabilities))).isGreaterThan(finished);
            assertThat(reads(() -> queues.queues(names, capabilities, whole.marks())))
                    .isLessThan(20);

            // The same if no job is left; a job that is enqueued then is found.
            jdbc.sql("UPDATE forge_jobs SET status = 'completed' WHERE id = ?")
                    .param(due)
                    .update();
            Map<Queue, Mark> marks = marked.marks();
            assertThat(queues.queues(names, capabilities, marks).due()).isEmpty();
            assertThat(reads(() -> queues.queues(names, capabilities, marks))).isLessThan(20);
            insert();
            assertThat(queues.queues(names, capabilities, marks).due())
                    .extracting(Head::queue)
                    .containsExactly(QUEUE);
            holder.rollback();
        }
    }

    private void insertOutOfOrder(int priority, String capability) {
        NewJob job = urgent(priority, capability, null);
        jobs.insert(job);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() - interval '1 hour' WHERE id = ?")
                .param(job.id())
                .update();
    }

    @Test
    void marks_hide_only_jobs_that_came_out_of_order() {
        List<String> names = List.of("job");
        List<String> capabilities = List.of("", "gpu");
        jobs.insert(urgent(50, null, null));
        jobs.insert(urgent(25, null, null));
        // A minute old, so that the marks equal the times of the jobs.
        age("scheduled_at", "1 minute");
        JobQueueStore.Queues seen = queues.queues(names, capabilities);
        assertThat(seen.marks()).containsOnlyKeys(Queue.ungrouped("job", "", 50), Queue.ungrouped("job", "", 25));
        assertThat(queues.queues(names, capabilities, seen.marks())).isEqualTo(seen);

        // Above, between and below the known queues, and for another capability.
        for (int priority : List.of(100, 49, 51, 26, 0)) {
            insertOutOfOrder(priority, null);
        }
        insertOutOfOrder(50, "gpu");
        JobQueueStore.Queues more = queues.queues(names, capabilities, seen.marks());
        assertThat(more).isEqualTo(queues.queues(names, capabilities));
        assertThat(more.due())
                .extracting(head -> head.queue().priority())
                .containsExactly(100, 51, 50, 50, 49, 26, 25, 0);

        // In a known queue, a job before the mark is found only by a complete search.
        insertOutOfOrder(50, null);
        assertThat(queues.queues(names, capabilities, more.marks()).due()).isEqualTo(more.due());
        assertThat(queues.queues(names, capabilities).due()).isNotEqualTo(more.due());

        // A job of a transaction that took less than a second is in order.
        jdbc.sql("DELETE FROM forge_jobs").update();
        JobQueueStore.Queues none = queues.queues(names, capabilities, more.marks());
        jobs.insert(urgent(50, null, null));
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = scheduled_at - interval '900 milliseconds'")
                .update();
        assertThat(none.due()).isEmpty();
        assertThat(queues.queues(names, capabilities, none.marks()).due()).hasSize(1);
    }

    @Test
    void later_job_is_announced_from_marks_and_job_at_infinity_hides_none() {
        jobs.insert(urgent(50, null, null));
        JobQueueStore.Queues seen = queues.queues(List.of("job"), List.of(""));
        assertThat(seen.nextMillis()).isNull();
        // Inserted by hand; forge_enqueue refuses such a time.
        for (int priority : new int[] {50, 1}) {
            jdbc.sql("""
                    INSERT INTO forge_jobs (id, name, priority, scheduled_at)
                    VALUES (gen_random_uuid(), 'job', ?, 'infinity')
                    """).param(priority).update();
        }
        jobs.insert(new NewJob(UUID.randomUUID(), "job", "{}", 50, null, 30_000, null, null, "{}", null, List.of()));
        for (JobQueueStore.Queues found : List.of(
                queues.queues(List.of("job"), List.of("")), queues.queues(List.of("job"), List.of(""), seen.marks()))) {
            assertThat(found.nextMillis()).isBetween(1L, 30_000L);
            assertThat(found.due()).hasSize(1);
        }
        jdbc.sql("DELETE FROM forge_jobs WHERE scheduled_at <= now()").update();
        assertThat(queues.queues(List.of("job"), List.of(""), seen.marks()).nextMillis())
                .isBetween(1L, 30_000L);
        assertThat(jdbc.sql("SELECT id FROM forge_jobs WHERE scheduled_at = 'infinity'")
                        .query(UUID.class)
                        .list())
                .hasSize(2)
                .allSatisfy(id -> assertThat(reports.obstacles(id).orElseThrow().dueInMillis())
                        .isPositive());
    }
}
