package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static dev.forge.cluster.internal.PatientAwaits.await;

import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.ThrowingLoggers;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.io.PrintWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.InvalidIsolationLevelException;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionSystemException;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * What a worker does when things go wrong around it. It polls once a minute here: whatever happens sooner, something has
 * told it to look.
 */
@ClusterPostgres
class WorkerTests {

    private static final Duration SOON = Duration.ofSeconds(15);

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestJobs work;
    private final TransactionTemplate transactions;

    WorkerTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = jobs();
        this.transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private TestJobs jobs() {
        var jobs = new TestJobs(database.dataSource());
        jobs.poll = Duration.ofMinutes(1);
        return jobs;
    }

    private TestJobs copy() {
        TestJobs copy = jobs();
        work.handlers().all().forEach(copy.handlers()::add);
        return copy;
    }

    private Member start() {
        return cluster.start("one", work, UnaryOperator.identity());
    }

    private static void until(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    }

    private static NodeSettings enqueuing(NodeSettings settings) {
        NodeSettings.Presence usual = settings.presence();
        return new NodeSettings(
                new NodeSettings.Presence(
                        usual.hostname(),
                        NodeMode.AUTO,
                        Set.of(NodeRole.FUNCTION),
                        usual.capabilities(),
                        usual.version(),
                        usual.info(),
                        usual.load()),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    private long count(String condition) {
        return jdbc.sql("SELECT count(*) FROM forge_jobs WHERE " + condition)
                .query(Long.class)
                .single();
    }

    // What is claimed

    @Test
    void a_lane_is_claimed_for_while_its_condition_holds_on_a_node_that_is_no_worker() {
        work.on("duty", context -> {});
        work.on("other", context -> {});
        Member member = cluster.start("one", work, WorkerTests::enqueuing);
        var leads = new AtomicBoolean();
        Worker worker = worker(
                member,
                List.of(
                        new Claimer.Intake(lane("leader"), () -> List.of("duty"), List.of("leader"), leads::get),
                        new Claimer.Intake(lane("open"), () -> List.of("duty", "other"), List.of(""), () -> true)));
        worker.begin();
        try {
            UUID first = enqueueDuty(member);
            worker.wake();
            // Enqueued later, and done: the duty had its chance.
            UUID other = member.jobs().enqueueNamed("other", null);
            worker.wake();
            assertThat(member.ended(other).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(member.jobs().find(first).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            leads.set(true);
            worker.wake();
            assertThat(member.ended(first).status()).isEqualTo(JobStatus.COMPLETED);
            leads.set(false);
            UUID second = enqueueDuty(member);
            UUID last = member.jobs().enqueueNamed("other", null);
            worker.wake();
            member.ended(last);
            assertThat(member.jobs().find(second).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            assertThat(worker.lanes()).containsOnlyKeys("leader", "open");
        } finally {
            stop(worker);
        }
    }

    private static UUID enqueueDuty(Member member) {
        return member.jobs().enqueueNamed("duty", null, JobOptions.defaults().withCapability("leader"));
    }

    private static WorkerSettings.LaneSettings lane(String name) {
        return new WorkerSettings.LaneSettings(name, 1, null, false);
    }

    private Worker worker(Member member, List<Claimer.Intake> intakes) {
        return worker(member, database.dataSource(), () -> 0, intakes);
    }

    /** @param ahead how many nanoseconds its clock is ahead of that of its node */
    private Worker worker(Member member, DataSource source, LongSupplier ahead, List<Claimer.Intake> intakes) {
        var store = new JobStore(cluster.schema, source);
        var setup = new Worker.Setup(
                work.settings(),
                work.handlers(),
                new Worker.Stores(store, store),
                new PayloadJson(new TestJobs.Json(), work.maxPayload),
                JobMonitor.NONE);
        return new Worker(
                setup,
                new Worker.Host() {
                    @Override
                    public @Nullable UUID claimant() {
                        return member.node().id();
                    }

                    @Override
                    public boolean isTrusted() {
                        return member.node().isTrusted();
                    }

                    @Override
                    public long nanos() {
                        return member.node().nanos() + ahead.getAsLong();
                    }

                    @Override
                    public String nodeName() {
                        return "one";
                    }

                    @Override
                    public void introduce() {}

                    @Override
                    public void cameBack() {}
                },
                intakes);
    }

    private static void stop(Worker worker) {
        try {
            worker.end();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void a_wake_up_whose_look_failed_is_not_forgotten() {
        work.on("job", context -> {});
        Member member = start();
        member.ended(member.jobs().enqueueNamed("job", null));
        jdbc.sql("CREATE SEQUENCE looks").update();
        jdbc.sql("""
                CREATE FUNCTION broken() RETURNS text LANGUAGE plpgsql AS $$
                BEGIN
                    -- A sequence remembers what a rollback undoes.
                    PERFORM nextval('looks');
                    RAISE EXCEPTION 'broken';
                END $$
                """).update();
        jdbc.sql("ALTER TABLE forge_job_pauses RENAME TO hidden").update();
        UUID id;
        try {
            jdbc.sql("CREATE VIEW forge_job_pauses AS SELECT broken() AS name").update();
            id = member.jobs().enqueueNamed("job", null);
            await().until(() ->
                    jdbc.sql("SELECT is_called FROM looks").query(Boolean.class).single());
        } finally {
            jdbc.sql("DROP VIEW IF EXISTS forge_job_pauses").update();
            jdbc.sql("ALTER TABLE hidden RENAME TO forge_job_pauses").update();
            jdbc.sql("DROP FUNCTION broken").update();
            jdbc.sql("DROP SEQUENCE looks").update();
        }
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void node_without_marks_claims_although_a_whole_look_takes_too_long() {
        work.on("job", context -> {});
        UUID old = UUID.randomUUID();
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name, priority, scheduled_at) VALUES (?, 'job', 33, now() - interval '20 seconds')")
                .param(old)
                .update();
        var looks = new AtomicInteger();
        // As if millions of dead entries were in its way.
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                return (Connection) Proxy.newProxyInstance(
                        WorkerTests.class.getClassLoader(),
                        new Class<?>[] {Connection.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("prepareStatement")
                                    && arguments[0].toString().contains("RECURSIVE gap")) {
                                looks.incrementAndGet();
                                throw new SQLException("canceling statement due to user request", "57014");
                            }
                            try {
                                return method.invoke(connection, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getTargetException();
                            }
                        });
            }
        };
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        assertThat(member.ended(member.jobs().enqueueNamed("job", null)).status())
                .isEqualTo(JobStatus.COMPLETED);
        assertThat(member.ended(old).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(looks).hasPositiveValue();
    }

    @Test
    void look_back_that_takes_too_long_reaches_less_far() {
        work.on("job", context -> {});
        UUID old = UUID.randomUUID();
        jdbc.sql("INSERT INTO forge_jobs (id, name, scheduled_at) VALUES (?, 'job', now() - interval '10 minutes')")
                .param(old)
                .update();
        var reaches = new CopyOnWriteArrayList<Long>();
        // As if dead entries began 20 seconds ago: looks that reach further take too long.
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                return proxy(Connection.class, super.getConnection(), (method, arguments, result) -> {
                    if (!(result instanceof PreparedStatement statement)) {
                        return result;
                    }
                    String sql = arguments[0].toString();
                    if (sql.contains("RECURSIVE gap")) {
                        throw new SQLException("canceling statement due to user request", "57014");
                    }
                    return !sql.contains("generate_series(0, 100)")
                            ? statement
                            : proxy(PreparedStatement.class, statement, (call, values, answer) -> {
                                if (call.getName().equals("setLong")) {
                                    reaches.add((Long) values[1]);
                                    if ((Long) values[1] > 20_000) {
                                        throw new SQLException("canceling statement due to user request", "57014");
                                    }
                                }
                                return answer;
                            });
                });
            }
        };
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        await().until(() -> reaches.size() >= 8);
        assertThat(reaches.subList(0, 8))
                .containsExactly(1_000L, 2_000L, 4_000L, 8_000L, 16_000L, 32_000L, 16_000L, 32_000L);
        // What is recent is claimed all the time.
        assertThat(member.ended(member.jobs().enqueueNamed("job", null)).status())
                .isEqualTo(JobStatus.COMPLETED);
        assertThat(member.jobs().find(old).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void whole_look_is_tried_again_a_minute_after_one_that_took_too_long() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, WorkerTests::enqueuing);
        var ahead = new AtomicLong();
        var wholeLooks = new AtomicInteger();
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                return proxy(Connection.class, super.getConnection(), (method, arguments, result) -> {
                    if (result instanceof PreparedStatement
                            && arguments[0].toString().contains("RECURSIVE gap")
                            && wholeLooks.incrementAndGet() == 1) {
                        throw new SQLException("canceling statement due to user request", "57014");
                    }
                    return result;
                });
            }
        };
        Worker worker = worker(
                member,
                source,
                ahead::get,
                List.of(new Claimer.Intake(lane("open"), () -> List.of("job"), List.of(""), () -> true)));
        UUID old = UUID.randomUUID();
        jdbc.sql("INSERT INTO forge_jobs (id, name, scheduled_at) VALUES (?, 'job', now() - interval '60 days')")
                .param(old)
                .update();
        worker.begin();
        try {
            UUID recent = member.jobs().enqueueNamed("job", null);
            worker.wake();
            assertThat(member.ended(recent).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(wholeLooks).hasValue(1);
            assertThat(member.jobs().find(old).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            ahead.set(Duration.ofSeconds(61).toNanos());
            worker.wake();
            assertThat(member.ended(old).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(wholeLooks).hasValueGreaterThan(1);
        } finally {
            stop(worker);
        }
    }

    @Test
    void a_last_chance_begins_as_soon_as_the_end_of_the_other_is_written() throws Exception {
        var running = new AtomicInteger();
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            assertThat(running.incrementAndGet()).isOne();
            until(go);
            running.decrementAndGet();
        });
        Member member = start();
        member.jobs().pause("job");
        List<UUID> ids = IntStream.range(0, 2)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .toList();
        jdbc.sql("UPDATE forge_jobs SET recoveries = 3").update();
        member.jobs().resume("job");
        await().until(() -> count("status = 'running'") == 1 && count("status = 'pending' AND claim_epoch = 1") == 1);
        transactions.executeWithoutResult(status -> {
            jdbc.sql("SELECT FROM forge_jobs WHERE status = 'running' FOR UPDATE")
                    .query((row, n) -> true)
                    .single();
            go.countDown();
            // The handler has ended, its end cannot be written: the other is put off once more.
            await().atMost(SOON).until(() -> count("status = 'pending' AND claim_epoch = 2") == 1);
        });
        ids.forEach(id -> assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED));
    }

    @Test
    void what_a_drain_gives_back_the_others_hear_of() throws Exception {
        var started = new CountDownLatch(2);
        var drained = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on(job("job"), (payload, context) -> {
            if (context.nodeName().equals("one")) {
                started.countDown();
                until(drained);
            }
            return context.nodeName();
        });
        Member first = start();
        List<UUID> ids = IntStream.range(0, 8)
                .mapToObj(i -> first.jobs().enqueueNamed("job", null))
                .toList();
        until(started);
        await().until(() -> first.engine().load() > 2);
        // Those it could not claim yet are the newcomer's, who looks once and then not for a minute.
        Member second = cluster.start("two", copy(), UnaryOperator.identity());
        await().until(() -> count("status = 'pending'") == 0 && second.engine().load() == 0);
        long left = count("status = 'claimed'");
        assertThat(left).isPositive();
        var draining = new Thread(first.node()::drain);
        draining.start();
        await().atMost(SOON).until(() -> count("result = '\"two\"'") == 6);
        drained.countDown();
        draining.join();
        ids.forEach(id -> assertThat(second.ended(id).attempts()).isOne());
    }

    @Test
    void news_that_could_not_be_sent_are_sent_later() {
        var source = new Breakable(database.dataSource(), "sendNews");
        work.on("job", context -> {});
        Member enqueuer = cluster.start("enqueuer", source, copy(), WorkerTests::enqueuing);
        Member member = start();
        await().until(() -> !enqueuer.node().isAlone());
        member.ended(enqueuer.jobs().enqueueNamed("job", null));
        source.shut();
        UUID id = enqueuer.jobs().enqueueNamed("job", null);
        await().until(() -> source.refused.get() > 0);
        source.open();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    /** Connections that can be cut, and a count of how often that kept a certain method from getting one. */
    private static final class Breakable extends DelegatingDataSource {

        private final String method;
        private final List<Connection> given = new CopyOnWriteArrayList<>();
        private final AtomicInteger refused = new AtomicInteger();
        private volatile boolean shut;

        Breakable(DataSource source, String method) {
            super(source);
            this.method = method;
        }

        @Override
        public Connection getConnection() throws SQLException {
            if (shut) {
                if (StackWalker.getInstance()
                        .walk(frames ->
                                frames.anyMatch(frame -> frame.getMethodName().equals(method)))) {
                    refused.incrementAndGet();
                }
                throw new SQLException("out of reach", "08006");
            }
            Connection connection = super.getConnection();
            given.add(connection);
            return connection;
        }

        void shut() {
            shut = true;
            given.forEach(connection -> {
                try {
                    connection.abort(Runnable::run);
                } catch (SQLException e) {
                    throw new IllegalStateException(e);
                }
            });
        }

        void open() {
            shut = false;
        }
    }

    @Test
    void a_node_that_starts_again_does_not_wait_for_what_its_former_self_left_behind() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 0;
        work.on("deaf", context -> {
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    // Deaf on purpose.
                }
            }
        });
        work.on("job", context -> {});
        Member member = cluster.start(
                "one",
                work,
                settings -> new NodeSettings(
                        settings.presence(),
                        settings.heartbeat(),
                        settings.detection(),
                        settings.election(),
                        Duration.ofMillis(100)));
        UUID deaf = member.jobs().enqueueNamed("deaf", null);
        until(started);
        member.node().stop();
        assertThat(member.jobs().cancel(deaf)).isTrue();
        member.node().start();
        assertThat(member.ended(member.jobs().enqueueNamed("job", null)).status())
                .isEqualTo(JobStatus.COMPLETED);
        go.countDown();
    }

