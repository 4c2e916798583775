// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.within;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.UniqueJobStore.UniqueJob;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.dao.DataIntegrityViolationException;

/** Windows of unique keys, and debounced jobs. */
@ClusterPostgres
class UniqueJobStoreTests extends JobStoreFixture {

    private static final Duration HOUR = Duration.ofHours(1);

    private final ExecutorService threads = Executors.newFixedThreadPool(5);

    UniqueJobStoreTests(TestDatabase database) {
        super(database);
    }

    @AfterEach
    void stop() {
        threads.shutdownNow();
    }

    private static UniqueJob windowed(NewJob job, UniquePolicy policy, Duration window) {
        return new UniqueJob(job, "k", policy, window.toMillis(), null);
    }

    private UUID enqueue(Duration window) {
        return unique.insert(windowed(job("job"), UniquePolicy.KEEP, window));
    }

    private UUID enqueue() {
        return enqueue(HOUR);
    }

    private UUID debounce(String payload, Duration delay, Duration max) {
        var job = new NewJob(
                UUID.randomUUID(), "job", payload, 50, null, delay.toMillis(), null, null, "{}", null, List.of());
        return unique.insert(new UniqueJob(job, "k", UniquePolicy.KEEP, null, max.toMillis()));
    }

    private UUID debounce(String payload) {
        return debounce(payload, Duration.ofMinutes(10), HOUR);
    }

    private void complete() {
        jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = clock_timestamp() WHERE status = 'pending'")
                .update();
    }

    private void ageWindows(String age) {
        jdbc.sql("UPDATE forge_job_windows SET opened_at = opened_at - ?::interval, ends_at = ends_at - ?::interval")
                .params(age, age)
                .update();
    }

    private List<UUID> windows() {
        return jdbc.sql("SELECT job_id FROM forge_job_windows")
                .query(UUID.class)
                .list();
    }

    private long jobCount() {
        return jdbc.sql("SELECT count(*) FROM forge_jobs").query(Long.class).single();
    }

    /** Returns the time until the job is due, in seconds. */
    private double dueIn(UUID id) {
        return column(id, "extract(epoch FROM scheduled_at - clock_timestamp())", Double.class);
    }

    private void awaitWaitingSession() {
        await().until(() -> jdbc.sql("""
                SELECT count(*) = 1 FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """).query(Boolean.class).single());
    }

    // Windows -----------------------------------------------------------------------------------------------

    @Test
    void window_outlasts_its_completed_job() {
        UUID first = enqueue();
        assertThat(enqueue()).isEqualTo(first);
        finishes.finish(one, List.of(completed(claimOne(one), null)));
        assertThat(enqueue()).isEqualTo(first);
        ageWindows("59 minutes");
        assertThat(enqueue()).isEqualTo(first);
        ageWindows("2 minutes");
        UUID second = enqueue();
        assertThat(second).isNotEqualTo(first);
        complete();
        assertThat(enqueue()).isEqualTo(second);
        assertThat(windows()).containsExactly(second);
    }

    @Test
    void window_belongs_to_name_and_key() {
        UUID first = enqueue();
        complete();
        NewJob other = job("other");
        assertThat(unique.insert(windowed(other, UniquePolicy.KEEP, HOUR))).isEqualTo(other.id());
        NewJob otherKey = job("job");
        assertThat(unique.insert(new UniqueJob(otherKey, "l", UniquePolicy.KEEP, HOUR.toMillis(), null)))
                .isEqualTo(otherKey.id());
        assertThat(enqueue()).isEqualTo(first);
    }

    @Test
    void deleted_job_keeps_its_window() {
        UUID first = enqueue();
        complete();
        jdbc.sql("DELETE FROM forge_jobs").update();
        assertThat(enqueue()).isEqualTo(first);
        assertThat(jobCount()).isZero();
        jdbc.sql("DELETE FROM forge_job_windows").update();
        assertThat(enqueue()).isNotEqualTo(first);
    }

