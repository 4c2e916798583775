// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Enqueueing with Java and SQL. */
@ClusterPostgres
class JobEnqueueTests extends JobFixture {

    JobEnqueueTests(TestDatabase database) {
        super(database);
    }

    @Test
    void invalid_job_is_rejected_with_the_reason_and_leaves_no_row() {
        work.maxPayload = 1_000;
        work.on(job("order").taking(Order.class), (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        DefaultJobs jobs = member.jobs();
        JobOptions options = JobOptions.defaults();
        refused(() -> jobs.enqueue(new Order("x".repeat(2_000), 1)), "'order'", "max-payload-size", "1000");
        refused(() -> jobs.enqueueNamed("oder", null), "'oder'", "[order]");
        refused(() -> jobs.enqueue("text"), "java.lang.String", Order.class.getName());
        refused(() -> jobs.enqueue(new Order("nul \0", 1)), "NUL");
        refused(() -> jobs.enqueue(new Order("half \ud83d", 1)), "surrogate");
        var endless = new ArrayList<Object>();
        endless.add(endless);
        refused(() -> jobs.enqueueNamed("order", endless), "cannot be written as JSON");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withUniqueKey("a\0b")), "unique key");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withUniqueKey("k".repeat(501))), "unique key of 501");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withUniqueKey("a\ud800")), "unique key");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withMetadata("k", "\0")), "metadata", "NUL");
        refused(() -> jobs.enqueueAll(List.of(new Order("a", 1)), options.withUniqueKey("k")), "unique key");
        refused(() -> jobs.enqueueAll(List.of(new Order("a", 1), "text")), "java.lang.String");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs").query(Long.class).single())
                .isZero();
        // The same characters are valid text if they are escaped.
        assertThat(jobs.enqueue(new Order("back\\u0000slash \ud83d\ude00", 1))).isNotNull();
    }

    @JobName("daemon:feed")
    record Feed() {}

    private void alike(org.assertj.core.api.ThrowableAssert.ThrowingCallable java, String sql, String word) {
        assertThatExceptionOfType(JobRejectedException.class).isThrownBy(java).satisfies(e -> {
            assertThat(e.getMessage()).contains(word);
            assertThatExceptionOfType(DataIntegrityViolationException.class)
                    .isThrownBy(() -> jdbc.sql("SELECT forge_enqueue(%s)".formatted(sql))
                            .query()
                            .listOfRows())
                    .withMessageContaining("rejected: " + e.getMessage());
        });
    }

    @Test
    void reserved_names_and_keys_are_rejected_with_the_same_message_by_java_and_sql() {
        work.on(job("order").taking(Order.class), (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        DefaultJobs jobs = member.jobs();
        alike(() -> jobs.enqueueNamed("workflow:order@1", null), "'workflow:order@1'", "Workflows.start");
        alike(
                () -> jobs.enqueue(new Order("a", 1), JobOptions.defaults().withCapability("(other)")),
                "'order', capability => '(other)'",
                "reserved");
        alike(() -> jobs.enqueueNamed("daemon:feed", null), "'daemon:feed'", "daemon:");
        alike(() -> jobs.enqueue(new Feed()), "'daemon:feed'", "daemon:");
        for (String key : List.of("@http/x/1", "workflow:0190:3")) {
            alike(
                    () -> jobs.enqueue(new Order("a", 1), JobOptions.defaults().withUniqueKey(key)),
                    "'order', unique_key => '%s'".formatted(key),
                    "use another key");
        }
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs").query(Long.class).single())
                .isZero();
        assertThatExceptionOfType(CronRejectedException.class)
                .isThrownBy(() -> member.crons()
                        .create(CronDefinition.cron("nightly", "@yearly").withHandler("workflow:order@1")))
                .withMessageContaining("names that begin with workflow: are those of runs of workflows");
    }

    @Test
    void reserved_metadata_keys_are_rejected() {
        work.on(job("order").taking(Order.class), (payload, context) -> null);
        DefaultJobs jobs = cluster.start("one", work, UnaryOperator.identity()).jobs();
        for (String key : List.of("forge.workflow", "forge.http.principal", "forge.")) {
            JobOptions options =
                    JobOptions.defaults().withMetadata("tenant", "a").withMetadata(key, "x");
            var order = new Order("a", 1);
            refused(() -> jobs.enqueue(order, options), "metadata key '%s'".formatted(key), "begin with forge.");
            refused(() -> jobs.enqueue(order, options.withUniqueKey("k")), "metadata key '%s'".formatted(key));
            refused(() -> jobs.enqueueNamed("order", order, options), "metadata key '%s'".formatted(key));
            refused(() -> jobs.enqueueAll(List.of(order), options), "metadata key '%s'".formatted(key));
        }
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs").query(Long.class).single())
                .isZero();
        JobOptions similar = JobOptions.defaults().withMetadata("forge", "a").withMetadata("forger.name", "b");
        assertThat(jobs.find(jobs.enqueue(new Order("a", 1), similar).id())
                        .orElseThrow()
                        .metadata())
                .containsExactlyInAnyOrderEntriesOf(Map.of("forge", "a", "forger.name", "b"));
    }

    @Test
    void tags_are_stored_and_limited_by_java_and_sql() {
        work.on(job("order").taking(Order.class), (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        DefaultJobs jobs = member.jobs();
        JobOperations operations = member.operations();
        jobs.pause("order");
        var order = new Order("a", 1);
        JobOptions options = JobOptions.defaults();
        UUID id = jobs.enqueue(order, options.withTags("red", "big", "red")).id();
        assertThat(jobs.find(id).orElseThrow().tags()).containsExactly("red", "big");
        List<UUID> many = jobs.enqueueAll(List.of(order, order), options.withTags("many")).stream()
                .map(EnqueuedJob::id)
                .toList();
        assertThat(operations.search(JobFilter.all().withTags("many"), 10).items())
                .extracting(JobInfo::id)
                .containsExactlyInAnyOrderElementsOf(many);
        UUID sql = jdbc.sql("SELECT forge_enqueue('order', tags => '{sql,red,sql}')")
                .query(UUID.class)
                .single();
        assertThat(jobs.find(sql).orElseThrow().tags()).containsExactlyInAnyOrder("sql", "red");
        assertThat(operations.search(JobFilter.all().withTags("red"), 10).items())
                .extracting(JobInfo::id)
                .containsExactly(sql, id);
        UUID untagged = jdbc.sql("SELECT forge_enqueue('order', tags => '{}')")
                .query(UUID.class)
                .single();
        assertThat(jobs.find(untagged).orElseThrow().tags()).isEmpty();
        refused(() -> jobs.enqueue(order, options.withTags("a\nb")), "tag", "control character");
        refused(() -> jobs.enqueue(order, options.withTags(" ")), "tag");
        for (String wrong : List.of(
                "ARRAY['']",
                "ARRAY[NULL]",
                "ARRAY[repeat('x', 101)]",
                "ARRAY[E'a\\nb']",
                "string_to_array('1,2,3,4,5,6,7,8,9,10,11', ',')")) {
            assertThatExceptionOfType(DataIntegrityViolationException.class)
                    .as(wrong)
                    .isThrownBy(() -> jdbc.sql("SELECT forge_enqueue('order', tags => %s)".formatted(wrong))
                            .query()
                            .listOfRows())
                    .withMessageContaining("tag");
        }
    }

    @Test
    void forge_enqueue_takes_no_metadata() {
        assertThat(jdbc.sql("SELECT unnest(proargnames) FROM pg_proc WHERE proname = 'forge_enqueue'")
                        .query(String.class)
                        .list())
                .as("otherwise it has to reject reserved metadata keys, as Jobs does")
                .contains("name", "payload")
                .doesNotContain("metadata");
    }

    @Test
    void name_stays_registered_when_its_workers_have_left() {
        work.on("job", context -> {});
        Member worker = cluster.start("worker", work, UnaryOperator.identity());
        worker.node().stop();
        assertThat(cluster.status("worker")).isEqualTo("absent");
        Member producer = cluster.start("producer", new TestJobs(database.dataSource()), UnaryOperator.identity());
        UUID id = producer.jobs().enqueueNamed("job", null).id();
        producer.jobs().pause("job");
        producer.jobs().resume("job");
        // A name that is only used by jobs from SQL can be paused.
        jdbc.sql("SELECT forge_enqueue('nobody-knows')").query(UUID.class).single();
        producer.jobs().pause("nobody-knows");
        refused(() -> producer.jobs().enqueueNamed("nobody-knows", null), "'nobody-knows'", "[job]");
        refused(() -> producer.jobs().enqueueNamed("jab", null), "'jab'", "[job]");
        refused(() -> producer.jobs().pause("jab"), "'jab'");
        assertThat(cluster.start("again", copy(), UnaryOperator.identity())
                        .ended(id)
                        .status())
                .isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void jobs_enqueued_together_keep_their_order() {
        var seen = new CopyOnWriteArrayList<Integer>();
        work.slots = 1;
        work.prefetch = 0;
        work.on(job("order").taking(Order.class), (payload, context) -> {
            seen.add(((Order) payload).quantity());
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids =
                member
                        .jobs()
                        .enqueueAll(IntStream.range(0, 1_200)
                                .mapToObj(i -> new Order("a", i))
                                .toList())
                        .stream()
                        .map(EnqueuedJob::id)
                        .toList();
        assertThat(ids).hasSize(1_200).doesNotHaveDuplicates().isSorted();
        // Slow, because each job needs its own claim.
        await().atMost(Duration.ofMinutes(5)).until(() -> seen.size() == 1_200);
        assertThat(seen).doesNotHaveDuplicates();
        assertThat(member.jobs().enqueueAll(List.of())).isEmpty();
    }

    @Test
    void job_enqueued_with_sql_runs() {
        work.poll = Duration.ofMillis(100);
        work.on(job("order").taking(Order.class), (payload, context) -> payload);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = jdbc.sql("SELECT forge_enqueue('order', '{\"item\": \"sql\", \"quantity\": 3}')")
                .query(UUID.class)
                .single();
        assertThat(member.ended(id).result()).contains("sql");
    }

    @Test
    void delayed_job_starts_on_time() {
        work.poll = Duration.ofSeconds(30);
        var started = new CopyOnWriteArrayList<Long>();
        work.on("job", context -> started.add(System.nanoTime()));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        long enqueued = System.nanoTime();
        UUID id = member.jobs()
                .enqueueNamed("job", null, JobOptions.defaults().withDelay(Duration.ofMillis(700)))
                .id();
        UUID later = member.jobs()
                .enqueueNamed("job", null, JobOptions.defaults().withDelay(Duration.ofHours(1)))
                .id();
        assertThat(member.operations().explain(later).reason()).isEqualTo(Reason.NOT_DUE);
        assertThat(member.operations().explain(later).text())
                .matches("It is due at [-0-9]{10}T[:0-9]{8}Z, in (1 h|\\d+ min( \\d+ s)?)\\.");
        member.ended(id);
        assertThat(Duration.ofNanos(started.get(0) - enqueued)).isGreaterThanOrEqualTo(Duration.ofMillis(690));
    }

    @Test
    void key_that_was_taken_after_the_snapshot_is_a_serialization_failure() {
        Member member = cluster.start("one", work.on("job", context -> {}), UnaryOperator.identity());
        JobOptions options = JobOptions.defaults().withUniqueKey("key");
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transaction.setIsolationLevel(TransactionDefinition.ISOLATION_REPEATABLE_READ);
        assertThatExceptionOfType(ConcurrencyFailureException.class)
                .isThrownBy(() -> transaction.executeWithoutResult(status -> {
                    jdbc.sql("SELECT count(*) FROM forge_jobs")
                            .query(Long.class)
                            .single();
                    CompletableFuture.runAsync(() ->
                                    member.jobs().enqueueNamed("job", null, options.withDelay(Duration.ofDays(1))))
                            .join();
                    member.jobs().enqueueNamed("job", null, options);
                }));
    }

    @Test
    void snapshot_that_keeps_dead_entries_delays_no_job() throws Exception {
        int finished = 20_000;
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, scheduled_at)
                SELECT gen_random_uuid(), 'job', now() - interval '1 hour' + n * interval '1 ms' FROM generate_series(1, ?) AS n
                """).param(finished).update();
        work.on("job", context -> {});
        try (Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs LIMIT 1");
            jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now()")
                    .update();
            Member member = cluster.start("one", work, UnaryOperator.identity());
            var waited = new ArrayList<Long>();
            for (int i = 0; i < 50; i++) {
                JobInfo job =
                        member.ended(member.jobs().enqueueNamed("job", null).id());
                waited.add(Duration.between(job.createdAt(), job.startedAt()).toMillis());
            }
            waited.sort(null);
            System.out.printf(
                    "jobs under a snapshot over %d finished ones waited %d ms (median), %d ms (longest)%n",
                    finished, waited.get(25), waited.get(49));
            // This job comes out of order: a search from the marks does not find it.
            UUID odd = jdbc.sql("""
                            INSERT INTO forge_jobs (id, name, scheduled_at)
                            VALUES (gen_random_uuid(), 'job', now() - interval '30 minutes') RETURNING id
                            """).query(UUID.class).single();
            assertThat(member.ended(odd).status()).isEqualTo(JobStatus.COMPLETED);
            holder.rollback();
        }
    }

    @Test
    void replacement_never_runs_beside_the_replaced_job() throws Exception {
        var running = new AtomicInteger();
        var most = new AtomicInteger();
        var begun = new AtomicInteger();
        var enqueued = new AtomicInteger();
        var seen = new CopyOnWriteArrayList<Integer>();
        int rounds = 100;
        work.on(job("order").taking(Order.class), (payload, context) -> {
            most.accumulateAndGet(running.incrementAndGet(), Math::max);
            begun.incrementAndGet();
            int before = enqueued.get();
            // Each job ends while its replacement is being enqueued.
            await().pollInterval(Duration.ofMillis(1)).until(() -> enqueued.get() > before || before == rounds);
            seen.add(((Order) payload).quantity());
            running.decrementAndGet();
            return null;
        });
        Member one = cluster.start("one", work, UnaryOperator.identity());
        cluster.start("two", copy(), UnaryOperator.identity());
        JobOptions replacing = JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE);
        for (int i = 0; i < rounds; i++) {
            int before = begun.get();
            one.jobs().enqueue(new Order("a", i), replacing);
            enqueued.incrementAndGet();
            if (i % 3 == 2) {
                // Two of three rounds replace a job that waits; the third one waits until a job starts.
                await().pollInterval(Duration.ofMillis(1)).until(() -> begun.get() > before);
            }
        }
        await().untilAsserted(() -> assertThat(seen).contains(rounds - 1));
        assertThat(most).hasValue(1);
    }
}
