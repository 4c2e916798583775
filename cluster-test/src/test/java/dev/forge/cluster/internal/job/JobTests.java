package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static dev.forge.cluster.internal.PatientAwaits.await;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobExplanation.Reason;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;
import tools.jackson.databind.util.RawValue;

/** Jobs from enqueueing to their end, on nodes in this JVM. */
@ClusterPostgres
class JobTests {

    record Order(String item, int quantity) {}

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestJobs work;

    JobTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (job uuid, attempt int)").update();
        jdbc.sql("TRUNCATE effects").update();
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private static void until(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    }

    private static NodeSettings without(NodeSettings settings, NodeRole... roles) {
        var left = java.util.EnumSet.allOf(NodeRole.class);
        left.removeAll(List.of(roles));
        return with(settings, NodeMode.AUTO, left, List.of("general"));
    }

    private static NodeSettings with(NodeSettings settings, NodeMode mode, Set<NodeRole> roles, List<String> offered) {
        NodeSettings.Presence usual = settings.presence();
        return new NodeSettings(
                new NodeSettings.Presence(
                        usual.hostname(), mode, roles, offered, usual.version(), usual.info(), usual.load()),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    private static NodeSettings drainingFor(NodeSettings settings, Duration timeout) {
        return new NodeSettings(
                settings.presence(), settings.heartbeat(), settings.detection(), settings.election(), timeout);
    }

    // News

    @Test
    void a_node_that_is_alone_keeps_its_news_for_the_first_one_that_comes() throws Exception {
        work.on("job", context -> {});
        Member alone = cluster.start("alone", work, UnaryOperator.identity());
        await().until(alone.node()::isAlone);
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute("LISTEN "
                    + jdbc.sql("SELECT channel FROM forge_settings")
                            .query(String.class)
                            .single());
            var heard = new ArrayList<String>();
            alone.ended(alone.jobs().enqueueNamed("job", null, JobOptions.defaults()));
            hear(connection, heard);
            assertThat(heard).noneMatch(news -> news.startsWith(JobEngine.WORK));
            cluster.start("second", copy(), UnaryOperator.identity());
            await().until(() -> {
                hear(connection, heard);
                return heard.stream().anyMatch(news -> news.startsWith(JobEngine.WORK));
            });
        }
    }

    private static void hear(Connection connection, List<String> heard) throws SQLException {
        for (PGNotification news : connection.unwrap(PGConnection.class).getNotifications(100)) {
            heard.add(news.getParameter());
        }
    }

    @Test
    void who_calls_something_too_often_comes_back_later_without_having_spent_an_attempt() {
        var calls = new AtomicInteger();
        RateLimit limit = RateLimit.of(1, Duration.ofSeconds(1));
        work.on(job("job").attempts(1), (payload, context) -> {
            if (calls.incrementAndGet() == 1) {
                throw new RateLimitExceededException(
                        "sms", new RateLimitDecision(false, limit, 0, Duration.ofMillis(200), Duration.ofSeconds(1)));
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(calls).hasValue(2);
    }

    // Running

    @Test
    void a_job_finds_its_handler_by_the_type_of_its_payload_and_its_result_is_kept() {
        work.on(job("order").taking(Order.class), (payload, context) -> Map.of("got", payload));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueue(new Order("anvil", 2));
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.result()).contains("\"got\"", "\"anvil\"", "2");
        assertThat(job.attempts()).isOne();
        assertThat(job.nodeId()).isEqualTo(member.node().id());
        assertThat(job.startedAt()).isBeforeOrEqualTo(job.finishedAt());
    }

    @Test
    void a_job_knows_what_it_is() {
        var seen = new CopyOnWriteArrayList<JobContext>();
        work.on("job", seen::add);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs()
                .enqueueNamed(
                        "job",
                        null,
                        JobOptions.defaults().withMetadata("tenant", "acme").withMaxAttempts(7));
        member.ended(id);
        JobContext context = seen.get(0);
        assertThat(context.id()).isEqualTo(id);
        assertThat(context.name()).isEqualTo("job");
        assertThat(context.attempt()).isOne();
        assertThat(context.maxAttempts()).isEqualTo(7);
        assertThat(context.epoch()).isOne();
        assertThat(context.idempotencyKey()).isEqualTo(id.toString());
        assertThat(context.metadata()).isEqualTo(Map.of("tenant", "acme"));
        assertThat(context.nodeName()).isEqualTo("one");
        assertThat(context.stopRequested()).isFalse();
    }

    @Test
    void a_failed_attempt_is_repeated_until_it_succeeds() {
        work.on("job", context -> {
            if (context.attempt() < 3) {
                throw new IllegalStateException("not yet \0");
            }
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isEqualTo(3);
        assertThat(job.lastError()).contains("not yet").contains("at dev.forge.cluster");
    }

    @Test
    void the_last_attempt_fails_the_job_and_a_retry_begins_anew() {
        var broken = new AtomicInteger(3);
        work.on("job", context -> {
            if (broken.getAndDecrement() > 0) {
                throw new IllegalStateException("x".repeat(100_000));
            }
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        JobInfo failed = member.ended(id);
        assertThat(failed.status()).isEqualTo(JobStatus.FAILED);
        assertThat(failed.attempts()).isEqualTo(3);
        assertThat(failed.lastError()).hasSizeLessThan(21_000);
        assertThat(member.jobs().retry(id)).isTrue();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void what_no_attempt_can_save_fails_at_once() {
        work.on("permanent", context -> {
            throw new PermanentJobFailure("no such customer");
        });
        work.on(job("excluded").excluding(IllegalArgumentException.class), (payload, context) -> {
            throw new NumberFormatException("12x");
        });
        work.on(job("decided"), (payload, context) -> Outcome.fail("decided so"));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        for (String name : List.of("permanent", "excluded", "decided")) {
            JobInfo job = member.ended(member.jobs().enqueueNamed(name, null));
            assertThat(job.status()).as(name).isEqualTo(JobStatus.FAILED);
            assertThat(job.attempts()).isOne();
            assertThat(job.lastError()).containsAnyOf("no such customer", "12x", "decided so");
        }
    }

    @Test
    void a_snooze_spends_no_attempt() {
        var runs = new AtomicInteger();
        work.on(job("job").attempts(1), (payload, context) -> {
            assertThat(context.attempt()).isOne();
            return runs.incrementAndGet() < 4 ? Outcome.snooze(Duration.ofMillis(20)) : Outcome.complete("done");
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(job.epoch()).isEqualTo(4);
    }

    @Test
    void an_attempt_that_takes_too_long_is_interrupted_and_counts() {
        work.on(job("job").attempts(2).timeout(Duration.ofMillis(200)), (payload, context) -> {
            new CountDownLatch(1).await();
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.attempts()).isEqualTo(2);
        assertThat(job.lastError()).contains("longer than PT0.2S");
    }

    @Test
    void progress_is_seen_while_it_runs_and_a_checkpoint_survives_the_attempt() throws Exception {
        var reached = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            if (context.attempt() == 1) {
                assertThat(context.checkpoint(Order.class)).isEmpty();
                context.checkpoint(new Order("page", 7));
                context.progress(40, "page 7");
                reached.countDown();
                until(go);
                throw new IllegalStateException("lost my place");
            }
            assertThat(context.checkpoint(Order.class)).contains(new Order("page", 7));
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        until(reached);
        await().untilAsserted(() ->
                assertThat(member.jobs().find(id).orElseThrow().progress()).contains("40", "page 7"));
        go.countDown();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    // Transactions

    private void effect(JobContext context) {
        jdbc.sql("INSERT INTO effects VALUES (?, ?)")
                .params(context.id(), context.attempt())
                .update();
    }

    private List<Integer> effects(UUID id) {
        return jdbc.sql("SELECT attempt FROM effects WHERE job = ?")
                .param(id)
                .query(Integer.class)
                .list();
    }

    @Test
    void what_a_transactional_handler_writes_and_its_completion_are_one() {
        // Its own JdbcClient on the same data source joins the transaction.
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            effect(context);
            if (context.attempt() < 3) {
                throw new IllegalStateException("roll back");
            }
            return "kept";
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.result()).isEqualTo("\"kept\"");
        assertThat(effects(id)).containsExactly(3);
    }

    @Test
    void a_transactional_handler_whose_claim_is_gone_leaves_nothing() throws Exception {
        var inside = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            if (context.epoch() == 1) {
                effect(context);
                inside.countDown();
                until(go);
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        until(inside);
        jdbc.sql(
                        "UPDATE forge_jobs SET claim_epoch = claim_epoch + 1, status = 'pending', worker_id = NULL WHERE id = ?")
                .param(id)
                .update();
        go.countDown();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(effects(id)).isEmpty();
    }

    @Test
    void repeatable_read_handlers_complete() throws Exception {
        work.heartbeat = Duration.ofMillis(50);
        work.lease = Duration.ofMillis(300);
        work.sweep = Duration.ofMillis(100);
        work.grace = Duration.ZERO;
        var go = new CountDownLatch(1);
        for (int isolation : List.of(
                TransactionDefinition.ISOLATION_REPEATABLE_READ, TransactionDefinition.ISOLATION_SERIALIZABLE)) {
            work.on(job("job" + isolation).in(work.transaction(isolation)), (payload, context) -> {
                effect(context);
                context.progress(50, "half");
                until(go);
                return null;
            });
        }
        work.on("companion", context -> until(go));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader("scheduler"));
        List<UUID> ids = Stream.of("job4", "job8")
                .map(name -> member.jobs().enqueueNamed(name, null))
                .toList();
        await().until(() ->
                ids.stream().allMatch(id -> member.jobs().find(id).orElseThrow().status() == JobStatus.RUNNING));
        renewedFor(member.jobs().enqueueNamed("companion", null), Duration.ofMillis(900));
        go.countDown();
        ids.forEach(id -> {
            JobInfo job = member.ended(id);
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(job.attempts()).isOne();
            assertThat(job.recoveries()).isZero();
            assertThat(effects(id)).containsExactly(1);
        });
    }

    /** Returns when renewals have moved the end of that job's lease on by that much since it was claimed. */
    private void renewedFor(UUID plain, Duration time) {
        await().until(() -> jdbc.sql(
                        "SELECT lease_expires_at - claimed_at > ? * interval '1 millisecond' FROM forge_jobs WHERE id = ?")
                .params(time.plus(work.lease).toMillis(), plain)
                .query((row, n) -> row.getBoolean(1))
                .single());
    }

    @ParameterizedTest
    @CsvSource({"4, false", "4, true", "8, false", "8, true"})
    void a_successor_that_the_snapshot_of_a_handler_hides_costs_no_attempt_and_runs_after_it(
            int isolation, boolean enqueuedBefore) throws Exception {
        // Nobody but the worker itself is to free it.
        work.sweep = Duration.ofHours(1);
        var started = new CountDownLatch(1);
        var enqueued = new CountDownLatch(1);
        var snapshot = new CountDownLatch(1);
        var replaced = new CountDownLatch(1);
        work.on(job("order").taking(Order.class).in(work.transaction(isolation)), (payload, context) -> {
            if (((Order) payload).quantity() == 1) {
                started.countDown();
                until(enqueued);
                effect(context);
                snapshot.countDown();
                until(replaced);
            }
            return payload;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobOptions replacing = JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE);
        UUID first = member.jobs().enqueue(new Order("a", 1), replacing);
        until(started);
        if (enqueuedBefore) {
            member.jobs().enqueue(new Order("a", 2), replacing);
        }
        enqueued.countDown();
        until(snapshot);
        UUID second = member.jobs().enqueue(new Order("a", 3), replacing);
        replaced.countDown();
        JobInfo job = member.ended(first);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).as("%s", job.lastError()).isOne();
        assertThat(effects(first)).containsExactly(1);
        assertThat(member.ended(second).result()).contains("3");
    }

    @Test
    void a_job_cancelled_under_an_old_snapshot_frees_its_successor() throws Exception {
        work.sweep = Duration.ofHours(1);
        var started = new CountDownLatch(1);
        work.on(job("order").taking(Order.class), (payload, context) -> {
            if (((Order) payload).quantity() == 1) {
                started.countDown();
                new CountDownLatch(1).await();
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobOptions replacing = JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE);
        UUID first = member.jobs().enqueue(new Order("a", 1), replacing);
        until(started);
        var transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transactions.setIsolationLevel(TransactionDefinition.ISOLATION_REPEATABLE_READ);
        UUID second = transactions.execute(status -> {
            assertThat(member.jobs().find(first)).isPresent();
            UUID successor = CompletableFuture.supplyAsync(() -> member.jobs().enqueue(new Order("a", 2), replacing))
                    .join();
            assertThat(member.jobs().cancel(first)).isTrue();
            return successor;
        });
        assertThat(member.ended(second).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void a_transaction_that_its_handler_marked_for_rollback_is_a_failed_attempt() {
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            effect(context);
            if (context.attempt() == 1) {
                var inner = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
                inner.executeWithoutResult(status -> status.setRollbackOnly());
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        assertThat(member.ended(id).attempts()).isEqualTo(2);
        assertThat(effects(id)).containsExactly(2);
    }

    @Test
    void enqueueing_is_part_of_the_callers_transaction() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        var transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        var ids = new ArrayList<UUID>();
        transactions.executeWithoutResult(status -> {
            ids.add(member.jobs().enqueueNamed("job", null));
            status.setRollbackOnly();
        });
        transactions.executeWithoutResult(status -> ids.add(member.jobs().enqueueNamed("job", null)));
        assertThat(member.ended(ids.get(1)).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.jobs().find(ids.get(0))).isEmpty();
        assertThat(member.jobs().explain(ids.get(0)).reason()).isEqualTo(Reason.NOT_FOUND);
    }

    // Enqueueing

    @Test
    void what_cannot_be_enqueued_is_refused_with_the_reason_and_leaves_nothing() {
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
        refused(() -> jobs.enqueue(new Order("a", 1), options.withDelay(Duration.ofSeconds(-1))), "PT-1S");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withDelay(Duration.ofDays(99_999))), "hundred years");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withTime(Instant.MAX)), "+1000000000");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withUniqueKey("a\0b")), "unique key");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withUniqueKey("k".repeat(501))), "unique key of 501");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withUniqueKey("a\ud800")), "unique key");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withMaxAttempts(0)), "max attempts 0");
        refused(() -> jobs.enqueue(new Order("a", 1), options.withMetadata("k", "\0")), "metadata", "NUL");
        refused(() -> jobs.enqueueAll(List.of(new Order("a", 1)), options.withUniqueKey("k")), "unique key");
        refused(() -> jobs.enqueueAll(List.of(new Order("a", 1), "text")), "java.lang.String");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs").query(Long.class).single())
                .isZero();
        // The same characters, escaped, are text like any other.
        assertThat(jobs.enqueue(new Order("back\\u0000slash \ud83d\ude00", 1))).isNotNull();
    }

    @JobName("daemon:feed")
    record Feed() {}

    @Test
    void reserved_names_and_keys_are_refused_with_the_same_message_by_java_and_sql() {
        work.on(job("order").taking(Order.class), (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        DefaultJobs jobs = member.jobs();
        alike(() -> jobs.enqueueNamed("workflow:order@1", null), "'workflow:order@1'", "Workflows.start");
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

    private static void refused(org.assertj.core.api.ThrowableAssert.ThrowingCallable enqueueing, String... words) {
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(enqueueing)
                .satisfies(e -> assertThat(e.getMessage()).contains(words));
    }

    @Test
    void many_at_once_keep_their_order() {
        var seen = new CopyOnWriteArrayList<Integer>();
        work.slots = 1;
        work.prefetch = 0;
        work.on(job("order").taking(Order.class), (payload, context) -> {
            seen.add(((Order) payload).quantity());
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = member.jobs()
                .enqueueAll(IntStream.range(0, 2_500)
                        .mapToObj(i -> new Order("a", i))
                        .toList());
        assertThat(ids).hasSize(2_500).doesNotHaveDuplicates().isSorted();
        await().until(() -> seen.size() == 2_500);
        assertThat(seen).doesNotHaveDuplicates();
        assertThat(member.jobs().enqueueAll(List.of())).isEmpty();
    }

    @Test
    void a_job_enqueued_with_plain_sql_runs_too() {
        work.poll = Duration.ofMillis(100);
        work.on(job("order").taking(Order.class), (payload, context) -> payload);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = jdbc.sql("SELECT forge_enqueue('order', '{\"item\": \"sql\", \"quantity\": 3}')")
                .query(UUID.class)
                .single();
        assertThat(member.ended(id).result()).contains("sql");
    }

    @Test
    void a_delayed_job_starts_on_time() {
        work.poll = Duration.ofSeconds(30);
        var started = new CopyOnWriteArrayList<Long>();
        work.on("job", context -> started.add(System.nanoTime()));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        long enqueued = System.nanoTime();
        UUID id = member.jobs().enqueueNamed("job", null, JobOptions.defaults().withDelay(Duration.ofMillis(700)));
        assertThat(member.jobs().explain(id).reason()).isEqualTo(Reason.NOT_DUE);
        member.ended(id);
        assertThat(Duration.ofNanos(started.get(0) - enqueued)).isGreaterThanOrEqualTo(Duration.ofMillis(690));
    }

    @Test
    void a_snapshot_that_keeps_dead_entries_delays_no_job() throws Exception {
        int finished = 50_000;
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
                JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
                waited.add(Duration.between(job.createdAt(), job.startedAt()).toMillis());
            }
            waited.sort(null);
            System.out.printf(
                    "jobs under a snapshot over %d finished ones waited %d ms (median), %d ms (longest)%n",
                    finished, waited.get(25), waited.get(49));
            // One that comes out of order: no look from the marks would find it.
            UUID odd = jdbc.sql("""
                            INSERT INTO forge_jobs (id, name, scheduled_at)
                            VALUES (gen_random_uuid(), 'job', now() - interval '30 minutes') RETURNING id
                            """).query(UUID.class).single();
            assertThat(member.ended(odd).status()).isEqualTo(JobStatus.COMPLETED);
            holder.rollback();
        }
    }

    @Test
    void a_replacement_never_runs_beside_the_old_one() throws Exception {
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
            // Each ends while its replacement is being enqueued.
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
                // Two of three replace one that waits, the third lets one begin.
                await().pollInterval(Duration.ofMillis(1)).until(() -> begun.get() > before);
            }
        }
        await().untilAsserted(() -> assertThat(seen).contains(rounds - 1));
        assertThat(most).hasValue(1);
    }

    private TestJobs copy() {
        var copy = new TestJobs(database.dataSource());
        work.handlers().all().forEach(copy.handlers()::add);
        return copy;
    }

    // Who runs what

    @Test
    void nodes_run_only_what_they_know() {
        var one = new TestJobs(database.dataSource()).on("a", context -> {});
        var two = new TestJobs(database.dataSource()).on(job("b").alias("old-b"), (payload, context) -> null);
        Member first = cluster.start("one", one, UnaryOperator.identity());
        Member second = cluster.start("two", two, UnaryOperator.identity());
        UUID a = second.jobs().enqueueNamed("a", null);
        UUID b = first.jobs().enqueueNamed("b", null);
        UUID old = first.jobs().enqueueNamed("old-b", null);
        UUID unknown = jdbc.sql("SELECT forge_enqueue('c')").query(UUID.class).single();
        assertThat(first.ended(a).nodeId()).isEqualTo(first.node().id());
        assertThat(first.ended(b).nodeId()).isEqualTo(second.node().id());
        assertThat(first.ended(old).nodeId()).isEqualTo(second.node().id());
        assertThat(first.jobs().explain(unknown).reason()).isEqualTo(Reason.UNKNOWN_NAME);
    }

    @Test
    void a_name_stays_known_when_its_workers_have_gone() {
        work.on("job", context -> {});
        Member worker = cluster.start("worker", work, UnaryOperator.identity());
        worker.node().stop();
        assertThat(cluster.status("worker")).isEqualTo("absent");
        Member producer = cluster.start("producer", new TestJobs(database.dataSource()), UnaryOperator.identity());
        UUID id = producer.jobs().enqueueNamed("job", null);
        producer.jobs().pause("job");
        producer.jobs().resume("job");
        // Enqueued from SQL: somebody will have to look after these.
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
    void a_job_waits_for_a_node_with_its_capability_and_starts_as_soon_as_one_joins() {
        work.on("render", context -> {});
        Member general = cluster.start("general", work, UnaryOperator.identity());
        UUID id = general.jobs()
                .enqueueNamed("render", null, JobOptions.defaults().withCapability("gpu"));
        await().until(() -> general.jobs().explain(id).reason() == Reason.NO_CAPABLE_WORKER);
        Member gpu = cluster.start(
                "gpu", copy(), s -> with(s, NodeMode.AUTO, Set.of(NodeRole.values()), List.of("general", "gpu")));
        long joined = System.nanoTime();
        JobInfo job = gpu.ended(id);
        assertThat(job.nodeId()).isEqualTo(gpu.node().id());
        System.out.printf(
                "a GPU job ended %d ms after a GPU node had joined%n", (System.nanoTime() - joined) / 1_000_000);
    }

    @Test
    void urgent_jobs_come_first_and_old_ones_do_not_starve() throws Exception {
        var order = new CopyOnWriteArrayList<Integer>();
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 0;
        work.on("gate", context -> until(go));
        work.on(job("order").taking(Order.class), (payload, context) -> {
            order.add(((Order) payload).quantity());
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID gate = member.jobs().enqueueNamed("gate", null);
        await().until(() -> member.jobs().find(gate).orElseThrow().status() == JobStatus.RUNNING);
        member.jobs().enqueue(new Order("background", 0), JobOptions.defaults().withPriority(JobPriority.BACKGROUND));
        for (int i = 0; i < 40; i++) {
            member.jobs().enqueue(new Order("high", 75), JobOptions.defaults().withPriority(JobPriority.HIGH));
        }
        member.jobs().enqueue(new Order("critical", 100), JobOptions.defaults().withPriority(JobPriority.CRITICAL));
        go.countDown();
        await().until(() -> order.size() == 42);
        // Enqueued last; nobody looks while there is no room, so the first look has seen it.
        assertThat(order.indexOf(100)).as("%s", order).isZero();
        assertThat(order.indexOf(0)).as("%s", order).isBetween(1, 40);
    }

    @Test
    void a_full_executor_does_not_hold_up_another() throws Exception {
        var go = new CountDownLatch(1);
        work.on("slow", context -> until(go));
        work.on("quick", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> slow = IntStream.range(0, 20)
                .mapToObj(i -> member.jobs().enqueueNamed("slow", null))
                .toList();
        UUID quick = member.jobs().enqueueNamed("quick", null);
        assertThat(member.ended(quick).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.engine().lanes().get("slow")).containsEntry("jobs", 1);
        go.countDown();
        slow.forEach(id -> member.ended(id));
    }

    @Test
    void a_paused_name_waits_until_it_is_resumed() {
        work.on("job", context -> {});
        work.on("other", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("job");
        assertThat(member.jobs().paused()).containsExactly("job");
        UUID id = member.jobs().enqueueNamed("job", null);
        member.ended(member.jobs().enqueueNamed("other", null));
        assertThat(member.jobs().explain(id).reason()).isEqualTo(Reason.PAUSED);
        assertThat(member.jobs().resume("job")).isTrue();
        member.ended(id);
    }

    @Test
    void why_it_is_not_running_is_explained() throws Exception {
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 0;
        work.on("job", context -> until(go));
        Member enqueuer = cluster.start("enqueuer", copy(), s -> without(s, NodeRole.WORKER));
        UUID id =
                enqueuer.jobs().enqueueNamed("job", null, JobOptions.defaults().withUniqueKey("k"));
        assertThat(enqueuer.jobs().explain(id).reason()).isEqualTo(Reason.NO_LIVE_WORKER);
        Member member = cluster.start(
                "worker",
                work,
                s -> TestNodes.with(
                        s,
                        new NodeSettings.Heartbeat(
                                Duration.ofMillis(100),
                                false,
                                Duration.ofMinutes(1),
                                Duration.ofSeconds(10),
                                Duration.ofSeconds(15))));
        await().until(() -> member.jobs().explain(id).reason() == Reason.RUNNING);
        UUID second =
                member.jobs().enqueueNamed("job", null, JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE));
        assertThat(member.jobs().explain(second).reason()).isEqualTo(Reason.WAITING_FOR_PREDECESSOR);
        UUID third = member.jobs().enqueueNamed("job", null);
        await().until(() -> member.jobs().explain(third).reason() == Reason.WORKERS_FULL);
        go.countDown();
        member.ended(third);
        member.ended(second);
        assertThat(member.jobs().explain(id).reason()).isEqualTo(Reason.FINISHED);
    }

    @Test
    void an_observer_neither_runs_nor_enqueues() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        Member observer = cluster.start(
                "observer", copy(), s -> with(s, NodeMode.OBSERVER, Set.of(NodeRole.values()), List.of("general")));
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> observer.jobs().enqueueNamed("job", null))
                .withMessageContaining("forge.cluster.node.mode (observer)");
        List<UUID> ids = IntStream.range(0, 50)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .toList();
        assertThat(ids)
                .allSatisfy(id -> assertThat(member.ended(id).nodeId())
                        .isEqualTo(member.node().id()));
    }

    @Test
    void a_worker_that_was_to_be_alone_takes_nothing_beside_another() {
        work.claiming = false;
        work.on("job", context -> {});
        Member alone = cluster.start("alone", work, UnaryOperator.identity());
        assertThat(alone.ended(alone.jobs().enqueueNamed("job", null)).status()).isEqualTo(JobStatus.COMPLETED);
        cluster.start("other", new TestJobs(database.dataSource()), UnaryOperator.identity());
        await().until(() -> alone.engine().isCrowded());
        UUID id = alone.jobs().enqueueNamed("job", null);
        await().during(Duration.ofMillis(500))
                .until(() -> alone.jobs().find(id).orElseThrow().status() == JobStatus.PENDING);
    }

    // Ends that nobody asked for

    @Test
    void a_cancelled_job_is_interrupted_on_whatever_node_it_runs() throws Exception {
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on("job", context -> {
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                assertThat(context.stopRequested()).isTrue();
                interrupted.countDown();
            }
        });
        Member runner = cluster.start("runner", work, UnaryOperator.identity());
        Member other = cluster.start("other", new TestJobs(database.dataSource()), UnaryOperator.identity());
        UUID id = other.jobs().enqueueNamed("job", null);
        until(started);
        assertThat(other.jobs().cancel(id)).isTrue();
        until(interrupted);
        assertThat(other.jobs().cancel(id)).isFalse();
        await().until(() -> runner.engine().load() == 0);
        assertThat(runner.jobs().find(id).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
    }

    @Test
    void a_handler_whose_job_was_given_to_another_is_interrupted_and_its_result_dropped() throws Exception {
        work.heartbeat = Duration.ofMillis(100);
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on(job("job"), (payload, context) -> {
            if (context.epoch() > 1) {
                return "second";
            }
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupted.countDown();
            }
            return "first";
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        until(started);
        jdbc.sql("UPDATE forge_jobs SET status = 'pending', worker_id = NULL WHERE id = ?")
                .param(id)
                .update();
        until(interrupted);
        assertThat(member.ended(id).result()).isEqualTo("\"second\"");
    }

    @Test
    void a_long_job_keeps_its_lease_as_long_as_its_node_lives() throws Exception {
        work.lease = Duration.ofMillis(500);
        work.heartbeat = Duration.ofMillis(100);
        work.sweep = Duration.ofMillis(50);
        work.grace = Duration.ZERO;
        var go = new CountDownLatch(1);
        work.on("job", context -> until(go));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader("scheduler"));
        UUID id = member.jobs().enqueueNamed("job", null);
        renewedFor(id, Duration.ofSeconds(2));
        go.countDown();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.epoch()).isOne();
        assertThat(job.recoveries()).isZero();
    }

    @Test
    void a_drain_waits_for_what_runs_and_returns_what_has_not_begun() throws Exception {
        var started = new CountDownLatch(2);
        var go = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on("job", context -> {
            started.countDown();
            until(go);
        });
        Member first = cluster.start("first", work, UnaryOperator.identity());
        List<UUID> ids = IntStream.range(0, 8)
                .mapToObj(i -> first.jobs().enqueueNamed("job", null))
                .toList();
        until(started);
        // Not all of them perhaps: while enough is there it claims no more.
        await().until(() -> first.engine().load() > 2);
        var draining = new Thread(first.node()::stop);
        draining.start();
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'pending' AND attempts = 0")
                        .query(Long.class)
                        .single()
                == 6);
        go.countDown();
        draining.join(20_000);
        Member second = cluster.start("second", copy(), UnaryOperator.identity());
        ids.forEach(id -> {
            JobInfo job = second.ended(id);
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(job.attempts()).isOne();
            assertThat(job.recoveries()).isZero();
        });
    }

    @Test
    void a_drain_that_runs_out_of_time_interrupts_and_gives_the_attempt_back() throws Exception {
        var started = new CountDownLatch(1);
        work.on(job("job").attempts(1), (payload, context) -> {
            if (context.epoch() == 1) {
                started.countDown();
                new CountDownLatch(1).await();
            }
            return context.nodeName();
        });
        Member first = cluster.start("first", work, s -> drainingFor(s, Duration.ofMillis(300)));
        UUID id = first.jobs().enqueueNamed("job", null);
        until(started);
        first.node().stop();
        Member second = cluster.start("second", copy(), UnaryOperator.identity());
        JobInfo job = second.ended(id);
        assertThat(job.result()).isEqualTo("\"second\"");
        assertThat(job.attempts()).isOne();
        assertThat(job.recoveries()).isZero();
    }

    @Test
    void a_handler_that_ignores_the_drain_does_not_hold_up_the_exit() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            if (context.epoch() > 1) {
                return;
            }
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    // Deaf on purpose.
                }
            }
        });
        Member first = cluster.start("first", work, s -> drainingFor(s, Duration.ofMillis(300)));
        UUID id = first.jobs().enqueueNamed("job", null);
        until(started);
        first.node().stop();
        Member second = cluster.start("second", copy(), UnaryOperator.identity());
        assertThat(second.ended(id).nodeId()).isEqualTo(second.node().id());
        go.countDown();
    }

    @Test
    void a_node_that_was_declared_dead_drops_what_it_ran() throws Exception {
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on(job("job"), (payload, context) -> {
            if (context.epoch() > 1) {
                return "again";
            }
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupted.countDown();
            }
            return "dropped";
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        until(started);
        UUID former = member.node().id();
        assertThat(member.node()
                        .members()
                        .nodes()
                        .declareDead(
                                former, beats(former), () -> member.engine().releaseHeldByDead(former)))
                .isPresent();
        until(interrupted);
        JobInfo job = member.ended(id);
        assertThat(job.result()).isEqualTo("\"again\"");
        assertThat(job.recoveries()).isOne();
        assertThat(job.nodeId()).isNotEqualTo(former);
    }

    private long beats(UUID id) {
        return jdbc.sql("SELECT beats FROM forge_nodes WHERE id = ?")
                .param(id)
                .query(Long.class)
                .single();
    }

    @Test
    void bad_rows_fail_with_a_reason_and_their_neighbours_complete() {
        work.poll = Duration.ofMillis(200);
        work.on(job("order").taking(Order.class), (payload, context) -> {
            int quantity = ((Order) payload).quantity();
            return quantity % 10 == 7 ? "nul \0" : payload;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("order");
        var ids = new ArrayList<>(member.jobs()
                .enqueueAll(
                        IntStream.range(0, 60).mapToObj(i -> new Order("a", i)).toList()));
        jdbc.sql("UPDATE forge_jobs SET payload = '[1, 2]' WHERE id = ?")
                .param(ids.get(3))
                .update();
        jdbc.sql("UPDATE forge_jobs SET payload = '\"text\"' WHERE id = ?")
                .param(ids.get(4))
                .update();
        jdbc.sql("UPDATE forge_jobs SET metadata = '[]', last_error = repeat('e', 1000000) WHERE id = ?")
                .param(ids.get(5))
                .update();
        jdbc.sql("UPDATE forge_jobs SET attempts = 999, recoveries = 99 WHERE id = ?")
                .param(ids.get(6))
                .update();
        member.jobs().resume("order");
        for (int i = 0; i < ids.size(); i++) {
            JobInfo job = member.ended(ids.get(i));
            boolean bad = i == 3 || i == 4 || i % 10 == 7;
            assertThat(job.status())
                    .as("%d: %s", i, job.lastError())
                    .isEqualTo(bad ? JobStatus.FAILED : JobStatus.COMPLETED);
            if (bad) {
                assertThat(job.lastError()).containsAnyOf("cannot be read as", "its result");
            }
        }
    }

    @Test
    void a_result_that_only_the_database_refuses_fails_alone() {
        // What the codec takes for JSON and the database does not.
        work.on(
                job("order").taking(Order.class),
                (payload, context) -> ((Order) payload).quantity() == 5 ? new RawValue("[1,") : payload);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = member.jobs()
                .enqueueAll(
                        IntStream.range(0, 20).mapToObj(i -> new Order("a", i)).toList());
        for (int i = 0; i < ids.size(); i++) {
            JobInfo job = member.ended(ids.get(i));
            assertThat(job.status()).isEqualTo(i == 5 ? JobStatus.FAILED : JobStatus.COMPLETED);
        }
        assertThat(member.jobs().find(ids.get(5)).orElseThrow().lastError()).contains("the database refused");
    }

    @Test
    void whatever_json_a_payload_is_the_engine_goes_on() {
        work.poll = Duration.ofMillis(200);
        work.on(job("order").taking(Order.class).attempts(1), (payload, context) -> payload);
        work.on("good", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        var random = new Random(4711);
        int bad = 0;
        for (int i = 0; i < 300; i++) {
            String payload = json(random, 3);
            bad += payload.startsWith("{") ? 0 : 1;
            jdbc.sql("SELECT forge_enqueue('order', ?::jsonb)")
                    .param(payload)
                    .query((row, n) -> true)
                    .single();
            member.jobs().enqueueNamed("good", null);
        }
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE finished_at IS NULL")
                        .query(Long.class)
                        .single()
                == 0);
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'good' AND status = 'completed'")
                        .query(Long.class)
                        .single())
                .isEqualTo(300);
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'failed' AND last_error IS NOT NULL")
                        .query(Integer.class)
                        .single())
                .isGreaterThanOrEqualTo(bad / 2)
                .isPositive();
    }

    private static String json(Random random, int depth) {
        return switch (random.nextInt(depth > 0 ? 8 : 6)) {
            case 0 -> "null";
            case 1 -> Long.toString(random.nextLong());
            case 2 -> "1e" + random.nextInt(300);
            case 3 -> random.nextBoolean() ? "true" : "false";
            case 4 -> "\"" + "\u00e9\u4e2d \\\" \\n \\\\ ".repeat(random.nextInt(4)) + "\"";
            case 5 -> "{\"item\": \"a\", \"quantity\": %d}".formatted(random.nextInt());
            case 6 ->
                IntStream.range(0, random.nextInt(4))
                        .mapToObj(i -> json(random, depth - 1))
                        .collect(Collectors.joining(", ", "[", "]"));
            default ->
                IntStream.range(0, random.nextInt(4))
                        .mapToObj(i -> "\"k%d\": %s".formatted(i, json(random, depth - 1)))
                        .collect(Collectors.joining(", ", "{", "}"));
        };
    }

    @Test
    void an_overloaded_node_uses_half_of_its_slots_until_it_recovers() {
        var cpu = new AtomicReference<>(0.95);
        work.on("job", context -> {});
        Member member = cluster.start("one", work, s -> {
            NodeSettings.Presence usual = s.presence();
            return new NodeSettings(
                    new NodeSettings.Presence(
                            usual.hostname(),
                            usual.mode(),
                            usual.roles(),
                            usual.capabilities(),
                            usual.version(),
                            usual.info(),
                            () -> new Load(0, 0, cpu.get(), 0.5)),
                    s.heartbeat(),
                    s.detection(),
                    s.election(),
                    s.drainTimeout());
        });
        assertThat(member.engine().lanes().get("default")).containsEntry("slots", 4);
        await().until(() -> member.engine().lanes().get("default").get("slots") == 2);
        assertThat(member.ended(member.jobs().enqueueNamed("job", null)).status())
                .isEqualTo(JobStatus.COMPLETED);
        cpu.set(0.2);
        await().until(() -> member.engine().lanes().get("default").get("slots") == 4);
    }

    @Test
    void a_row_that_an_application_has_locked_keeps_no_other_job_from_ending() throws Exception {
        var started = new CountDownLatch(2);
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            started.countDown();
            until(go);
        });
        work.on("other", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID locked = member.jobs().enqueueNamed("job", null);
        UUID free = member.jobs().enqueueNamed("job", null);
        until(started);
        var transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transactions.executeWithoutResult(status -> {
            assertThat(member.jobs().cancel(locked)).isTrue();
            go.countDown();
            assertThat(member.ended(free).status()).isEqualTo(JobStatus.COMPLETED);
            UUID later =
                    jdbc.sql("SELECT forge_enqueue('other')").query(UUID.class).single();
            assertThat(later).isNotNull();
            status.setRollbackOnly();
        });
        assertThat(member.ended(locked).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void a_transactional_job_is_claimed_only_when_it_starts_at_once() throws Exception {
        var go = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            until(go);
            return null;
        });
        work.on("quick", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids = IntStream.range(0, 6)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .toList();
        await().until(() -> member.engine().load() == 2);
        assertThat(jdbc.sql("SELECT status, count(*) FROM forge_jobs GROUP BY 1 ORDER BY 1")
                        .query((row, n) -> row.getString(1) + " " + row.getInt(2))
                        .list())
                .containsExactly("pending 4", "running 2");
        go.countDown();
        ids.forEach(id -> member.ended(id));
    }

    @Test
    void retention_zero_deletes_what_completed_and_keeps_what_failed() {
        JobHandler usual = new TestJobs(database.dataSource())
                .on(job("job").taking(Order.class), (payload, context) -> {
                    if (((Order) payload).quantity() == 0) {
                        throw new PermanentJobFailure("none");
                    }
                    return null;
                })
                .handlers()
                .named("job");
        JobHandler.Limits limits = usual.limits();
        work.handlers()
                .add(new JobHandler(
                        usual.name(),
                        usual.aliases(),
                        null,
                        usual.priority(),
                        new JobHandler.Limits(
                                limits.maxAttempts(), limits.backoff(), 0, limits.excluded(), null, Duration.ZERO),
                        usual.target()));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID failed = member.jobs().enqueue(new Order("a", 0));
        UUID completed = member.jobs().enqueue(new Order("a", 1));
        assertThat(member.ended(failed).status()).isEqualTo(JobStatus.FAILED);
        await().until(() -> member.jobs().find(completed).isEmpty());
        member.engine().cleanUp();
        assertThat(member.jobs().find(failed)).isPresent();
    }

    @Test
    void purge_that_took_too_long_goes_on_with_fewer_rows() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at)
                SELECT gen_random_uuid(), 'job', 'completed', now() - interval '2 days' FROM generate_series(1, 700)
                """).update();
        jdbc.sql("""
                CREATE FUNCTION limit_deletes() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF (SELECT count(*) FROM gone) > 50 THEN
                        RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';
                    END IF;
                    RETURN NULL;
                END $$
                """).update();
        jdbc.sql("CREATE TRIGGER limit_deletes AFTER DELETE ON forge_jobs REFERENCING OLD TABLE AS gone"
                        + " FOR EACH STATEMENT EXECUTE FUNCTION limit_deletes()")
                .update();
        try {
            Member member = cluster.start("one", work, UnaryOperator.identity());
            await().until(() -> member.leadership().isLeader(Leadership.LOG_COMPACTOR));
            member.engine().cleanUp();
            assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs")
                            .query(Long.class)
                            .single())
                    .isZero();
        } finally {
            jdbc.sql("DROP TRIGGER limit_deletes ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION limit_deletes").update();
        }
    }
}
