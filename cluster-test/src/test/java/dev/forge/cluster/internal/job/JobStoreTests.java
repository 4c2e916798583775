package dev.forge.cluster.internal.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static dev.forge.cluster.internal.PatientAwaits.await;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.ControlConnections;
import dev.forge.cluster.internal.database.Pooler;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobKeeping.FewNames;
import dev.forge.cluster.internal.job.JobReports.Count;
import dev.forge.cluster.internal.job.JobStore.ClaimKey;
import dev.forge.cluster.internal.job.JobStore.Claimed;
import dev.forge.cluster.internal.job.JobStore.Claiming;
import dev.forge.cluster.internal.job.JobStore.CrashRule;
import dev.forge.cluster.internal.job.JobStore.Finish;
import dev.forge.cluster.internal.job.JobStore.Head;
import dev.forge.cluster.internal.job.JobStore.LastStatement;
import dev.forge.cluster.internal.job.JobStore.NewJob;
import dev.forge.cluster.internal.job.JobStore.Queue;
import dev.forge.cluster.internal.job.JobStore.Reading;
import dev.forge.cluster.internal.job.JobStore.Recovered;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataAccessException;
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
    private final JobReports reports;
    private final JobKeeping keeping;
    private final UUID one = UUID.randomUUID();
    private final UUID two = UUID.randomUUID();

    JobStoreTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.jobs = new JobStore(schema, database.dataSource());
        this.reports = new JobReports(schema, database.dataSource());
        this.keeping = new JobKeeping(schema, database.dataSource());
    }

    @BeforeEach
    void empty() {
        jdbc.sql("CREATE SEQUENCE IF NOT EXISTS ids").update();
        jdbc.sql("TRUNCATE forge_jobs, forge_nodes, forge_job_pauses, forge_job_names")
                .update();
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
        return new Finish(key(claimed), JobStatus.COMPLETED, result, null, 0, 0, null, null, null, 5L, false);
    }

    private static Finish again(Claimed claimed, long delayMillis) {
        return new Finish(key(claimed), JobStatus.PENDING, null, "oops", delayMillis, 0, null, null, null, 5L, false);
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

    /** How many rows and index entries of jobs that reads, dead ones included. */
    private long reads(Runnable work) {
        return Objects.requireNonNull(transactions().execute(status -> {
            long before = readSoFar();
            work.run();
            return readSoFar() - before;
        }));
    }

    private long readSoFar() {
        return jdbc.sql("""
                SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint FROM pg_class
                WHERE oid = 'forge_jobs'::regclass
                   OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'forge_jobs'::regclass)
                """).query(Long.class).single();
    }

    private TransactionTemplate transactions() {
        return new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
    }

    /** That many jobs with ascending ids; {@code columns} and {@code values} say what they are, {@code n} counts them. */
    private void rows(int count, String columns, String values) {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, %s)
                SELECT lpad(to_hex(nextval('ids')), 32, '0')::uuid, %s FROM generate_series(1, %d) AS n
                """.formatted(columns, values, count)).update();
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
    void claim_reads_no_more_bytes_than_a_node_can_hold() {
        String large = "{\"text\": \"%s\"}".formatted("x".repeat(1_000_000));
        // Written by the engine, which knows their size, and by somebody else.
        jobs.insertAll(IntStream.range(0, 15).mapToObj(i -> job("job", large)).toList());
        rows(15, "name, payload", "'job', jsonb_build_object('text', repeat('x', 1000000))");
        int claims = 0;
        var taken = new HashSet<UUID>();
        for (List<Claimed> batch = claim(one, 30); !batch.isEmpty(); batch = claim(one, 30)) {
            assertThat(batch.stream()
                            .mapToLong(claimed -> claimed.payload().length())
                            .sum())
                    .isLessThan(10_000_000);
            assertThat(batch.stream().mapToLong(Claimed::bytes).sum()).isLessThan(10_000_000);
            batch.forEach(claimed -> {
                assertThat(jobs.read(one, claimed, 2_000_000))
                        .isInstanceOfSatisfying(
                                Reading.Read.class,
                                read -> assertThat(read.job().payload()).hasSize(1_000_012));
                assertThat(jobs.read(one, claimed, 1_000)).isEqualTo(new Reading.TooLarge(1_000_014));
                taken.add(claimed.id());
            });
            claims++;
        }
        assertThat(taken).hasSize(30);
        assertThat(claims).isBetween(3, 5);
    }

    @Test
    void compressed_body_of_unknown_size_is_not_taken_for_a_small_one() {
        // 5,000 bytes when printed, and less than a hundred as stored.
        rows(1, "name, payload", "'job', jsonb_build_object('text', repeat('x', 5000))");
        rows(1, "name, metadata", "'job', jsonb_build_object('text', repeat('x', 5000))");
        assertThat(jdbc.sql("SELECT max(pg_column_size(payload) + pg_column_size(metadata)) FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isLessThan(100);
        List<Claimed> claimed = claim(one, 10);
        assertThat(claimed).hasSize(2).allSatisfy(job -> {
            assertThat(job.read()).isFalse();
            assertThat(job.bytes()).isGreaterThan(5_000);
            assertThat(jobs.read(one, job, 10_000))
                    .isInstanceOfSatisfying(
                            Reading.Read.class,
                            read -> assertThat(read.job().bytes()).isBetween(5_000L, 5_100L));
        });
    }

    @Test
    void list_leaves_out_compressed_values_whose_size_is_unknown() {
        String large = "jsonb_build_object('text', repeat('x', 100000))";
        rows(1, "name, progress, metadata", "'large', %s, %s".formatted(large, large));
        rows(1, "name, progress, metadata", "'small', '{\"percent\": 1}', '{\"tenant\": \"a\"}'");
        assertThat(jdbc.sql("SELECT max(pg_column_size(progress)) FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isLessThan(2_000);
        assertThat(reports.list(null, null, 10)).hasSize(2).allSatisfy(job -> {
            boolean small = job.name().equals("small");
            assertThat(job.progress()).isEqualTo(small ? "{\"percent\": 1}" : null);
            assertThat(job.metadata()).isEqualTo(small ? Map.of("tenant", "a") : Map.of());
        });
    }

    // Rows that somebody has written by SQL

    @ParameterizedTest
    @CsvSource({
        "attempts, 2147483647",
        "attempts, 1000000000",
        "attempts, 0",
        "attempts, -2147483648",
        "recoveries, 2147483647",
        "recoveries, 1000000000",
        "recoveries, -2147483648",
        "claim_epoch, 9223372036854775807",
        "claim_epoch, 4611686018427387904",
        "claim_epoch, 1000000000000000000",
        "claim_epoch, -9223372036854775808",
        "max_attempts, 2147483647",
        "retention, 200000 years",
        "retention, 1000 years",
        "retention, -200000 years"
    })
    void extreme_row_stops_no_other_job(String column, String value) {
        boolean stored = writes("""
                INSERT INTO forge_jobs (id, name, status, worker_id, checkpoint, %1$s) VALUES
                    (gen_random_uuid(), 'job', 'pending', NULL, '{}', '%2$s'),
                    (gen_random_uuid(), 'job', 'running', gen_random_uuid(), '{}', '%2$s')
                """.formatted(column, value));
        UUID neighbour = insert();
        for (CrashRule rule : List.of(REQUEUE, new CrashRule(true, 10, 3), REQUEUE, REQUEUE, REQUEUE)) {
            jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE status = 'pending'")
                    .update();
            List<Claimed> claimed = claim(one, 10);
            assertThat(claimed).extracting(Claimed::id).contains(neighbour);
            jdbc.sql("UPDATE forge_jobs SET lease_expires_at = now() - interval '1 minute' WHERE status = 'running'")
                    .update();
            assertThat(jobs.sweep(rule, START_TIMEOUT, false))
                    .extracting(Recovered::id)
                    .contains(neighbour);
            // Its own recoveries are of no interest here.
            jdbc.sql("UPDATE forge_jobs SET recoveries = 0 WHERE id = ?")
                    .param(neighbour)
                    .update();
        }
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE status = 'pending'")
                .update();
        List<Claimed> claimed = claim(one, 10);
        assertThat(claimed).extracting(Claimed::id).contains(neighbour);
        assertThat(jobs.finish(
                        one, claimed.stream().map(job -> completed(job, "1")).toList()))
                .isEmpty();
        assertThat(status(neighbour)).isEqualTo("completed");
        jdbc.sql("UPDATE forge_jobs SET finished_at = now() - interval '1 hour' WHERE id = ?")
                .param(neighbour)
                .update();
        assertThat(keeping.purge(Duration.ofMinutes(1), Duration.ofDays(1), "", 100))
                .isPositive();
        assertThat(stored || !value.equals("0")).as("ordinary rows are stored").isTrue();
    }

    private boolean writes(String sql) {
        try {
            return jdbc.sql(sql).update() > 0;
        } catch (DataIntegrityViolationException e) {
            return false;
        }
    }

    @Test
    void attempts_that_an_operator_has_reset_while_the_job_ran_stop_no_sweep() {
        UUID id = insert();
        UUID neighbour = insert();
        claim(one, 10);
        jdbc.sql("UPDATE forge_jobs SET attempts = 0 WHERE id = ?").param(id).update();
        age("lease_expires_at", "2 minutes");
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, false))
                .extracting(Recovered::id)
                .containsExactlyInAnyOrder(id, neighbour);
        assertThat(column(id, "attempts", Integer.class)).isZero();
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
        keeping.pause("paused");
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
    void look_sees_the_most_urgent_queues_of_a_name_and_goes_on_with_the_others() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, priority, scheduled_at)
                SELECT gen_random_uuid(), name, priority, now() - interval '1 minute'
                FROM unnest(ARRAY['job', 'other']) AS name, generate_series(1, 11) AS priority
                WHERE name = 'job' OR priority < 3
                """).update();
        Map<JobStore.Place, Integer> continued = Map.of();
        var seen = new ArrayList<List<Integer>>();
        for (int i = 0; i < 4; i++) {
            JobStore.Queues queues =
                    jobs.queues(new JobStore.Look(List.of("job", "other"), List.of(""), Map.of(), 3, continued));
            assertThat(queues.due().stream()
                            .filter(head -> head.queue().name().equals("other"))
                            .map(head -> head.queue().priority()))
                    .containsExactly(2, 1);
            seen.add(queues.due().stream()
                    .filter(head -> head.queue().name().equals("job"))
                    .map(head -> head.queue().priority())
                    .toList());
            continued = queues.unseen();
        }
        assertThat(seen)
                .containsExactly(
                        List.of(11, 10, 9),
                        List.of(11, 10, 9, 8, 7, 6),
                        List.of(11, 10, 9, 5, 4, 3),
                        List.of(11, 10, 9, 2, 1));
    }

    @Test
    void recent_look_finds_every_priority_but_nothing_older_than_its_reach() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, priority, scheduled_at)
                SELECT gen_random_uuid(), 'job', n, now() - n * interval '1 minute' FROM generate_series(1, 30) AS n
                """).update();
        assertThat(jobs.recentQueues(List.of("job"), List.of(""), Duration.ofSeconds(630))
                        .due())
                .hasSize(10)
                .allSatisfy(head -> assertThat(head.queue().priority()).isLessThanOrEqualTo(10));
    }

    @Test
    void a_look_from_its_marks_does_not_wade_through_dead_entries() throws Exception {
        int finished = 50_000;
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
            JobStore.Queues whole = jobs.queues(names, capabilities);
            JobStore.Queues marked = jobs.queues(names, capabilities, whole.marks());
            // On one connection, where they are prepared.
            transactions().executeWithoutResult(status -> {
                long[] best = {Long.MAX_VALUE, Long.MAX_VALUE};
                for (int i = 0; i < 10; i++) {
                    long start = System.nanoTime();
                    jobs.queues(names, capabilities);
                    long marking = System.nanoTime();
                    jobs.queues(names, capabilities, whole.marks());
                    best[0] = Math.min(best[0], marking - start);
                    best[1] = Math.min(best[1], System.nanoTime() - marking);
                }
                System.out.printf(
                        "a look over %d dead entries: %d us, from its marks %d us%n",
                        finished, best[0] / 1_000, best[1] / 1_000);
            });
            assertThat(marked.due()).isEqualTo(whole.due()).hasSize(1);
            assertThat(reads(() -> jobs.queues(names, capabilities))).isGreaterThan(finished);
            assertThat(reads(() -> jobs.queues(names, capabilities, whole.marks())))
                    .isLessThan(20);

            // Nor once nothing is left, and whatever comes then is found.
            jdbc.sql("UPDATE forge_jobs SET status = 'completed' WHERE id = ?")
                    .param(due)
                    .update();
            Map<Queue, Instant> marks = marked.marks();
            assertThat(jobs.queues(names, capabilities, marks).due()).isEmpty();
            assertThat(reads(() -> jobs.queues(names, capabilities, marks))).isLessThan(20);
            insert();
            assertThat(jobs.queues(names, capabilities, marks).due())
                    .extracting(Head::queue)
                    .containsExactly(QUEUE);
            holder.rollback();
        }
    }

    private static NewJob urgent(int priority, String capability, Instant at) {
        return new NewJob(UUID.randomUUID(), "job", "{}", priority, capability, 0, at, null, "{}");
    }

    private void insertOutOfOrder(int priority, String capability) {
        NewJob job = urgent(priority, capability, null);
        jobs.insert(job);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() - interval '1 hour' WHERE id = ?")
                .param(job.id())
                .update();
    }

    @Test
    void time_in_the_past_does_not_jump_the_queue() {
        UUID first = insert();
        Instant longAgo = Instant.EPOCH;
        NewJob single = urgent(50, null, longAgo);
        jobs.insert(single);
        NewJob together = urgent(50, null, longAgo);
        jobs.insertAll(List.of(together));
        NewJob keyed = urgent(50, null, longAgo);
        jobs.insertUnique(keyed, "key", UniquePolicy.KEEP);
        UUID bySql = jdbc.sql("SELECT forge_enqueue('job', scheduled_at => '1971-01-01')")
                .query(UUID.class)
                .single();
        jobs.insertUnique(urgent(50, null, longAgo), "key", UniquePolicy.REPLACE);
        assertThat(jdbc.sql("SELECT id FROM forge_jobs ORDER BY scheduled_at")
                        .query(UUID.class)
                        .list())
                .as("in the order in which they were enqueued, the replaced one last")
                .containsExactly(first, single.id(), together.id(), bySql, keyed.id());
        assertThat(claim(one, 1)).extracting(Claimed::id).containsExactly(first);
    }

    @Test
    void marks_hide_nothing_but_what_came_out_of_order() {
        List<String> names = List.of("job");
        List<String> capabilities = List.of("", "gpu");
        jobs.insert(urgent(50, null, null));
        jobs.insert(urgent(25, null, null));
        // Of a minute ago, so that the marks stand where the jobs are.
        age("scheduled_at", "1 minute");
        JobStore.Queues seen = jobs.queues(names, capabilities);
        assertThat(seen.marks()).containsOnlyKeys(new Queue("job", "", 50), new Queue("job", "", 25));
        assertThat(jobs.queues(names, capabilities, seen.marks())).isEqualTo(seen);

        // Above, between and below the queues that are known, and for another capability.
        for (int priority : List.of(100, 49, 51, 26, 0)) {
            insertOutOfOrder(priority, null);
        }
        insertOutOfOrder(50, "gpu");
        JobStore.Queues more = jobs.queues(names, capabilities, seen.marks());
        assertThat(more).isEqualTo(jobs.queues(names, capabilities));
        assertThat(more.due())
                .extracting(head -> head.queue().priority())
                .containsExactly(100, 51, 50, 50, 49, 26, 25, 0);

        // In a queue that is known: before its mark it waits for a look at the whole.
        insertOutOfOrder(50, null);
        assertThat(jobs.queues(names, capabilities, more.marks()).due()).isEqualTo(more.due());
        assertThat(jobs.queues(names, capabilities).due()).isNotEqualTo(more.due());

        // A transaction of less than a second is in order.
        jdbc.sql("DELETE FROM forge_jobs").update();
        JobStore.Queues none = jobs.queues(names, capabilities, more.marks());
        jobs.insert(urgent(50, null, null));
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = scheduled_at - interval '900 milliseconds'")
                .update();
        assertThat(none.due()).isEmpty();
        assertThat(jobs.queues(names, capabilities, none.marks()).due()).hasSize(1);
    }

    @Test
    void a_job_for_later_is_announced_from_marks_too_and_one_for_never_is_no_obstacle() {
        jobs.insert(urgent(50, null, null));
        JobStore.Queues seen = jobs.queues(List.of("job"), List.of(""));
        assertThat(seen.nextMillis()).isNull();
        jdbc.sql("SELECT forge_enqueue('job', scheduled_at => 'infinity')")
                .query((row, n) -> true)
                .single();
        jdbc.sql("SELECT forge_enqueue('job', priority => 1, scheduled_at => 'infinity')")
                .query((row, n) -> true)
                .single();
        jobs.insert(new NewJob(UUID.randomUUID(), "job", "{}", 50, null, 30_000, null, null, "{}"));
        for (JobStore.Queues look : List.of(
                jobs.queues(List.of("job"), List.of("")), jobs.queues(List.of("job"), List.of(""), seen.marks()))) {
            assertThat(look.nextMillis()).isBetween(25_000L, 30_000L);
            assertThat(look.due()).hasSize(1);
        }
        jdbc.sql("DELETE FROM forge_jobs WHERE scheduled_at <= now()").update();
        assertThat(jobs.queues(List.of("job"), List.of(""), seen.marks()).nextMillis())
                .isBetween(25_000L, 30_000L);
        assertThat(jdbc.sql("SELECT id FROM forge_jobs WHERE scheduled_at = 'infinity'")
                        .query(UUID.class)
                        .list())
                .hasSize(2)
                .allSatisfy(id -> assertThat(reports.obstacles(id).orElseThrow().dueInMillis())
                        .isPositive());
    }

    @Test
    void a_paused_name_is_not_claimed_even_from_a_queue_that_was_seen_before() {
        insert();
        keeping.pause("job");
        assertThat(claim(one, 1)).isEmpty();
        assertThat(keeping.paused()).containsExactly("job");
        assertThat(keeping.resume("job")).isTrue();
        assertThat(keeping.resume("job")).isFalse();
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
        assertThat(jobs.renew(one, List.of(key(old)), LEASE)).isEmpty();
        assertThat(jobs.renew(two, List.of(key(current)), LEASE)).isEmpty();
        jobs.start(one, List.of(key(old)));
        assertThat(status(id)).isEqualTo("running");
        assertThat(column(id, "result IS NULL", Boolean.class)).isTrue();

        assertThat(jobs.renew(one, List.of(key(current)), LEASE)).containsExactly(key(current));
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
    void end_of_a_claim_by_its_own_node_is_told_from_a_recovery() {
        IntStream.range(0, 8).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 8);
        Map<ClaimKey, Integer> keys = new HashMap<>();
        claimed.forEach(job -> keys.put(key(job), job.recoveries()));
        var own = new HashSet<ClaimKey>();
        // Still held.
        assertThat(jobs.endedByHolder(one, keys)).isEmpty();
        // Completed, deleted, and given back by the holder itself.
        jobs.finish(one, List.of(completed(claimed.get(0), "1"), again(claimed.get(1), 60_000)));
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?")
                .param(claimed.get(2).id())
                .update();
        // Given back, and claimed by another node since.
        jobs.finish(one, List.of(again(claimed.get(3), 0)));
        assertThat(claimOne(two).id()).isEqualTo(claimed.get(3).id());
        claimed.subList(0, 4).forEach(job -> own.add(key(job)));
        // Cancelled by somebody, and taken from the holder.
        jobs.cancel(claimed.get(4).id(), List.of());
        jdbc.sql("UPDATE forge_jobs SET lease_expires_at = now() - interval '1 minute' WHERE id IN (?, ?)")
                .params(claimed.get(5).id(), claimed.get(6).id())
                .update();
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, false)).hasSize(2);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE id = ?")
                .param(claimed.get(6).id())
                .update();
        assertThat(claimOne(two).id()).isEqualTo(claimed.get(6).id());
        assertThat(jobs.endedByHolder(one, keys)).isEqualTo(own);
        assertThat(jobs.endedByHolder(two, Map.of(key(claimed.get(0)), 0))).isEmpty();
    }

    @Test
    void transaction_of_a_handler_is_not_committed_for_a_claim_that_has_ended_already() {
        insert();
        Claimed claimed = claimOne(one);
        assertThat(inTransaction(completed(claimed, "1"))).isEqualTo(LastStatement.WRITTEN);
        // By the same node in the same epoch, as if two threads of it had run the job.
        assertThat(inTransaction(completed(claimed, "2"))).isEqualTo(LastStatement.CLAIM_LOST);
        assertThat(column(claimed.id(), "result::text", String.class)).isEqualTo("1");
    }

    private LastStatement inTransaction(Finish finish) {
        return Objects.requireNonNull(transactions().execute(status -> jobs.finishInTransaction(one, finish)));
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
            assertThat(jobs.missing(one, List.of(key(claimed)))).isEmpty();
            holder.rollback();
        }
    }

    @ParameterizedTest
    @EnumSource
    void completion_of_a_locked_row_does_not_wait_whatever_the_pooler(Pooler pooler) throws Exception {
        UUID id = insert();
        UUID other = insert();
        List<Finish> finishes =
                claim(one, 2).stream().map(job -> completed(job, "1")).toList();
        try (var control = new ControlConnections(database.dataSource(), pooler, 1, Duration.ofSeconds(2));
                Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(id));
            var store = new JobStore(Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), control);
            assertThatExceptionOfType(DataAccessException.class)
                    .isThrownBy(() -> store.finish(one, finishes))
                    .matches(JobStore::isLocked);
            assertThat(store.finishUnlocked(one, finishes))
                    .extracting(ClaimKey::id)
                    .containsExactly(other);
            assertThat(status(id)).isEqualTo("running");
            holder.rollback();
            assertThat(store.finish(one, finishes)).isEmpty();
        }
        assertThat(status(id)).isEqualTo("completed");
        assertThat(status(other)).isEqualTo("completed");
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
                Callable<Object> forth = () -> jobs.finishUnlocked(
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
        var finish =
                new Finish(key(claimed), JobStatus.COMPLETED, null, null, 0, 0, null, null, Duration.ZERO, 1L, false);
        assertThat(jobs.finish(one, List.of(finish))).isEmpty();
        assertThat(reports.find(id)).isEmpty();
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
        assertThat(reports.obstacles(second.id()).orElseThrow().waitsFor()).isEqualTo(first.id());

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
        transactions().executeWithoutResult(status -> {
            jobs.insertUnique(second, "k", UniquePolicy.REPLACE);
            // On another connection, before this transaction commits: neither sees the other.
            var elsewhere = new JobStore(
                    Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"),
                    new org.springframework.jdbc.datasource.DelegatingDataSource(database.dataSource()));
            assertThat(elsewhere.finish(one, List.of(completed(running, null)))).isEmpty();
        });
        assertThat(claim(two, 10)).isEmpty();
        assertThat(jobs.freeSuccessor(second.id())).isOne();
        assertThat(claim(two, 10)).extracting(Claimed::id).containsExactly(second.id());
        assertThat(jobs.freeSuccessors()).isZero();
    }

    @Test
    void a_retry_that_meets_an_enqueuer_of_its_key_is_refused_and_the_transaction_goes_on() throws Exception {
        NewJob first = job("job");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        jobs.cancel(first.id(), List.of());
        var threads = Executors.newSingleThreadExecutor();
        try (Connection enqueuer = database.dataSource().getConnection();
                Statement statement = enqueuer.createStatement()) {
            enqueuer.setAutoCommit(false);
            statement.execute("SELECT forge_enqueue('job', unique_key => 'k')");
            Future<Boolean> retried = threads.submit(() -> transactions().execute(status -> {
                boolean begun = jobs.retry(first.id(), List.of());
                // Not aborted by the key that was taken.
                jobs.insert(job("after"));
                return begun;
            }));
            await().until(() -> waiting() == 1);
            enqueuer.commit();
            assertThat(retried.get()).isFalse();
        } finally {
            threads.shutdown();
        }
        assertThat(status(first.id())).isEqualTo("cancelled");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'after'")
                        .query(Long.class)
                        .single())
                .isOne();
        jdbc.sql("DELETE FROM forge_jobs WHERE status = 'pending'").update();
        assertThat(jobs.retry(first.id(), List.of())).isTrue();
    }

    private long waiting() {
        return jdbc.sql("""
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """).query(Long.class).single();
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
        assertThat(jobs.retry(id, List.of())).isTrue();
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
    void a_heartbeat_that_no_clock_knows_keeps_nothing_from_being_recovered() {
        IntStream.range(0, 2).forEach(i -> insert());
        UUID first = claim(one, 2).get(0).id();
        jdbc.sql("UPDATE forge_jobs SET last_heartbeat = 'infinity'").update();
        jdbc.sql("UPDATE forge_jobs SET lease_expires_at = '-infinity' WHERE id = ?")
                .param(first)
                .update();
        assertThat(jobs.sweep(REQUEUE, START_TIMEOUT, false)).hasSize(1);
        assertThat(jobs.recoverFrom(one, REQUEUE)).hasSize(1);
    }

    private NodeStore nodes() {
        return new NodeStore(Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    @Test
    void a_dead_nodes_jobs_come_back_with_its_death() {
        UUID id = insert();
        claimOne(one);
        var crash = new CrashRule(false, 10, 0);
        assertThat(nodes().declareDead(one, 0, () -> {
                    jobs.recoverFrom(one, crash);
                    return () -> {};
                }))
                .isPresent();
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
        assertThat(keeping.purge(Duration.ofHours(1), Duration.ofDays(7), "", 100))
                .isEqualTo(3);
        assertThat(jdbc.sql("SELECT name FROM forge_jobs ORDER BY 1")
                        .query(String.class)
                        .list())
                .containsExactly(
                        "completed 2 hours 3 hours", "completed 30 minutes null", "failed 2 hours null", "job");
    }

    @Test
    void deleting_meets_only_what_it_deletes() {
        rows(10_000, "name, status, finished_at", "'kept', 'failed', now() - interval '6 days'");
        rows(
                5_000,
                "name, status, finished_at, retention",
                "'retained', 'completed', now() - interval '6 days', interval '30 days'");
        rows(1_000, "name, status, finished_at", "'done', 'completed', now() - interval '2 days'");
        rows(
                100,
                "name, status, finished_at, retention",
                "'own', 'failed', now() - interval '2 hours', interval '1 hour'");
        rows(5_000, "name, status, finished_at", "'fresh', 'completed', now()");
        jdbc.sql("ANALYZE forge_jobs").update();
        var deleted = new ArrayList<Integer>();
        long read = reads(() -> deleted.add(keeping.purge(Duration.ofDays(1), Duration.ofDays(7), "", 5_000)));
        assertThat(deleted).containsExactly(1_100);
        // An entry of its kind and one of the primary key each.
        assertThat(read).isLessThan(2 * 1_100 + 100);
        jdbc.sql("VACUUM forge_jobs").update();
        assertThat(reads(() -> keeping.purge(Duration.ofDays(1), Duration.ofDays(7), "", 5_000)))
                .isLessThan(10);
        assertThat(keeping.purge(Duration.ofDays(1), Duration.ofDays(5), "", 4_000))
                .isEqualTo(4_000);
    }

    @Test
    void expired_locks_and_dead_nodes_are_forgotten_in_batches() {
        jdbc.sql("""
                INSERT INTO forge_locks (lock_name, owner_node, expires_at)
                SELECT 'lock-' || n, gen_random_uuid(), now() - n * interval '1 hour' FROM generate_series(-2, 25) AS n
                """).update();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        var locks = new LockStore(schema, database.dataSource());
        assertThat(IntStream.range(0, 4).mapToObj(i -> locks.purge(Duration.ofMinutes(30), "", 10)))
                .containsExactly(10, 10, 5, 0);
        jdbc.sql("TRUNCATE forge_locks").update();
        IntStream.range(0, 5).forEach(i -> node(UUID.randomUUID(), "dead"));
        jdbc.sql("UPDATE forge_nodes SET dead_at = now() - interval '1 hour'").update();
        assertThat(IntStream.range(0, 3).mapToObj(i -> nodes().purgeDead(Duration.ofMinutes(30), 3, dead -> {})))
                .containsExactly(3, 2, 0);
    }

    @Test
    void locked_successor_keeps_no_other_from_being_freed() throws Exception {
        rows(1_500, "name, unique_key, waits_for", "'job', n::text, gen_random_uuid()");
        UUID first = jdbc.sql("SELECT id FROM forge_jobs ORDER BY id LIMIT 1")
                .query(UUID.class)
                .single();
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement()) {
            connection.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(first));
            assertThat(IntStream.range(0, 3).mapToObj(i -> jobs.freeSuccessors()))
                    .containsExactly(1_000, 499, 0);
            connection.rollback();
        }
        assertThat(jobs.freeSuccessors()).isOne();
    }

    @Test
    void a_job_that_was_ended_by_hand_ages_from_when_it_is_seen() {
        UUID id = insert();
        jdbc.sql("UPDATE forge_jobs SET status = 'failed'").update();
        assertThat(keeping.purge(Duration.ofHours(1), Duration.ofHours(1), "", 10))
                .isZero();
        assertThat(column(id, "finished_at IS NOT NULL", Boolean.class)).isTrue();
        age("finished_at", "2 hours");
        assertThat(keeping.purge(Duration.ofHours(1), Duration.ofHours(1), "", 10))
                .isOne();
    }

    @ParameterizedTest
    @ValueSource(strings = {"soon", "2020-01-01 00:00:00+99", "2020-01-01 00:00 Foo/Bar", "294277-01-01"})
    void metadata_that_look_like_those_of_a_cron_do_not_keep_finished_jobs(String slot) {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at, metadata)
                VALUES (gen_random_uuid(), 'own', 'completed', now() - interval '2 hours',
                        jsonb_build_object('cron', 'report', 'slot', ?::text))
                """).param(slot).update();
        assertThat(keeping.purge(Duration.ofHours(1), Duration.ofHours(1), "", 10))
                .isOne();
    }

    @Test
    void unfinished_jobs_are_counted_up_to_a_limit_and_nothing_else_is_read() {
        rows(30_000, "name, scheduled_at", "'many', now()");
        rows(20_000, "name, status, finished_at", "'many', 'completed', now()");
        rows(3, "name, priority", "'few', n");
        rows(2, "name, status, worker_id", "'few', 'running', '%s'".formatted(one));
        rows(4, "name, unique_key, waits_for", "'few', n::text, gen_random_uuid()");
        rows(1, "name, status", "'only-held', 'claimed'");
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var counts = new ArrayList<Count>();
        long read = reads(() -> counts.addAll(reports.unfinished()));
        assertThat(counts)
                .containsExactly(
                        new Count("few", JobStatus.PENDING, 7),
                        new Count("few", JobStatus.RUNNING, 2),
                        new Count("many", JobStatus.PENDING, JobReports.MOST_COUNTED),
                        new Count("only-held", JobStatus.CLAIMED, 1));
        assertThat(read).isLessThan(JobReports.MOST_COUNTED + 100);
    }

    @Test
    void names_beyond_a_thousand_are_counted_together() {
        rows(3_000, "name", "'junk-' || n");
        rows(1, "name, unique_key, waits_for", "'yet-another', 'k', gen_random_uuid()");
        rows(2, "name", "'with-handler'");
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('with-handler'), ('idle')")
                .update();
        List<Count> counts = reports.unfinished();
        assertThat(counts)
                .hasSizeLessThan(1_010)
                .contains(
                        new Count("with-handler", JobStatus.PENDING, 2),
                        new Count(JobReports.OTHER_NAMES, JobStatus.PENDING, 2_001))
                .noneMatch(count -> count.name().equals("idle"));
        assertThat(counts.stream().mapToLong(Count::jobs).sum()).isEqualTo(3_003);
    }

    @Test
    void the_oldest_job_is_found_by_the_heads_of_the_queues() {
        assertThat(reports.oldestAge()).isZero();
        rows(1, "name, scheduled_at", "'a', now() + interval '1 hour'");
        assertThat(reports.oldestAge()).isZero();
        rows(10_000, "name, priority, scheduled_at", "'b', 10 * (n % 3), now() - interval '1 minute'");
        rows(
                10_000,
                "name, worker_capability, scheduled_at",
                "'c', (ARRAY[NULL, 'cpu', 'gpu'])[n % 3 + 1], now() - interval '2 minutes'");
        rows(5_000, "name, waits_for, scheduled_at", "'d', gen_random_uuid(), now() - interval '1 day'");
        jdbc.sql("ANALYZE forge_jobs").update();
        // Wherever it stands: the last queue of a name, of a capability, of all.
        for (String oldest : List.of("'b', 0, NULL", "'c', 50, 'cpu'", "'c', 50, 'gpu'", "'z', 0, 'gpu'")) {
            rows(1, "name, priority, worker_capability, scheduled_at", oldest + ", now() - interval '1 hour'");
            assertThat(reports.oldestAge()).as(oldest).isBetween(Duration.ofMinutes(60), Duration.ofMinutes(61));
            jdbc.sql("DELETE FROM forge_jobs WHERE scheduled_at < now() - interval '59 minutes' AND waits_for IS NULL")
                    .update();
        }
        assertThat(reports.oldestAge()).isBetween(Duration.ofMinutes(2), Duration.ofMinutes(4));
        assertThat(reads(() -> reports.oldestAge())).isLessThan(50);
    }

    @Test
    void a_list_shows_the_newest_and_reads_a_bounded_number_of_jobs() {
        rows(3, "name, status, finished_at", "'rare', 'failed', now() - interval '3 days'");
        rows(2, "name", "'rare'");
        rows(1, "name, unique_key, waits_for", "'rare', 'k', gen_random_uuid()");
        rows(1, "name, status", "'rare', 'running'");
        rows(
                1,
                "name, status, finished_at, retention",
                "'rare', 'cancelled', now() - interval '3 days', interval '9 days'");
        rows(40_000, "name, status, finished_at", "'common', 'completed', now() + n * interval '1 ms'");
        rows(20_000, "name", "'common'");
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();

        assertThat(reports.list("rare", null, 50))
                .as("old ones of a name, newest first")
                .extracting(JobInfo::status)
                .containsExactly(
                        JobStatus.CANCELLED,
                        JobStatus.RUNNING,
                        JobStatus.PENDING,
                        JobStatus.PENDING,
                        JobStatus.PENDING,
                        JobStatus.FAILED,
                        JobStatus.FAILED,
                        JobStatus.FAILED);
        assertThat(reports.list("rare", null, 2))
                .extracting(JobInfo::status)
                .containsExactly(JobStatus.CANCELLED, JobStatus.RUNNING);
        assertThat(reports.list(null, JobStatus.FAILED, 50)).hasSize(3);
        assertThat(reports.list(null, JobStatus.RUNNING, 50)).hasSize(1);
        assertThat(reports.list("rare", JobStatus.PENDING, 50)).hasSize(3);
        assertThat(reports.list("rare", JobStatus.COMPLETED, 50)).isEmpty();
        assertThat(reports.list("common", JobStatus.COMPLETED, 50)).hasSize(50);
        List<JobInfo> newest = reports.list(null, null, 50);
        assertThat(newest)
                .hasSize(50)
                .isSortedAccordingTo(
                        Comparator.comparing((JobInfo job) -> job.id().toString())
                                .reversed());
        assertThat(reports.list("common", JobStatus.PENDING, 50)).isEqualTo(newest);
        assertThat(reports.list(null, JobStatus.PENDING, 50)).isEqualTo(newest);

        assertThat(reads(() -> reports.list(null, null, 50))).isLessThan(200);
        assertThat(reads(() -> reports.list("rare", null, 50))).isLessThan(25_000);
        for (JobStatus status : JobStatus.values()) {
            assertThat(reads(() -> reports.list(null, status, 50)))
                    .as("%s", status)
                    .isLessThan(21_000);
        }
    }

    @Test
    void names_are_known_for_good() {
        UUID id = UUID.randomUUID();
        var introduction = new NodeStore.Introduction(
                id,
                new NodeIdentity("key", "name"),
                "host",
                Set.of(NodeRole.WORKER),
                List.of(),
                "1",
                null,
                List.of("b", "a", "b"),
                Map.of());
        for (int start = 0; start < 2; start++) {
            nodes().register(
                            introduction,
                            new NodeStore.Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(15)),
                            dead -> () -> {});
            nodes().remove(id, leaving -> {});
        }
        jobs.insert(job("pending"));
        jdbc.sql("INSERT INTO forge_jobs (id, name, status) VALUES (gen_random_uuid(), 'held', 'running')")
                .update();
        assertThat(keeping.handledNames(10, List.of()))
                .isEqualTo(new FewNames(new TreeMap<>(Map.of("a", 0L, "b", 0L)), 0));
        assertThat(keeping.handledNames(1, List.of())).isEqualTo(new FewNames(new TreeMap<>(Map.of("a", 0L)), 1));
        assertThat(List.of("a", "b", "held", "pending")).allMatch(reports::knows);
        assertThat(List.of("a", "b")).allMatch(reports::hasHandler);
        assertThat(List.of("held", "pending")).noneMatch(reports::hasHandler);
        assertThat(reports.knows("c")).isFalse();
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
        assertThat(keeping.orphanedNames(10, List.of()))
                .isEqualTo(new FewNames(new TreeMap<>(Map.of("of-the-dead", 1L, "renamed", 2L)), 0));
        assertThat(keeping.orphanedNames(1, List.of()))
                .isEqualTo(new FewNames(new TreeMap<>(Map.of("of-the-dead", 1L)), 1));
    }

    @Test
    void the_table_can_be_vacuumed() {
        insert();
        keeping.vacuum();
        assertThat(keeping.deadRows()).isNotNegative();
    }

    @Test
    void cancelling_ends_a_job_wherever_it_is() {
        UUID pending = insert();
        assertThat(jobs.cancel(pending, List.of())).isPresent();
        assertThat(jobs.cancel(pending, List.of())).isEmpty();
        UUID running = insert();
        Claimed claimed = claimOne(one);
        assertThat(jobs.cancel(running, List.of()).orElseThrow().node()).isEqualTo(one);
        assertThat(jobs.finish(one, List.of(completed(claimed, null)))).containsExactly(key(claimed));
        assertThat(status(running)).isEqualTo("cancelled");
        assertThat(jobs.retry(running, List.of())).isTrue();
        assertThat(jobs.retry(running, List.of())).isFalse();
    }
}
