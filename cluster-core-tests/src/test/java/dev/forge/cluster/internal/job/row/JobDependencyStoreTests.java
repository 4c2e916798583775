// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static dev.forge.cluster.internal.job.row.JobDependencyStore.MOST_DEPENDENCIES;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Candidate;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Decided;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Decision;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Waiter;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JobDependencyStoreTests extends JobStoreFixture {

    private static final int WAITING = 6_000;
    private static final int PREDECESSORS = 60;

    private final JobDependencyStore dependencies;

    JobDependencyStoreTests(TestDatabase database) {
        super(database);
        this.dependencies = new JobDependencyStore(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    /** Makes many jobs wait for one, and returns some of them. */
    private List<UUID> waitingFor(UUID one) {
        jdbc.sql("""
                WITH added AS (
                    INSERT INTO forge_jobs (id, name, waits_for)
                    SELECT n.id, 'job', n.id FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, ?)) n RETURNING id)
                INSERT INTO forge_job_dependencies (job_id, after_id, anyway) SELECT id, ?, false FROM added
                """).params(WAITING, one).update();
        return jdbc.sql("SELECT job_id FROM forge_job_dependencies ORDER BY job_id LIMIT 500")
                .query(UUID.class)
                .list();
    }

    private static List<Candidate> candidates(List<UUID> jobs, boolean whole) {
        return jobs.stream().map(id -> new Candidate(id, null, whole)).toList();
    }

    /** Calls the store in a transaction, which may read that number of rows. */
    private <T> T reading(long mostRows, Supplier<T> call) {
        return Objects.requireNonNull(transactions().execute(status -> {
            // Of earlier transactions of the session, too.
            long before = rowsRead();
            T result = call.get();
            assertThat(rowsRead() - before).isLessThan(mostRows);
            return result;
        }));
    }

    private long rowsRead() {
        return jdbc.sql("""
                SELECT coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0) FROM pg_stat_xact_user_tables
                """).query(Long.class).single();
    }

    @Test
    void decision_reads_no_whole_table_for_each_of_many_jobs_that_wait_for_one() {
        UUID one = UUID.randomUUID();
        List<UUID> some = waitingFor(one);
        jdbc.sql("ANALYZE forge_jobs, forge_job_dependencies").update();

        assertThat(reading(5L * WAITING, () -> dependencies.decide(candidates(some, true), MOST_DEPENDENCIES))
                        .jobs())
                .hasSize(500);
        assertThat(reading(5L * WAITING, () -> dependencies.waiters(some, null)))
                .isEmpty();
    }

    @Test
    void jobs_that_wait_for_one_are_read_page_by_page() {
        UUID one = UUID.randomUUID();
        UUID other = waitingFor(one).get(0);
        var read = new HashSet<UUID>();
        UUID last = null;
        List<Waiter> page;
        do {
            page = dependencies.waiters(List.of(one), last);
            page.forEach(waiter -> read.add(waiter.job()));
            last = page.isEmpty() ? null : page.get(page.size() - 1).job();
        } while (page.size() == JobDependencyStore.MOST_JOBS);
        assertThat(read).hasSize(WAITING);
        assertThat(dependencies.waiters(List.of(UUID.randomUUID(), other), null))
                .containsExactly(new Waiter(2, other, true, false));
    }

    @Test
    void decision_skips_jobs_that_another_node_has_decided_about_meanwhile() {
        List<UUID> some = waitingFor(UUID.randomUUID());
        // As another node does that has not yet deleted their dependencies.
        jdbc.sql("UPDATE forge_jobs SET waits_for = NULL WHERE id = ANY (?)")
                .param(some.subList(0, 400).toArray(UUID[]::new))
                .update();
        Decision decision = dependencies.decide(candidates(some, true), MOST_DEPENDENCIES);
        assertThat(decision.examined()).isEqualTo(500);
        assertThat(decision.jobs()).extracting(Decided::id).containsExactlyInAnyOrderElementsOf(some.subList(400, 500));
    }

    @Test
    void sweep_finds_each_waiting_job_once_and_forgets_those_that_no_longer_wait() {
        List<UUID> some = waitingFor(UUID.randomUUID());
        jdbc.sql(
                        "INSERT INTO forge_job_dependencies (job_id, after_id, anyway) SELECT ?, gen_random_uuid(), false FROM generate_series(1, 20000)")
                .param(some.get(0))
                .update();
        assertThat(dependencies.next(null, 500)).isEqualTo(some);
        assertThat(dependencies.next(some.get(249), 250)).isEqualTo(some.subList(250, 500));
        assertThat(reading(5_000, () -> dependencies.next(null, 500))).hasSize(500);
        jdbc.sql("UPDATE forge_jobs SET status = 'cancelled', finished_at = now() WHERE id = ?")
                .param(some.get(0))
                .update();
        assertThat(dependencies.forgetOthers(some)).isEqualTo(MOST_DEPENDENCIES);
        assertThat(dependencies.forgetOthers(some)).isEqualTo(1);
        assertThat(dependencies.next(null, 2)).isEqualTo(some.subList(1, 3));
    }

    /** Makes as many jobs wait as one statement decides about, each for {@link #PREDECESSORS} jobs of which only one is active: the one in that place. */
    private List<UUID> waitingForEach(int active) {
        jdbc.sql("""
                WITH first AS (
                    INSERT INTO forge_jobs (id, name, status, finished_at)
                    SELECT ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'first',
                           CASE n WHEN :active THEN 'running' ELSE 'completed' END, CASE WHEN n <> :active THEN now() END
                    FROM generate_series(1, :predecessors) n RETURNING id),
                second AS (
                    INSERT INTO forge_jobs (id, name, waits_for)
                    SELECT n.id, 'second', n.id FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, :jobs)) n RETURNING id)
                INSERT INTO forge_job_dependencies (job_id, after_id, anyway) SELECT s.id, f.id, false FROM second s, first f
                """)
                .param("active", active)
                .param("predecessors", PREDECESSORS)
                .param("jobs", JobDependencyStore.MOST_JOBS)
                .update();
        return dependencies.next(null, JobDependencyStore.MOST_JOBS);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void decision_about_jobs_that_wait_for_many_reads_and_deletes_a_limited_number_of_rows(boolean statistics) {
        List<UUID> waiting = waitingForEach(PREDECESSORS);
        if (statistics) {
            jdbc.sql("ANALYZE forge_jobs, forge_job_dependencies").update();
        }
        // The last one shows that each job still waits.
        assertThat(reading(
                        20L * waiting.size(), () -> dependencies.decide(candidates(waiting, false), MOST_DEPENDENCIES)))
                .isEqualTo(new Decision(List.of(), waiting.size()));
        jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now() WHERE name = 'first'")
                .update();
        var released = new HashSet<UUID>();
        for (int from = 0; from < waiting.size(); ) {
            List<Candidate> rest = candidates(waiting.subList(from, waiting.size()), false);
            Decision decision = reading(6L * MOST_DEPENDENCIES, () -> dependencies.decide(rest, MOST_DEPENDENCIES));
            decision.jobs().forEach(job -> released.add(job.id()));
            from += decision.examined();
        }
        assertThat(released).hasSameElementsAs(waiting);
        assertThat(dependencies.exist()).isFalse();
    }

    @Test
    void failed_job_among_many_cancels_those_that_wait_for_it_while_others_are_active() {
        List<UUID> waiting = waitingForEach(PREDECESSORS);
        UUID failed = UUID.fromString("01900000-0000-7000-8000-000000000030");
        jdbc.sql("UPDATE forge_jobs SET status = 'failed' WHERE id = ?")
                .param(failed)
                .update();
        assertThat(dependencies
                        .decide(candidates(waiting.subList(0, 1), false), 1_000)
                        .jobs())
                .isEmpty();
        assertThat(dependencies.waiters(List.of(failed), null))
                .hasSize(waiting.size())
                .allMatch(Waiter::failed);
        assertThat(dependencies
                        .decide(List.of(new Candidate(waiting.get(0), failed, false)), 1_000)
                        .jobs())
                .containsExactly(new Decided(waiting.get(0), null, true, false));
        assertThat(dependencies
                        .decide(candidates(waiting.subList(1, 2), true), 1_000)
                        .jobs())
                .containsExactly(new Decided(waiting.get(1), null, true, false));
        // Retried meanwhile.
        jdbc.sql("UPDATE forge_jobs SET status = 'pending' WHERE id = ?")
                .param(failed)
                .update();
        assertThat(dependencies
                        .decide(List.of(new Candidate(waiting.get(2), failed, false)), 1_000)
                        .jobs())
                .isEmpty();
    }

    @Test
    void job_with_more_dependencies_than_a_statement_reads_is_decided_about() {
        List<UUID> waiting = waitingForEach(0);
        Decision decision = dependencies.decide(candidates(waiting, false), PREDECESSORS - 10);
        assertThat(decision.examined()).isEqualTo(1);
        assertThat(decision.jobs()).extracting(Decided::id).containsExactly(waiting.get(0));
    }
}
