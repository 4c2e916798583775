package dev.forge.cluster.internal.store;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.JobStatus;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.UniquePolicy;
import dev.forge.cluster.internal.store.JobStore.ClaimKey;
import dev.forge.cluster.internal.store.JobStore.Claimed;
import dev.forge.cluster.internal.store.JobStore.Claiming;
import dev.forge.cluster.internal.store.JobStore.CrashRule;
import dev.forge.cluster.internal.store.JobStore.Finish;
import dev.forge.cluster.internal.store.JobStore.Head;
import dev.forge.cluster.internal.store.JobStore.NewJob;
import dev.forge.cluster.internal.store.JobStore.Queue;
import dev.forge.cluster.internal.store.JobStore.Recovered;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** What the statements about jobs do, one at a time and against each other. */
@ClusterPostgres
class JobStoreTests {

    private static final Duration LEASE = Duration.ofSeconds(60);
    private static final Duration START_TIMEOUT = Duration.ofMinutes(5);
    private static final CrashRule REQUEUE = new CrashRule(false, 10, 3);
    private static final Queue QUEUE = new Queue("job", "", 50);

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final JobStore jobs;
    private final UUID one = UUID.randomUUID();
    private final UUID two = UUID.randomUUID();

    JobStoreTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.jobs =
                new JobStore(Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    @BeforeEach
    void empty() {
        jdbc.sql("TRUNCATE forge_jobs, forge_nodes, forge_job_pauses").update();
        node(one, "active");
        node(two, "active");
    }

    private void node(UUID id, String status) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                VALUES (:id, :key, 'n', 'h', '{worker}', :status, '1', now() + interval '1 hour', now() + interval '1 hour')
                """)
                .param("id", id)
                .param("key", id.toString())
                .param("status", status)
                .update();
    }

    private static NewJob job(String name) {
        return new NewJob(UUID.randomUUID(), name, "{}", 50, null, 0, null, null, "{}");
    }

    private static NewJob job(String name, String payload) {
        return new NewJob(UUID.randomUUID(), name, payload, 50, null, 0, null, null, "{}");
    }

    private UUID insert() {
        NewJob job = job("job");
        jobs.insert(job);
        return job.id();
    }

    private List<Claimed> claim(UUID node, int limit) {
        return jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(node, limit, limit, 10, LEASE));
    }

    private Claimed claimOne(UUID node) {
        return claim(node, 1).get(0);
    }

    private static ClaimKey key(Claimed claimed) {
        return new ClaimKey(claimed.id(), claimed.epoch());
    }

    private static Finish completed(Claimed claimed, String result) {
        return new Finish(key(claimed), JobStatus.COMPLETED, result, null, 0, 0, null, null, null, 5L);
    }

    private static Finish again(Claimed claimed, long delayMillis) {
        return new Finish(key(claimed), JobStatus.PENDING, null, "oops", delayMillis, 0, null, null, null, 5L);
    }

    private String status(UUID id) {
        return jdbc.sql("SELECT status FROM forge_jobs WHERE id = ?")
                .param(id)
                .query(String.class)
                .single();
    }

    private <T> T column(UUID id, String column, Class<T> type) {
        return jdbc.sql("SELECT %s FROM forge_jobs WHERE id = ?".formatted(column))
                .param(id)
                .query(type)
                .single();
    }

    // Claiming

    @Test
    void two_workers_claim_one_job_and_one_of_them_gets_it() throws Exception {
        for (int round = 0; round < 20; round++) {
            insert();
            var threads = Executors.newFixedThreadPool(2);
            try {
                List<Callable<List<Claimed>>> both = List.of(() -> claim(one, 10), () -> claim(two, 10));
                int sum = 0;
                for (Future<List<Claimed>> claimed : threads.invokeAll(both)) {
                    sum += claimed.get().size();
                }
                assertThat(sum).isOne();
            } finally {
                threads.shutdown();
            }
        }
    }

    @Test
    void many_claimers_take_every_job_once() throws Exception {
        jobs.insertAll(IntStream.range(0, 1_000).mapToObj(i -> job("job")).toList());
        var threads = Executors.newFixedThreadPool(4);
        try {
            Callable<List<UUID>> claimer = () -> {
                var taken = new ArrayList<UUID>();
                List<Claimed> batch = claim(one, 7);
                while (!batch.isEmpty()) {
                    batch.forEach(claimed -> taken.add(claimed.id()));
                    batch = claim(one, 7);
                }
                return taken;
            };
            var all = new ArrayList<UUID>();
            for (Future<List<UUID>> taken : threads.invokeAll(List.of(claimer, claimer, claimer, claimer))) {
                all.addAll(taken.get());
            }
            assertThat(all).hasSize(1_000).doesNotHaveDuplicates();
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void a_claim_marks_what_starts_at_once_and_what_waits() {
        IntStream.range(0, 5).forEach(i -> insert());
        List<Claimed> claimed = jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(one, 5, 2, 10, LEASE));
        assertThat(claimed).extracting(Claimed::started).containsExactly(true, true, false, false, false);
        assertThat(claimed).allSatisfy(job -> {
            assertThat(job.attempt()).isOne();
            assertThat(job.epoch()).isOne();
            assertThat(status(job.id())).isEqualTo(job.started() ? "running" : "claimed");
        });
        jobs.start(one, claimed.stream().map(JobStoreTests::key).toList());
        assertThat(claimed).allSatisfy(job -> assertThat(status(job.id())).isEqualTo("running"));
    }

    @Test
    void a_node_that_is_not_active_claims_nothing() {
        insert();
        for (String status : List.of("joining", "stale", "draining", "dead")) {
            jdbc.sql("UPDATE forge_nodes SET status = ? WHERE id = ?")
                    .params(status, one)
                    .update();
            assertThat(claim(one, 1)).as(status).isEmpty();
        }
        assertThat(claim(UUID.randomUUID(), 1)).isEmpty();
    }

    @Test
    void a_look_finds_queues_by_urgency_and_says_when_the_next_job_is_due() {
        jobs.insert(new NewJob(UUID.randomUUID(), "job", "{}", 25, null, 0, null, null, "{}"));
        jobs.insert(new NewJob(UUID.randomUUID(), "job", "{}", 75, null, 0, null, null, "{}"));
        jobs.insert(new NewJob(UUID.randomUUID(), "other", "{}", 100, "gpu", 0, null, null, "{}"));
        jobs.insert(new NewJob(UUID.randomUUID(), "other", "{}", 100, null, 30_000, null, null, "{}"));
        jobs.insert(job("unknown"));
        jobs.insert(job("paused"));
        jobs.pause("paused");
        JobStore.Queues seen = jobs.queues(List.of("job", "other", "paused"), List.of("", "general"));
        assertThat(seen.due())
                .extracting(Head::queue)
                .containsExactly(new Queue("job", "", 75), new Queue("job", "", 25));
        assertThat(seen.nextMillis()).isBetween(25_000L, 30_000L);
        assertThat(jobs.queues(List.of("other"), List.of("", "gpu")).due())
                .extracting(Head::queue)
                .containsExactly(new Queue("other", "gpu", 100));
    }

    @Test
    void a_paused_name_is_not_claimed_even_from_a_queue_that_was_seen_before() {
        insert();
        jobs.pause("job");
        assertThat(claim(one, 1)).isEmpty();
        assertThat(jobs.paused()).containsExactly("job");
        assertThat(jobs.resume("job")).isTrue();
        assertThat(jobs.resume("job")).isFalse();
        assertThat(claim(one, 1)).hasSize(1);
    }

    // Guards

    @Test
    void a_holder_of_an_old_epoch_writes_nothing() {
        UUID id = insert();
        Claimed old = claimOne(one);
        assertThat(jobs.finish(one, List.of(again(old, 0)))).isEmpty();
        Claimed current = claimOne(one);
        assertThat(current.epoch()).isEqualTo(2);
        assertThat(current.attempt()).isEqualTo(2);

        assertThat(jobs.finish(one, List.of(completed(old, "1")))).containsExactly(key(old));
        assertThat(jobs.finish(one, List.of(again(old, 0)))).containsExactly(key(old));
        assertThat(jobs.finish(two, List.of(completed(current, "1")))).containsExactly(key(current));
        assertThat(jobs.note(one, key(old), "{}", "{}")).isFalse();
        assertThat(jobs.note(two, key(current), "{}", "{}")).isFalse();
        assertThat(jobs.renew(one, List.of(key(old)), LEASE)).containsExactly(key(old));
        assertThat(jobs.renew(two, List.of(key(current)), LEASE)).containsExactly(key(current));
        jobs.start(one, List.of(key(old)));
        assertThat(status(id)).isEqualTo("running");
        assertThat(column(id, "result IS NULL", Boolean.class)).isTrue();

        assertThat(jobs.renew(one, List.of(key(current)), LEASE)).isEmpty();
        assertThat(jobs.finish(one, List.of(completed(current, "1")))).isEmpty();
        assertThat(status(id)).isEqualTo("completed");
    }

    @Test
    void a_finish_whose_answer_got_lost_may_be_repeated() {
        insert();
        Claimed claimed = claimOne(one);
        assertThat(jobs.finish(one, List.of(completed(claimed, "1")))).isEmpty();
        assertThat(jobs.finish(one, List.of(completed(claimed, "1")))).isEmpty();
        assertThat(jobs.finish(two, List.of(completed(claimed, "1")))).containsExactly(key(claimed));
    }

    @Test
    void a_batch_with_lost_claims_finishes_the_others() {
        IntStream.range(0, 10).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 10);
        jdbc.sql("UPDATE forge_jobs SET claim_epoch = 7 WHERE id = ?")
                .param(claimed.get(3).id())
                .update();
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?")
                .param(claimed.get(4).id())
                .update();
        Set<ClaimKey> lost = jobs.finish(
                one, claimed.stream().map(one -> completed(one, "{}")).toList());
        assertThat(lost).containsExactlyInAnyOrder(key(claimed.get(3)), key(claimed.get(4)));
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'completed'")
                        .query(Long.class)
                        .single())
                .isEqualTo(8);
    }

    @Test
    void a_row_that_somebody_has_locked_is_busy_and_not_lost() throws Exception {
        UUID id = insert();
        Claimed claimed = claimOne(one);
        try (Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(id));
            assertThat(jobs.renew(one, List.of(key(claimed)), LEASE)).isEmpty();
            holder.rollback();
        }
    }

    @Test
    void two_batches_that_share_rows_do_not_wait_for_each_other() throws Exception {
        IntStream.range(0, 200).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 200);
        var threads = Executors.newFixedThreadPool(2);
        try {
            List<Claimed> reversed = new ArrayList<>(claimed);
            java.util.Collections.reverse(reversed);
            for (int round = 0; round < 20; round++) {
                Callable<Object> forth = () -> jobs.finish(
                        one, claimed.stream().map(one -> completed(one, "{}")).toList());
                Callable<Object> back = () -> jobs.renew(
                        one, reversed.stream().map(JobStoreTests::key).toList(), LEASE);
                for (Future<Object> done : threads.invokeAll(List.of(forth, back))) {
                    done.get();
                }
                jdbc.sql("UPDATE forge_jobs SET status = 'running'").update();
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void retention_zero_deletes_at_completion() {
        UUID id = insert();
        Claimed claimed = claimOne(one);
        var finish = new Finish(key(claimed), JobStatus.COMPLETED, null, null, 0, 0, null, null, Duration.ZERO, 1L);
        assertThat(jobs.finish(one, List.of(finish))).isEmpty();
        assertThat(jobs.find(id)).isEmpty();
    }

    @Test
    void what_was_claimed_without_the_nodes_knowing_goes_back() {
        IntStream.range(0, 3).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 3);
        UUID known = claimed.get(0).id();
        assertThat(jobs.returnUnknown(one, List.of(known), Duration.ofSeconds(15)))
                .as("claims under way are left alone")
                .isZero();
        jdbc.sql("UPDATE forge_jobs SET claimed_at = claimed_at - interval '1 minute'")
                .update();
        assertThat(jobs.returnUnknown(one, List.of(known), Duration.ofSeconds(15)))
                .isEqualTo(2);
        assertThat(status(known)).isEqualTo("running");
        assertThat(claim(two, 3))
                .hasSize(2)
                .allSatisfy(job -> assertThat(job.attempt()).isOne());
    }

    // Unique keys

    @Test
    void a_key_belongs_to_one_active_job() {
        NewJob first = job("job");
        assertThat(jobs.insertUnique(first, "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        assertThat(jobs.insertUnique(job("job"), "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        NewJob other = job("other");
        assertThat(jobs.insertUnique(other, "k", UniquePolicy.KEEP)).isEqualTo(other.id());
        Claimed claimed = claimOne(one);
        assertThat(jobs.insertUnique(job("job"), "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        jobs.finish(one, List.of(completed(claimed, null)));
        NewJob next = job("job");
        assertThat(jobs.insertUnique(next, "k", UniquePolicy.KEEP)).isEqualTo(next.id());
    }

    @Test
    void concurrent_enqueuers_of_a_key_agree_on_one_job() throws Exception {
        var threads = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 25; round++) {
                String key = "k" + round;
                UniquePolicy policy = round % 2 == 0 ? UniquePolicy.KEEP : UniquePolicy.REPLACE;
                Callable<UUID> enqueuer = () -> jobs.insertUnique(job("job"), key, policy);
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
    void a_replacement_takes_the_place_of_one_that_has_not_started() {
        NewJob first = job("job", "{\"v\": 1}");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        assertThat(jobs.insertUnique(job("job", "{\"v\": 2}"), "k", UniquePolicy.REPLACE))
                .isEqualTo(first.id());
        assertThat(claimOne(one).payload()).contains("2");
    }

    @Test
    void a_replacement_waits_for_one_that_runs_and_is_itself_replaced() {
        NewJob first = job("job", "{\"v\": 1}");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        Claimed running = claimOne(one);
        NewJob second = job("job", "{\"v\": 2}");
        assertThat(jobs.insertUnique(second, "k", UniquePolicy.REPLACE)).isEqualTo(second.id());
        assertThat(jobs.insertUnique(job("job", "{\"v\": 3}"), "k", UniquePolicy.REPLACE))
                .isEqualTo(second.id());
        assertThat(claim(two, 10)).as("never beside the old one").isEmpty();
        assertThat(jobs.obstacles(second.id()).orElseThrow().waitsFor()).isEqualTo(first.id());

        // A failed attempt is no end: the old one runs again first.
        jobs.finish(one, List.of(again(running, 0)));
        List<Claimed> repeated = claim(two, 10);
        assertThat(repeated).extracting(Claimed::id).containsExactly(first.id());
        jobs.finish(two, List.of(completed(repeated.get(0), null)));
        List<Claimed> after = claim(two, 10);
        assertThat(after).extracting(Claimed::id).containsExactly(second.id());
        assertThat(after.get(0).payload()).contains("3");
    }

    @Test
    void whoever_ends_a_job_frees_its_successor() {
        for (String end : List.of(
                "UPDATE forge_jobs SET status = 'cancelled' WHERE id = ?",
                "UPDATE forge_jobs SET status = 'failed' WHERE id = ?",
                "DELETE FROM forge_jobs WHERE id = ?")) {
            jdbc.sql("TRUNCATE forge_jobs").update();
            NewJob first = job("job");
            jobs.insertUnique(first, "k", UniquePolicy.KEEP);
            claimOne(one);
            NewJob second = job("job");
            jobs.insertUnique(second, "k", UniquePolicy.REPLACE);
            jdbc.sql(end).param(first.id()).update();
            assertThat(claim(two, 10)).as(end).extracting(Claimed::id).containsExactly(second.id());
        }
    }

    @Test
    void a_successor_whose_predecessor_ended_unseen_is_freed() {
        NewJob first = job("job");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        Claimed running = claimOne(one);
        NewJob second = job("job");
        var transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transactions.executeWithoutResult(status -> {
            jobs.insertUnique(second, "k", UniquePolicy.REPLACE);
            // On another connection, before this transaction commits: neither sees the other.
            var elsewhere = new JobStore(
                    Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"),
                    new org.springframework.jdbc.datasource.DelegatingDataSource(database.dataSource()));
            assertThat(elsewhere.finish(one, List.of(completed(running, null)))).isEmpty();
        });
        assertThat(claim(two, 10)).isEmpty();
        assertThat(jobs.freeSuccessors(second.id())).isOne();
        assertThat(claim(two, 10)).extracting(Claimed::id).containsExactly(second.id());
        assertThat(jobs.freeSuccessors(null)).isZero();
    }

    // Recovery

    private void age(String column, String age) {
        jdbc.sql("UPDATE forge_jobs SET %1$s = %1$s - interval '%2$s'".formatted(column, age))
                .update();
    }

    @Test
    void a_lease_that_is_over_returns_the_job_without_costing_an_attempt() {
        UUID id = insert();
        claimOne(one);
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, false)).isEmpty();
        age("lease_expires_at", "2 minutes");
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, true)).as("in grace").isEmpty();
        List<Recovered> recovered = jobs.sweep(REQUEUE, START_TIMEOUT, false);
        assertThat(recovered).singleElement().satisfies(job -> {
            assertThat(job.id()).isEqualTo(id);
            assertThat(job.node()).isEqualTo(one);
            assertThat(job.status()).isEqualTo(JobStatus.PENDING);
            assertThat(job.recoveries()).isOne();
        });
        assertThat(column(id, "attempts", Integer.class)).isZero();
    }

    @Test
    void jobs_of_a_dead_or_vanished_node_come_back_even_in_grace() {
        UUID id = insert();
        jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(one, 1, 1, 10, null));
        assertThat(column(id, "lease_expires_at = 'infinity'", Boolean.class)).isTrue();
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, true)).isEmpty();
        jdbc.sql("DELETE FROM forge_nodes WHERE id = ?").param(one).update();
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, true)).hasSize(1);
    }

    @Test
    void a_claim_that_is_not_started_in_time_goes_back_and_counts_for_nothing() {
        UUID id = insert();
        jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(one, 1, 0, 10, LEASE));
        age("claimed_at", "6 minutes");
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, false)).hasSize(1);
        assertThat(column(id, "recoveries", Integer.class)).isZero();
        assertThat(column(id, "attempts", Integer.class)).isZero();
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
        assertThat(claim(two, 1)).hasSize(1);
    }

    @Test
    void a_job_that_was_given_back_counts_as_started_at_its_next_claim() {
        insert();
        jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(one, 1, 0, 10, LEASE));
        age("lease_expires_at", "2 minutes");
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, false)).hasSize(1);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
        // Perhaps it brought its node down before anybody could write that it had started.
        assertThat(jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(two, 1, 0, 10, LEASE)))
                .singleElement()
                .extracting(Claimed::started)
                .isEqualTo(true);
    }

    @Test
    void a_date_that_no_clock_knows_is_refused() {
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> jdbc.sql("SELECT forge_enqueue('job', scheduled_at => '-infinity')")
                        .query((row, n) -> true)
                        .single());
    }

    @Test
    void what_its_handler_allows_is_known_to_whoever_recovers_it() {
        UUID id = insert();
        jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(one, 1, 1, 1, LEASE));
        age("lease_expires_at", "2 minutes");
        jobs.sweep(new CrashRule(true, 10, 0), START_TIMEOUT, false);
        assertThat(status(id)).isEqualTo("failed");
    }

    @Test
    void a_job_that_brings_its_nodes_down_is_abandoned_after_the_last_recovery() {
        UUID id = insert();
        for (int crash = 1; crash <= 4; crash++) {
            jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
            assertThat(claim(one, 1)).hasSize(1);
            age("lease_expires_at", "2 minutes");
            assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, false)).hasSize(1);
            assertThat(status(id)).isEqualTo(crash <= 3 ? "pending" : "abandoned");
        }
        assertThat(column(id, "last_error", String.class)).contains("max-recoveries");
        assertThat(jobs.retry(id)).isTrue();
        assertThat(claim(one, 1)).hasSize(1);
    }

    @Test
    void under_the_policy_fail_a_crash_is_a_failed_attempt() {
        var fail = new CrashRule(true, 2, 0);
        UUID id = insert();
        for (int crash = 1; crash <= 2; crash++) {
            jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
            assertThat(jobs.claim(QUEUE, JobStore.UNMARKED, new Claiming(one, 1, 1, 2, LEASE)))
                    .singleElement()
                    .extracting(Claimed::attempt)
                    .isEqualTo(crash);
            age("lease_expires_at", "2 minutes");
            jobs.sweep(fail, START_TIMEOUT, false);
        }
        assertThat(status(id)).isEqualTo("failed");
    }

    @Test
    void a_dead_nodes_jobs_come_back_with_its_death() {
        UUID id = insert();
        claimOne(one);
        var nodes = new NodeStore(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"),
                database.dataSource(),
                new CrashRule(false, 10, 0));
        assertThat(nodes.declareDead(one, 0, returned -> {})).isTrue();
        assertThat(status(id)).isEqualTo("abandoned");
    }

    // House-keeping

    @Test
    void finished_jobs_are_kept_as_long_as_they_should() {
        for (String[] row : new String[][] {
            {"completed", "2 hours", null}, {"completed", "30 minutes", null}, {"completed", "2 hours", "3 hours"},
            {"failed", "2 hours", null}, {"abandoned", "8 days", null}, {"cancelled", "2 hours", null}
        }) {
            jdbc.sql("""
                    INSERT INTO forge_jobs (id, name, status, finished_at, retention)
                    VALUES (gen_random_uuid(), :name, :status, now() - :age::interval, :retention::interval)
                    """)
                    .param("name", String.join(" ", row[0], row[1], String.valueOf(row[2])))
                    .param("status", row[0])
                    .param("age", row[1])
                    .param("retention", row[2])
                    .update();
        }
        insert();
        assertThat(jobs.purge(Duration.ofHours(1), Duration.ofDays(7), 100)).isEqualTo(3);
        assertThat(jdbc.sql("SELECT name FROM forge_jobs ORDER BY 1")
                        .query(String.class)
                        .list())
                .containsExactly(
                        "completed 2 hours 3 hours", "completed 30 minutes null", "failed 2 hours null", "job");
    }

    @Test
    void pending_names_that_nobody_knows_are_found() {
        jdbc.sql("UPDATE forge_nodes SET handlers = '{known}' WHERE id = ?")
                .param(one)
                .update();
        jdbc.sql("UPDATE forge_nodes SET handlers = '{of-the-dead}', status = 'dead' WHERE id = ?")
                .param(two)
                .update();
        for (String name : List.of("known", "of-the-dead", "renamed", "renamed")) {
            jobs.insert(job(name));
        }
        assertThat(jobs.orphanedNames()).isEqualTo(Map.of("of-the-dead", 1L, "renamed", 2L));
        assertThat(jobs.advertisedNames()).containsExactly("known", "of-the-dead");
    }

    @Test
    void the_table_can_be_vacuumed() {
        insert();
        jobs.vacuum();
        assertThat(jobs.deadRows()).isNotNegative();
    }

    @Test
    void cancelling_ends_a_job_wherever_it_is() {
        UUID pending = insert();
        assertThat(jobs.cancel(pending)).isPresent();
        assertThat(jobs.cancel(pending)).isEmpty();
        UUID running = insert();
        Claimed claimed = claimOne(one);
        assertThat(jobs.cancel(running).orElseThrow().node()).isEqualTo(one);
        assertThat(jobs.finish(one, List.of(completed(claimed, null)))).containsExactly(key(claimed));
        assertThat(status(running)).isEqualTo("cancelled");
        assertThat(jobs.retry(running)).isTrue();
        assertThat(jobs.retry(running)).isFalse();
    }
}