    @ParameterizedTest
    @ValueSource(strings = {"failed", "cancelled", "abandoned"})
    void job_that_did_not_complete_ends_its_window(String status) {
        UUID first = enqueue();
        jdbc.sql("UPDATE forge_jobs SET status = ?, finished_at = now()")
                .param(status)
                .update();
        UUID second = enqueue();
        assertThat(second).isNotEqualTo(first);
        complete();
        assertThat(enqueue()).isEqualTo(second);
    }

    @Test
    void purge_of_a_failed_job_does_not_revive_its_window() {
        for (String status : List.of("failed", "cancelled", "abandoned", "completed")) {
            for (String retention : new String[] {null, "1 hour"}) {
                empty();
                UUID first = enqueue(Duration.ofDays(9));
                jdbc.sql("""
                        UPDATE forge_jobs SET status = ?, finished_at = now() - interval '2 days', retention = ?::interval
                        """).params(status, retention).update();
                assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(1), ""), 10))
                        .isOne();
                assertThat(enqueue(Duration.ofDays(9)).equals(first)).as(status).isEqualTo(status.equals("completed"));
            }
        }
    }

    @Test
    void purge_of_a_failed_job_leaves_the_window_of_a_later_job() {
        enqueue();
        jdbc.sql("UPDATE forge_jobs SET status = 'failed', finished_at = now() - interval '2 days'")
                .update();
        UUID second = enqueue();
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(1), ""), 10))
                .isOne();
        assertThat(windows()).containsExactly(second);
    }

    @Test
    void shorter_window_counts() {
        UUID first = enqueue(HOUR);
        complete();
        ageWindows("10 minutes");
        assertThat(enqueue(Duration.ofHours(2))).isEqualTo(first);
        assertThat(enqueue(Duration.ofMinutes(11))).isEqualTo(first);
        UUID second = enqueue(Duration.ofMinutes(5));
        assertThat(second).isNotEqualTo(first);
        complete();
        ageWindows("6 minutes");
        assertThat(enqueue(Duration.ofHours(2))).isNotEqualTo(second);
    }

    @Test
    void active_job_is_returned_after_its_window_and_opens_none() {
        UUID first = enqueue();
        ageWindows("2 hours");
        assertThat(enqueue()).isEqualTo(first);
        complete();
        assertThat(enqueue()).isNotEqualTo(first);
    }

    @Test
    void active_job_without_a_window_is_returned() {
        NewJob plain = job("job");
        unique.insertUnique(plain, "k", UniquePolicy.KEEP);
        assertThat(enqueue()).isEqualTo(plain.id());
        assertThat(windows()).isEmpty();
    }

    @Test
    void replacement_changes_a_pending_job_and_creates_none_in_the_window() {
        NewJob first = job("job", "{\"v\": 1}");
        unique.insert(windowed(first, UniquePolicy.REPLACE, HOUR));
        assertThat(unique.insert(windowed(job("job", "{\"v\": 2}"), UniquePolicy.REPLACE, HOUR)))
                .isEqualTo(first.id());
        Claimed running = claimOne(one);
        assertThat(running.payload()).contains("2");
        assertThat(unique.insert(windowed(job("job", "{\"v\": 3}"), UniquePolicy.REPLACE, HOUR)))
                .isEqualTo(first.id());
        assertThat(jobCount()).isOne();

        // The window has ended, the job runs on: its replacement waits for it and has the next window.
        ageWindows("2 hours");
        NewJob next = job("job", "{\"v\": 4}");
        assertThat(unique.insert(windowed(next, UniquePolicy.REPLACE, HOUR))).isEqualTo(next.id());
        assertThat(claim(two, 10)).isEmpty();
        finishes.finish(one, List.of(completed(running, null)));
        assertThat(claim(two, 10)).extracting(Claimed::id).containsExactly(next.id());
        assertThat(windows()).containsExactly(next.id());
    }

    @Test
    void rejected_job_leaves_no_window() {
        var bad = new NewJob(UUID.randomUUID(), "job", "{}", 1_000, null, 0, null, null, "{}", null, List.of());
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> unique.insert(windowed(bad, UniquePolicy.KEEP, HOUR)));
        assertThat(windows()).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void second_caller_waits_for_the_transaction_of_the_first(boolean commits) throws Exception {
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT forge_enqueue('job', unique_key => 'k', unique_for => '1 hour')");
            NewJob mine = job("job");
            Future<UUID> waiting = threads.submit(() -> unique.insert(windowed(mine, UniquePolicy.KEEP, HOUR)));
            awaitWaitingSession();
            if (commits) {
                // Ends in the same transaction: the second caller finds the window, and no active job.
                statement.execute("UPDATE forge_jobs SET status = 'completed', finished_at = now()");
                other.commit();
                assertThat(waiting.get(1, TimeUnit.MINUTES)).isNotEqualTo(mine.id());
            } else {
                other.rollback();
                assertThat(waiting.get(1, TimeUnit.MINUTES)).isEqualTo(mine.id());
            }
            assertThat(windows()).containsExactly(waiting.get());
            assertThat(jobCount()).isOne();
        }
    }

    @Test
    void job_that_got_the_key_meanwhile_gets_the_window() throws Exception {
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT forge_enqueue('job', unique_key => 'k')");
            Future<UUID> waiting = threads.submit(() -> enqueue());
            awaitWaitingSession();
            other.commit();
            UUID plain = jdbc.sql("SELECT id FROM forge_jobs").query(UUID.class).single();
            assertThat(waiting.get(1, TimeUnit.MINUTES)).isEqualTo(plain);
            assertThat(windows()).containsExactly(plain);
        }
    }

    @Test
    void open_window_is_found_without_a_lock() throws Exception {
        UUID first = enqueue();
        complete();
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_job_windows FOR UPDATE");
            assertThat(threads.submit(() -> enqueue()).get(1, TimeUnit.MINUTES)).isEqualTo(first);
            other.rollback();
        }
    }

    @Test
    void concurrent_callers_get_one_job_even_if_it_ends_at_once() throws Exception {
        var done = new AtomicBoolean();
        Future<?> worker = threads.submit(() -> {
            while (!done.get() && !Thread.currentThread().isInterrupted()) {
                complete();
            }
        });
        for (int round = 0; round < 30; round++) {
            String key = "k" + round;
            UniquePolicy policy = round % 2 == 0 ? UniquePolicy.KEEP : UniquePolicy.REPLACE;
            Callable<UUID> caller = () -> unique.insert(new UniqueJob(job("job"), key, policy, HOUR.toMillis(), null));
            // Callers with a transaction that is rolled back.
            Callable<UUID> undecided = () -> transactions().execute(status -> {
                status.setRollbackOnly();
                unique.insert(new UniqueJob(job("job"), key, policy, HOUR.toMillis(), null));
                return null;
            });
            var ids = new HashSet<UUID>();
            for (Future<UUID> id : threads.invokeAll(List.of(undecided, caller, caller, undecided, caller))) {
                UUID found = id.get();
                if (found != null) {
                    ids.add(found);
                }
            }
            assertThat(ids).as(key).hasSize(1);
            assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE unique_key = ?")
                            .param(key)
                            .query(Long.class)
                            .single())
                    .isOne();
        }
        done.set(true);
        worker.get(1, TimeUnit.MINUTES);
    }

    @Test
    void ended_windows_are_purged_in_batches_and_locked_ones_are_skipped() throws Exception {
        jdbc.sql("""
                INSERT INTO forge_job_windows (name, unique_key, job_id, opened_at, ends_at)
                SELECT 'job', n::text, gen_random_uuid(), now() - interval '1 hour',
                       now() + CASE WHEN n <= 25 THEN -1 ELSE 1 END * interval '1 second' * (n + 60)
                FROM generate_series(1, 30) AS n
                """).update();
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_job_windows WHERE unique_key = '7' FOR UPDATE");
            assertThat(IntStream.range(0, 4).mapToObj(i -> unique.purgeWindows(10)))
                    .containsExactly(10, 10, 4, 0);
            other.rollback();
        }
        assertThat(unique.purgeWindows(10)).isOne();
        assertThat(windows()).hasSize(5);
    }

    // Debounce ----------------------------------------------------------------------------------------------

    @Test
    void each_call_moves_the_start_up_to_the_maximum() {
        UUID id = debounce("{\"v\": 1}");
        assertThat(dueIn(id)).isCloseTo(600, within(60.0));
        age("created_at", "20 minutes");
        age("scheduled_at", "20 minutes");
        assertThat(debounce("{\"v\": 2}")).isEqualTo(id);
        assertThat(dueIn(id)).isCloseTo(600, within(60.0));
        assertThat(column(id, "payload ->> 'v'", String.class)).isEqualTo("2");
        assertThat(jobCount()).isOne();

        age("created_at", "35 minutes");
        debounce("{\"v\": 3}");
        assertThat(column(id, "scheduled_at = created_at + interval '1 hour'", Boolean.class))
                .isTrue();

        age("created_at", "10 minutes");
        debounce("{\"v\": 4}");
        // Due now, not in the past: it must not overtake other jobs.
        assertThat(dueIn(id)).isBetween(-60.0, 0.0);
        assertThat(claimOne(one).payload()).contains("4");
    }

    @Test
    void maximum_that_equals_the_delay_keeps_the_start() {
        UUID id = debounce("{\"v\": 1}", HOUR, HOUR);
        age("created_at", "30 minutes");
        age("scheduled_at", "30 minutes");
        debounce("{\"v\": 2}", HOUR, HOUR);
        assertThat(dueIn(id)).isCloseTo(1_800, within(60.0));
        assertThat(column(id, "payload ->> 'v'", String.class)).isEqualTo("2");
    }

    @Test
    void running_job_is_not_moved_and_gets_one_successor() {
        UUID first = debounce("{\"v\": 1}");
        age("scheduled_at", "11 minutes");
        Claimed running = claimOne(one);
        UUID second = debounce("{\"v\": 2}");
        assertThat(second).isNotEqualTo(first);
        assertThat(debounce("{\"v\": 3}")).isEqualTo(second);
        assertThat(column(first, "payload ->> 'v'", String.class)).isEqualTo("1");
        assertThat(dueIn(second)).isCloseTo(600, within(60.0));
        finishes.finish(one, List.of(completed(running, null)));
        assertThat(claim(two, 10)).isEmpty();
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE id = ?")
                .param(second)
                .update();
        assertThat(claimOne(two).payload()).contains("3");
    }

    @Test
    void job_that_waits_for_its_next_attempt_is_moved_from_the_start_of_its_last_one() {
        UUID id = debounce("{\"v\": 1}");
        jdbc.sql("""
                UPDATE forge_jobs SET created_at = now() - interval '5 hours', started_at = now() - interval '30 minutes',
                    attempts = 2, last_error = 'oops', scheduled_at = now() + interval '1 minute'
                """).update();
        assertThat(debounce("{\"v\": 2}")).isEqualTo(id);
        assertThat(dueIn(id)).isCloseTo(600, within(60.0));
        assertThat(column(id, "attempts", Integer.class)).isZero();
    }

    @Test
    void concurrent_calls_move_one_job() throws Exception {
        Callable<UUID> caller = () -> debounce("{}");
        Callable<UUID> undecided = () -> transactions().execute(status -> {
            status.setRollbackOnly();
            debounce("{}");
            return null;
        });
        for (int round = 0; round < 20; round++) {
            empty();
            var ids = new HashSet<UUID>();
            for (Future<UUID> id : threads.invokeAll(List.of(undecided, caller, caller, undecided, caller))) {
                UUID found = id.get();
                if (found != null) {
                    ids.add(found);
                }
            }
            assertThat(ids).hasSize(1);
            assertThat(jobCount()).isOne();
        }
    }

    // Many at once ------------------------------------------------------------------------------------------

    @Test
    void batch_applies_the_rule_of_each_key_in_order() {
        UUID kept = enqueue();
        List<UniqueJob> batch = new ArrayList<>();
        batch.add(windowed(job("job"), UniquePolicy.KEEP, HOUR));
        batch.add(new UniqueJob(job("job", "{\"v\": 1}"), "l", UniquePolicy.REPLACE, null, null));
        batch.add(new UniqueJob(job("job", "{\"v\": 2}"), "l", UniquePolicy.REPLACE, null, null));
        batch.add(new UniqueJob(job("job", "{\"v\": 1}"), "m", UniquePolicy.KEEP, null, null));
        batch.add(new UniqueJob(job("job", "{\"v\": 2}"), "m", UniquePolicy.KEEP, null, null));
        UUID l = batch.get(1).job().id();
        UUID m = batch.get(3).job().id();
        assertThat(unique.insertAll(batch)).containsExactly(kept, l, l, m, m);
        assertThat(column(l, "payload ->> 'v'", String.class)).isEqualTo("2");
        assertThat(column(m, "payload ->> 'v'", String.class)).isEqualTo("1");
    }

    @Test
    void row_that_contradicts_itself_does_not_keep_an_enqueuer_for_ever() {
        // A job that waits does not run. Such a job cannot be replaced, and no other one can wait beside it.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, unique_key, status, waits_for)
                SELECT gen_random_uuid(), 'job', 'k', 'running', w FROM unnest(ARRAY[NULL, gen_random_uuid()]) AS w
                """).update();

        assertThatExceptionOfType(ConcurrencyFailureException.class)
                .isThrownBy(() -> debounce("1"))
                .withMessageContaining("inconsistent");
        assertThatExceptionOfType(ConcurrencyFailureException.class)
                .isThrownBy(() -> unique.insertUnique(job("job"), "k", UniquePolicy.REPLACE))
                .withMessageContaining("inconsistent");
    }

    @Test
    void replaced_job_is_found_by_its_new_tags_only() {
        UUID replaced = unique.insertUnique(tagged(), "k", UniquePolicy.KEEP);
        for (List<String> tags : List.of(List.of("red", "big"), List.of("big", "blue"), List.<String>of())) {
            assertThat(unique.insertUnique(tagged(tags.toArray(String[]::new)), "k", UniquePolicy.REPLACE))
                    .isEqualTo(replaced);
            assertThat(tagsOf(replaced)).containsExactlyInAnyOrderElementsOf(tags);
        }
    }

    @Test
    void debounced_job_is_found_by_its_new_tags_only() {
        UUID debounced = unique.insert(new UniqueJob(tagged(), "k", UniquePolicy.KEEP, null, HOUR.toMillis()));
        for (List<String> tags : List.of(List.of("red", "big"), List.of("big", "blue"), List.<String>of())) {
            var job = new UniqueJob(tagged(tags.toArray(String[]::new)), "k", UniquePolicy.KEEP, null, HOUR.toMillis());
            assertThat(unique.insert(job)).isEqualTo(debounced);
            assertThat(tagsOf(debounced)).containsExactlyInAnyOrderElementsOf(tags);
        }
    }

    private static NewJob tagged(String... tags) {
        return new NewJob(UUID.randomUUID(), "job", "1", 50, null, 60_000, null, null, "{}", null, List.of(tags));
    }

    private List<String> tagsOf(UUID id) {
        return jdbc.sql("SELECT tag FROM forge_job_tags WHERE job_id = ?")
                .param(id)
                .query(String.class)
                .list();
    }
}