    // How jobs end

    @Test
    void a_job_that_found_no_transaction_comes_back_in_time() throws Exception {
        var refusals = new AtomicInteger(1);
        var asked = new CountDownLatch(1);
        var locked = new CountDownLatch(1);
        var manager = new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doBegin(Object transaction, TransactionDefinition definition) {
                if (refusals.getAndDecrement() > 0) {
                    asked.countDown();
                    await().until(() -> locked.getCount() == 0);
                    throw exhausted();
                }
                super.doBegin(transaction, definition);
            }
        };
        work.on(job("job").in(in(manager)), (payload, context) -> null);
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null);
        until(asked);
        transactions.executeWithoutResult(status -> {
            lock(id);
            locked.countDown();
            // Its slot is free and the worker has looked for more, long before it is pending again.
            finisherSkipsTwice();
        });
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(job.epoch()).isEqualTo(2);
    }

    /** As HikariCP throws it. */
    private static CannotCreateTransactionException exhausted() {
        return new CannotCreateTransactionException(
                "Could not open JDBC Connection for transaction",
                new SQLTransientConnectionException("HikariPool-1 - Connection is not available, request timed out"));
    }

    /** Begins no transaction as long as there is such a failure. */
    private JdbcTransactionManager refusing(Supplier<@Nullable RuntimeException> failure) {
        return new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doBegin(Object transaction, TransactionDefinition definition) {
                RuntimeException thrown = failure.get();
                if (thrown != null) {
                    throw thrown;
                }
                super.doBegin(transaction, definition);
            }
        };
    }

    static Stream<RuntimeException> transactionsThatNeverBegin() {
        String hikari = "HikariPool-1 - Connection is not available, request timed out";
        return Stream.of(
                new InvalidIsolationLevelException("this manager supports no isolation levels"),
                new CannotCreateTransactionException("no", new IllegalStateException("the factory is closed")),
                new CannotCreateTransactionException("no", new SQLException("HikariDataSource has been closed")),
                new CannotCreateTransactionException(
                        "no",
                        new SQLTransientConnectionException(
                                hikari, "28P01", new SQLException("password authentication failed", "28P01"))));
    }

    @ParameterizedTest
    @MethodSource("transactionsThatNeverBegin")
    void transaction_that_can_never_begin_is_a_failed_attempt(RuntimeException failure) {
        work.on(job("job").in(in(refusing(() -> failure))), (payload, context) -> null);
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null);
        await().atMost(SOON)
                .untilAsserted(
                        () -> assertThat(member.jobs().find(id).orElseThrow().status())
                                .isEqualTo(JobStatus.FAILED));
        JobInfo job = member.ended(id);
        assertThat(job.attempts()).isEqualTo(3);
        assertThat(job.lastError()).contains(failure.getClass().getName());
    }

    @Test
    void job_without_a_transaction_waits_longer_each_time_and_shows_why() {
        var begins = new CopyOnWriteArrayList<Long>();
        work.on(
                job("job").attempts(1).in(in(refusing(() -> {
                    begins.add(System.nanoTime());
                    return begins.size() <= 3 ? exhausted() : null;
                }))),
                (payload, context) -> null);
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null);
        await().until(() -> count("status = 'pending' AND attempts = 0 AND last_error LIKE '%HikariPool-1%'") == 1);
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(count("attempt_history IS NOT NULL")).isZero();
        assertThat(begins).hasSize(4);
        for (int i = 1; i < begins.size(); i++) {
            assertThat((begins.get(i) - begins.get(i - 1)) / 1_000_000)
                    .as("pause %d, ms", i)
                    .isGreaterThanOrEqualTo(200L << (i - 1));
        }
    }

    // Answers that get lost

    /** Loses its connection after the server has done what it was asked for, once for each such text. */
    private DataSource losingAnswers(String... statements) {
        Set<String> left = new HashSet<>(List.of(statements));
        return new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                return proxy(Connection.class, connection, (method, arguments, result) -> {
                    if (!(result instanceof PreparedStatement statement)) {
                        return result;
                    }
                    String sql = arguments[0].toString();
                    return proxy(PreparedStatement.class, statement, (executed, ignored, answer) -> {
                        synchronized (left) {
                            if (executed.getName().startsWith("execute") && left.removeIf(sql::contains)) {
                                connection.abort(Runnable::run);
                                throw new SQLException("somebody pulled the cable", "08006");
                            }
                        }
                        return answer;
                    });
                });
            }
        };
    }

    private interface After {
        Object call(Method method, Object[] arguments, Object result) throws SQLException;
    }

    private static <T> T proxy(Class<T> type, T target, After after) {
        return type.cast(Proxy.newProxyInstance(
                WorkerTests.class.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> {
                    try {
                        return after.call(method, arguments, method.invoke(target, arguments));
                    } catch (InvocationTargetException e) {
                        throw e.getTargetException();
                    }
                }));
    }

    /** Names of jobs whose claim was lost or whose attempt was taken for failed. */
    private List<String> misjudged() {
        var names = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void claimLost(String name) {
                names.add(name);
            }

            @Override
            public void retried(String name) {
                names.add(name);
            }
        };
        return names;
    }

    @Test
    void end_whose_answer_got_lost_is_no_lost_claim() {
        List<String> misjudged = misjudged();
        work.on(job("snoozed"), (payload, context) -> Outcome.snooze(Duration.ofHours(1)));
        work.retention = Duration.ZERO;
        work.on("deleted", context -> {});
        Member member = cluster.start(
                "one", losingAnswers("forge_jobs j USING", "SET status = d.status"), work, UnaryOperator.identity());
        UUID deleted = member.jobs().enqueueNamed("deleted", null);
        await().until(() ->
                member.jobs().find(deleted).isEmpty() && member.engine().load() == 0);
        UUID snoozed = member.jobs().enqueueNamed("snoozed", null);
        await().until(() -> count("status = 'pending' AND claim_epoch = 1") == 1
                && member.engine().load() == 0);
        assertThat(misjudged).isEmpty();
        assertThat(member.jobs().find(snoozed).orElseThrow().attempts()).isZero();
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void job_that_is_claimed_again_after_the_answer_to_its_return_got_lost_is_no_lost_claim() {
        List<String> misjudged = misjudged();
        work.on(job("back"), (payload, context) -> context.epoch() == 1 ? Outcome.snooze(Duration.ZERO) : null);
        Member member = cluster.start("one", losingAnswers("SET status = d.status"), work, UnaryOperator.identity());
        JobInfo back = member.ended(member.jobs().enqueueNamed("back", null));
        assertThat(back.epoch()).isEqualTo(2);
        await().until(() -> member.engine().load() == 0);
        assertThat(misjudged).isEmpty();
    }

    @Test
    void claim_that_was_taken_while_its_end_could_not_be_written_is_lost() throws Exception {
        List<String> misjudged = misjudged();
        var go = new CountDownLatch(1);
        work.on("job", context -> until(go));
        var source = new Breakable(database.dataSource(), "finish");
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null);
        await().until(() -> count("status = 'running'") == 1);
        source.shut();
        go.countDown();
        await().until(() -> source.refused.get() > 0);
        // What the sweeper does, and after it another node.
        jdbc.sql("""
                UPDATE forge_jobs
                SET claim_epoch = claim_epoch + 1, recoveries = recoveries + 1, worker_id = gen_random_uuid()
                WHERE id = ?
                """).param(id).update();
        source.open();
        await().until(() -> member.engine().load() == 0);
        assertThat(misjudged).containsExactly("job");
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void commit_whose_answer_got_lost_completes_its_job() {
        List<String> misjudged = misjudged();
        var runs = new AtomicInteger();
        var manager = new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doCommit(DefaultTransactionStatus status) {
                super.doCommit(status);
                throw new TransactionSystemException(
                        "Could not commit JDBC transaction", new SQLException("somebody pulled the cable", "08006"));
            }
        };
        work.on(job("kept").in(in(manager)), (payload, context) -> runs.incrementAndGet());
        work.retention = Duration.ZERO;
        work.on(job("deleted").in(in(manager)), (payload, context) -> runs.incrementAndGet());
        Member member = start();
        JobInfo kept = member.ended(member.jobs().enqueueNamed("kept", null));
        assertThat(kept.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(kept.attempts()).isOne();
        UUID deleted = member.jobs().enqueueNamed("deleted", null);
        await().until(() ->
                member.jobs().find(deleted).isEmpty() && member.engine().load() == 0);
        assertThat(runs).hasValue(2);
        assertThat(misjudged).isEmpty();
    }

    @Test
    void end_that_is_written_before_its_neighbour_is_refused_is_no_lost_claim() throws Exception {
        var lost = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void claimLost(String name) {
                lost.add(name);
            }
        };
        var go = new CountDownLatch(1);
        work.on(job("again"), (payload, context) -> {
            if (context.attempt() == 1) {
                until(go);
                return Outcome.retryAfter(Duration.ZERO, "not yet");
            }
            return null;
        });
        work.on(job("other"), (payload, context) -> {
            if (context.attempt() == 1) {
                return Outcome.retryAfter(Duration.ZERO, "not yet");
            }
            return null;
        });
        work.retention = Duration.ZERO;
        work.on("deleted", context -> {});
        Member member = start();
        UUID again = member.jobs().enqueueNamed("again", null);
        await().until(() -> count("status = 'running'") == 1);
        // Not in a transaction of this thread, which enqueueing would join.
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection
                    .createStatement()
                    .executeQuery("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(again));
            go.countDown();
            // Its end waits for the lock; those of the others are in one batch with it.
            finisherSkipsTwice();
            for (int i = 0; i < 4; i++) {
                member.jobs().enqueueNamed("deleted", null);
            }
            UUID other = member.jobs().enqueueNamed("other", null);
            assertThat(member.ended(other).status()).isEqualTo(JobStatus.COMPLETED);
            await().atMost(SOON).until(() -> count("name = 'deleted'") == 0);
            connection.rollback();
        }
        assertThat(member.ended(again).attempts()).isEqualTo(2);
        await().until(() -> member.engine().load() == 0);
        assertThat(lost).isEmpty();
    }

    @Test
    void cancelled_job_is_no_lost_claim() throws Exception {
        var lost = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void claimLost(String name) {
                lost.add(name);
            }
        };
        work.heartbeat = Duration.ofMillis(100);
        var started = new CountDownLatch(2);
        work.on("job", context -> {
            started.countDown();
            new CountDownLatch(1).await();
        });
        Member member = start();
        UUID cancelled = member.jobs().enqueueNamed("job", null);
        UUID taken = member.jobs().enqueueNamed("job", null);
        until(started);
        assertThat(member.jobs().cancel(cancelled)).isTrue();
        await().until(() -> member.engine().load() == 1);
        assertThat(lost).isEmpty();
        jdbc.sql("UPDATE forge_jobs SET claim_epoch = claim_epoch + 1 WHERE id = ?")
                .param(taken)
                .update();
        await().until(() -> member.engine().load() == 0);
        assertThat(lost).containsExactly("job");
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void locked_row_keeps_no_other_job_from_being_given_back_by_a_drain() throws Exception {
        var started = new CountDownLatch(4);
        var go = new CountDownLatch(1);
        work.on("deaf", context -> {
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    // Deaf on purpose.
                }
            }
        });
        Member member = cluster.start(
                "one",
                work,
                settings -> new NodeSettings(
                        settings.presence(),
                        settings.heartbeat(),
                        settings.detection(),
                        settings.election(),
                        Duration.ofMillis(100)));
        List<UUID> ids = IntStream.range(0, 4)
                .mapToObj(i -> member.jobs().enqueueNamed("deaf", null))
                .toList();
        until(started);
        transactions.executeWithoutResult(status -> {
            lock(ids.get(1));
            member.node().stop();
            assertThat(count("status = 'pending' AND attempts = 0 AND recoveries = 0"))
                    .isEqualTo(3);
        });
        go.countDown();
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void locked_row_of_an_ended_job_slows_down_no_other_completion() throws Exception {
        work.slots = 2;
        var go = new CountDownLatch(1);
        work.on("locked", context -> until(go));
        work.on("job", context -> {});
        Member member = start();
        UUID locked = member.jobs().enqueueNamed("locked", null);
        await().until(() -> count("status = 'running'") == 1);
        try (Connection holder = database.dataSource().getConnection()) {
            holder.setAutoCommit(false);
            holder.createStatement()
                    .executeQuery("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(locked));
            var waits = new HashSet<Instant>();
            go.countDown();
            await().atMost(SOON).pollInterval(Duration.ofMillis(5)).until(() -> {
                waits.addAll(lockWaits());
                return !waits.isEmpty();
            });
            jdbc.sql(
                            "INSERT INTO forge_jobs (id, name, body_bytes) SELECT gen_random_uuid(), 'job', 4 FROM generate_series(1, 2000)")
                    .update();
            member.engine().announce(JobPriority.NORMAL);
            await().atMost(Duration.ofMinutes(2))
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> {
                        waits.addAll(lockWaits());
                        return count("name = 'job' AND status = 'completed'") == 2_000;
                    });
            assertThat(waits).as("statements that waited for the locked row").hasSizeLessThanOrEqualTo(2);
            assertThat(count("name = 'locked' AND status = 'running'")).isOne();
        }
        assertThat(member.ended(locked).status()).isEqualTo(JobStatus.COMPLETED);
    }

    private List<Instant> lockWaits() {
        return jdbc.sql(
                        "SELECT query_start FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
                .query((row, n) -> row.getObject(1, OffsetDateTime.class).toInstant())
                .list();
    }

    // Draining

    @Test
    void drain_is_not_idle_while_a_claim_is_under_way() throws Exception {
        work.on("job", context -> {});
        Member member = start();
        jdbc.sql("""
                CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP PERFORM pg_sleep(0.02); END LOOP;
                    RETURN NEW;
                END $$
                """).update();
        jdbc.sql("CREATE TRIGGER hold BEFORE UPDATE OF worker_id ON forge_jobs"
                        + " FOR EACH ROW WHEN (OLD.status = 'pending') EXECUTE FUNCTION hold()")
                .update();
        UUID id;
        try (Connection holder = database.dataSource().getConnection()) {
            holder.createStatement().execute("SELECT pg_advisory_lock(4711)");
            id = member.jobs().enqueueNamed("job", null);
            await().until(() -> jdbc.sql(
                            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database())")
                    .query(Boolean.class)
                    .single());
            member.engine().quiesce();
            assertThat(member.engine().awaitIdle(Duration.ofMillis(100))).isFalse();
        } finally {
            jdbc.sql("DROP TRIGGER hold ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION hold").update();
        }
        assertThat(member.engine().awaitIdle(SOON)).isTrue();
        assertThat(member.jobs().find(id).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    private void lock(UUID id) {
        jdbc.sql("SELECT FROM forge_jobs WHERE id = ? FOR UPDATE")
                .param(id)
                .query((row, n) -> true)
                .single();
    }

    /** Returns when the finisher has asked twice whether a row that it skipped is locked: the second time after a retry. */
    private void finisherSkipsTwice() {
        var statements = new HashSet<Instant>();
        await().atMost(SOON).pollInterval(Duration.ofMillis(5)).until(() -> {
            statements.addAll(jdbc.sql("""
                            SELECT query_start FROM pg_stat_activity
                            WHERE query LIKE 'SELECT j.id, j.claim_epoch FROM unnest%' AND datname = current_database()
                            """)
                    .query((row, n) -> row.getObject(1, OffsetDateTime.class).toInstant())
                    .list());
            return statements.size() > 1;
        });
    }

    private static JobHandler.Transaction in(JdbcTransactionManager manager) {
        return new JobHandler.Transaction(
                manager, new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW));
    }

    @Test
    void the_interrupt_that_ended_a_handler_does_not_reach_its_rollback() {
        var interrupted = new CopyOnWriteArrayList<Boolean>();
        var manager = new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doRollback(DefaultTransactionStatus status) {
                interrupted.add(Thread.currentThread().isInterrupted());
                super.doRollback(status);
            }
        };
        work.on(job("job").attempts(1).timeout(Duration.ofMillis(100)).in(in(manager)), (payload, context) -> {
            try {
                new CountDownLatch(1).await();
                return null;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw e;
            }
        });
        Member member = start();
        assertThat(member.ended(member.jobs().enqueueNamed("job", null)).lastError())
                .contains("longer than");
        assertThat(interrupted).containsExactly(false);
    }

    @Test
    void a_strategy_that_throws_fails_the_job() {
        work.backoff = (attempts, failure) -> {
            throw new IllegalStateException("no idea when");
        };
        work.on("job", context -> {
            throw new IllegalArgumentException("the cause");
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.lastError()).contains("no idea when");
        await().until(() -> member.engine().load() == 0);
    }

    private static final class Unprintable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public void printStackTrace(PrintWriter writer) {
            throw new IllegalStateException("not even that");
        }
    }

    @Test
    void an_exception_that_cannot_be_printed_is_a_failed_attempt_like_any_other() {
        work.on("job", context -> {
            throw new Unprintable();
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.attempts()).isEqualTo(3);
        assertThat(job.lastError()).contains(Unprintable.class.getName());
    }

    @Test
    void whoever_watches_a_job_does_not_decide_what_becomes_of_it() {
        work.monitor = new JobMonitor() {
            @Override
            public void observe(Attempt attempt, Runnable run) {
                if (attempt.job().attempt() == 1) {
                    throw new IllegalStateException("before");
                }
                run.run();
                throw new IllegalStateException("after");
            }
        };
        var runs = new CopyOnWriteArrayList<Integer>();
        work.on(job("job"), (payload, context) -> {
            runs.add(context.attempt());
            if (context.attempt() == 1) {
                throw new IllegalStateException("again");
            }
            return "done";
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null));
        assertThat(job.result()).isEqualTo("\"done\"");
        assertThat(runs).containsExactly(1, 2);
    }

    @Test
    void logger_that_throws_ends_no_thread_and_fails_no_job() throws Exception {
        var source = new Breakable(database.dataSource(), "pass");
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on(job("again"), (payload, context) -> {
            if (context.attempt() == 1) {
                throw new IllegalStateException("once");
            }
            return null;
        });
        work.on("job", context -> {
            started.countDown();
            until(go);
        });
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        try (var loggers = new ThrowingLoggers()) {
            assertThat(member.ended(member.jobs().enqueueNamed("again", null)).status())
                    .isEqualTo(JobStatus.COMPLETED);
            UUID running = member.jobs().enqueueNamed("job", null);
            until(started);
            source.shut();
            go.countDown();
            member.engine().announce(JobPriority.NORMAL);
            await().until(() -> source.refused.get() > 0);
            await().until(() -> !member.leadership().isLeader(Leadership.SCHEDULER));
            source.open();
            assertThat(member.ended(running).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(member.ended(member.jobs().enqueueNamed("again", null)).status())
                    .isEqualTo(JobStatus.COMPLETED);
            await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
            assertThat(loggers.thrown).isNotEmpty();
        }
    }

    @Test
    void monitor_that_throws_keeps_no_job_from_running_and_fails_none() {
        work.monitor = new JobMonitor() {
            @Override
            public void claimed(Duration took) {
                throw new IllegalStateException("no meter");
            }

            @Override
            public void retried(String name) {
                throw new IllegalStateException("no meter");
            }
        };
        work.on(job("again"), (payload, context) -> {
            if (context.attempt() == 1) {
                throw new IllegalStateException("once");
            }
            return null;
        });
        Member member = start();
        JobInfo ended = member.ended(member.jobs().enqueueNamed("again", null));
        assertThat(ended.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(ended.attempts()).isEqualTo(2);
    }

    @Test
    void transactional_job_whose_row_is_locked_holds_its_transaction_for_seconds_and_spends_no_attempt()
            throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        var runs = new AtomicInteger();
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (id uuid)").update();
        work.on(job("job").attempts(1).in(work.transaction()), (payload, context) -> {
            JdbcClient.create(database.dataSource())
                    .sql("INSERT INTO effects VALUES (?)")
                    .param(context.id())
                    .update();
            runs.incrementAndGet();
            started.countDown();
            until(go);
            return null;
        });
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null);
        until(started);
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(id));
            go.countDown();
            await().until(() -> jdbc.sql("SELECT count(*) FROM pg_locks WHERE NOT granted")
                            .query(Long.class)
                            .single()
                    > 0);
            // Neither the slot nor the connection is kept.
            await().until(() -> member.engine().lanes().get("default").get("jobs") == 0);
        }
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(runs).hasValue(2);
        assertThat(jdbc.sql("SELECT count(*) FROM effects WHERE id = ?")
                        .param(id)
                        .query(Long.class)
                        .single())
                .isOne();
    }

    @Test
    void stop_by_an_interrupted_thread_returns_jobs_and_deregisters_the_node() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on("deaf", context -> {
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    interrupted.countDown();
                }
            }
        });
        Member member = start();
        UUID id = member.jobs().enqueueNamed("deaf", null);
        until(started);
        try {
            Thread.currentThread().interrupt();
            member.node().stop();
            assertThat(Thread.interrupted()).isTrue();
            until(interrupted);
            assertThat(cluster.status("one")).isEqualTo("absent");
            assertThat(jdbc.sql("SELECT status || ' ' || attempts FROM forge_jobs WHERE id = ?")
                            .param(id)
                            .query(String.class)
                            .single())
                    .isEqualTo("pending 0");
        } finally {
            go.countDown();
        }
    }

    // Keeping them

    @Test
    void a_handler_ends_before_the_lease_that_a_locked_row_kept_from_being_renewed() throws Exception {
        work.lease = Duration.ofSeconds(2);
        work.heartbeat = Duration.ofMillis(200);
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on("job", context -> {
            if (context.epoch() == 1) {
                started.countDown();
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    interrupted.countDown();
                }
            }
        });
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null);
        until(started);
        transactions.executeWithoutResult(status -> {
            lock(id);
            await().atMost(SOON).until(() -> interrupted.getCount() == 0);
            // Not now(): that is when this transaction began.
            assertThat(jdbc.sql("SELECT lease_expires_at > clock_timestamp() FROM forge_jobs WHERE id = ?")
                            .param(id)
                            .query(Boolean.class)
                            .single())
                    .as("the lease is still on")
                    .isTrue();
        });
    }

    @Test
    void progress_that_could_not_be_written_is_written_later() throws Exception {
        jdbc.sql("CREATE SEQUENCE notes").update();
        jdbc.sql("""
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF nextval('notes') <= 2 THEN RAISE EXCEPTION 'refused'; END IF;
                    RETURN NEW;
                END $$
                """).update();
        jdbc.sql("CREATE TRIGGER refuse BEFORE UPDATE OF progress ON forge_jobs"
                        + " FOR EACH ROW WHEN (NEW.progress IS NOT NULL) EXECUTE FUNCTION refuse()")
                .update();
        try {
            var seen = new CountDownLatch(1);
            work.on("job", context -> {
                context.progress(40, "half-way");
                until(seen);
            });
            Member member = start();
            UUID id = member.jobs().enqueueNamed("job", null);
            await().atMost(SOON)
                    .untilAsserted(() -> assertThat(
                                    member.jobs().find(id).orElseThrow().progress())
                            .contains("half-way"));
            seen.countDown();
            member.ended(id);
        } finally {
            jdbc.sql("DROP TRIGGER refuse ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION refuse").update();
            jdbc.sql("DROP SEQUENCE notes").update();
        }
    }

    @Test
    void a_locked_row_keeps_no_other_job_from_being_marked_as_running() throws Exception {
        var begun = new AtomicInteger();
        var first = new CountDownLatch(1);
        var second = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on("job", context -> until(begun.incrementAndGet() <= 2 ? first : second));
        Member member = start();
        member.jobs().pause("job");
        List<UUID> ids = IntStream.range(0, 4)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .toList();
        member.jobs().resume("job");
        await().until(() -> count("status = 'running'") == 2 && count("status = 'claimed'") == 2);
        transactions.executeWithoutResult(status -> {
            jdbc.sql("SELECT FROM forge_jobs WHERE status = 'claimed' ORDER BY id LIMIT 1 FOR UPDATE")
                    .query((row, n) -> true)
                    .single();
            first.countDown();
            await().atMost(SOON).until(() -> count("status = 'running'") == 1);
            assertThat(count("status = 'claimed'")).isOne();
        });
        await().until(() -> count("status = 'running'") == 2);
        second.countDown();
        ids.forEach(member::ended);
    }
}
