package dev.forge.cluster.internal.workflow;

import static org.assertj.core.api.Assertions.assertThat;
import static dev.forge.cluster.internal.PatientAwaits.await;

import dev.forge.cluster.internal.job.DefaultJobs;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.internal.workflow.WorkflowStore.Version;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import tools.jackson.databind.util.RawValue;

/** What methods, databases and people do to workflows that they should not. */
@ClusterPostgres
class WorkflowTroubleTests {

    record Order(String item, int quantity) {}

    private final JdbcClient jdbc;
    private final TestDatabase database;
    private final TestCluster cluster;
    private final TestWorkflows flows;
    private final List<String> done = new CopyOnWriteArrayList<>();

    WorkflowTroubleTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
        jdbc.sql("TRUNCATE forge_workflow_runs, forge_workflow_steps, forge_workflow_signals")
                .update();
        jdbc.sql("CREATE TABLE IF NOT EXISTS flow_effects (run uuid, step text)")
                .update();
        jdbc.sql("TRUNCATE flow_effects").update();
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private String did(String what) {
        done.add(what);
        return what;
    }

    private String wrote(UUID run, String step) {
        return wrote(database.dataSource(), run, step);
    }

    private static String wrote(DataSource source, UUID run, String step) {
        JdbcClient.create(source)
                .sql("INSERT INTO flow_effects VALUES (?, ?)")
                .params(run, step)
                .update();
        return step;
    }

    private List<String> written(UUID run) {
        return jdbc.sql("SELECT step FROM flow_effects WHERE run = ? ORDER BY ctid")
                .param(run)
                .query(String.class)
                .list();
    }

    private long claims(UUID run) {
        return jdbc.sql("SELECT claim_epoch FROM forge_jobs WHERE id = ?")
                .param(run)
                .query(Long.class)
                .single();
    }

    private Object lease(UUID run) {
        return jdbc.sql("SELECT lease_expires_at FROM forge_jobs WHERE id = ?")
                .param(run)
                .query(Object.class)
                .single();
    }

    /** Connections with something special about them. */
    @SuppressWarnings("UnusedVariable")
    private abstract static class Special extends AbstractDataSource {
        private final DataSource real;

        Special(DataSource real) {
            this.real = real;
        }

        void opened(Connection connection) throws SQLException {}

        void before(Connection connection, String call, String sql) throws SQLException {}

        @Override
        public Connection getConnection() throws SQLException {
            Connection connection = real.getConnection();
            opened(connection);
            return (Connection) Proxy.newProxyInstance(
                    Connection.class.getClassLoader(), new Class<?>[] {Connection.class}, (self, method, arguments) -> {
                        if (method.getName().equals("equals")) {
                            return self == arguments[0];
                        }
                        if (method.getName().equals("hashCode")) {
                            return System.identityHashCode(self);
                        }
                        before(
                                connection,
                                method.getName(),
                                arguments != null && arguments.length > 0 ? String.valueOf(arguments[0]) : "");
                        try {
                            return method.invoke(connection, arguments);
                        } catch (InvocationTargetException e) {
                            throw e.getTargetException();
                        }
                    });
        }

        @Override
        public Connection getConnection(String username, String password) throws SQLException {
            return getConnection();
        }
    }

    private DataSource repeatableRead() {
        return new Special(database.dataSource()) {
            @Override
            void opened(Connection connection) throws SQLException {
                connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            }
        };
    }

    @Test
    void a_callback_that_fails_after_the_commit_does_not_double_a_transactional_step() {
        flows.on("callback", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                wrote(flows.source, wf.id(), "write");
                if (done.isEmpty()) {
                    did("first");
                    TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
                        @Override
                        public void afterCommit() {
                            throw new IllegalStateException("the mail server is away");
                        }
                    });
                }
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("callback", null);
        one.ended(run);
        assertThat(written(run)).containsExactly("write");
    }

    @Test
    void a_cancelled_run_whose_method_ends_early_is_not_compensated_halfway() {
        var shortened = new AtomicBoolean();
        flows.on("shortened", wf -> {
            wf.step("a", String.class, () -> wrote(wf.id(), "a"), s -> s.compensate(x -> wrote(wf.id(), "undo a")));
            if (shortened.get()) {
                throw new IllegalStateException("something between the steps");
            }
            wf.step("b", String.class, () -> wrote(wf.id(), "b"), s -> s.compensate(x -> wrote(wf.id(), "undo b")));
            return wf.awaitSignal("go", String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("shortened", null);
        one.await(run, WorkflowStatus.WAITING);
        shortened.set(true);
        one.workflows().cancel(run, "no");
        await().until(() -> one.workflows().find(run).orElseThrow().status() != WorkflowStatus.COMPENSATING);
        assertThat(one.workflows().find(run).orElseThrow().status() + " " + written(run))
                .satisfiesAnyOf(
                        it -> assertThat(it).doesNotContain("COMPENSATED"),
                        it -> assertThat(it).contains("undo b"));
    }

    static final class Receipt {
        private final String id;

        Receipt(String id, int unused) {
            this.id = id + unused;
        }

        public String getId() {
            return id;
        }
    }

    @Test
    void a_wait_that_the_database_refuses_fails_the_run_instead_of_hanging_it() throws InterruptedException {
        flows.on("nul", wf -> {
            wf.sleep("a\0b", Duration.ofMillis(10));
            return "fine";
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("nul", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status.isFinal())
                .as("%s after %d claims", status, claims(run))
                .isTrue();
    }

    @Test
    void job_that_somebody_has_put_in_the_place_of_an_awaited_one_fails_the_run() {
        flows.work = jobs -> jobs.on("order", context -> did("order"));
        flows.on("checkout", wf -> {
            wf.awaitSignal("go", String.class);
            return wf.job("order", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("checkout", null);
        one.await(run, WorkflowStatus.WAITING);
        UUID planted = UUID.randomUUID();
        for (int position = 0; position < 4; position++) {
            jdbc.sql("INSERT INTO forge_jobs (id, name, unique_key, scheduled_at) VALUES (?, 'order', ?, 'infinity')")
                    .params(position == 0 ? planted : UUID.randomUUID(), "workflow:%s:%d".formatted(run, position))
                    .update();
        }
        one.workflows().signal(run, "go", "go");
        WorkflowInfo failed = one.ended(run);
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains("workflow:" + run, "'order'");
        assertThat(done).isEmpty();
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void a_state_or_payload_that_the_database_refuses_fails_the_run_instead_of_hanging_it()
            throws InterruptedException {
        flows.work = jobs -> jobs.on("add", context -> {});
        flows.on("huge-number", wf -> wf.job("add", Map.of("x", new RawValue("[1,")), String.class));
        flows.on("huge-state", wf -> {
            wf.saveState(Map.of("x", new RawValue("[1,")));
            wf.sleep("nap", Duration.ofMillis(10));
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("huge-number", null);
        UUID state = one.workflows().start("huge-state", null);
        WorkflowStatus status = one.ended(run).status();
        WorkflowStatus second = one.ended(state).status();
        assertThat(List.of(status.isFinal(), second.isFinal()))
                .as("%s after %d claims, %s after %d claims", status, claims(run), second, claims(state))
                .containsOnly(true);
    }

    @Test
    void runs_whose_rows_are_locked_leave_their_slots_to_other_jobs() throws Exception {
        var go = new CountDownLatch(1);
        flows.work = jobs -> jobs.on("other", context -> {});
        flows.on(
                "stuck",
                wf -> wf.step("wait", String.class, () -> {
                    go.await();
                    return did("waited");
                }));
        Member one = flows.start("one");
        // As many as the node has slots.
        List<UUID> runs = Stream.generate(() -> one.workflows().start("stuck", null))
                .limit(4)
                .toList();
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'running'")
                        .query(Long.class)
                        .single()
                == 4);
        try (Connection operator = database.dataSource().getConnection();
                Statement statement = operator.createStatement()) {
            operator.setAutoCommit(false);
            statement.execute("UPDATE forge_workflow_runs SET resolution_reason = 'obsolete'");
            go.countDown();
            UUID job = one.member().jobs().enqueueNamed("other", null);
            assertThat(one.member().ended(job).status()).isEqualTo(JobStatus.COMPLETED);
            operator.rollback();
        }
        runs.forEach(run -> assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED));
        assertThat(done).as("no step was done twice").hasSize(4);
    }

    @Test
    void a_result_that_the_database_refuses_makes_the_run_undo() {
        flows.on("huge-result", wf -> {
            wf.step("a", String.class, () -> wrote(wf.id(), "a"), s -> s.compensate(x -> wrote(wf.id(), "undo a")));
            return Map.of("x", new RawValue("[1,"));
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("huge-result", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).containsExactly("a", "undo a");
    }

    @Test
    void a_signal_that_cannot_be_read_does_not_spoil_the_run_for_good() {
        flows.on("typed", wf -> wf.awaitSignal("approve", Order.class).item());
        Member one = flows.start("one");
        UUID run = one.workflows().start("typed", null);
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().signal(run, "approve", "not an order");
        one.workflows().signal(run, "approve", new Order("anvil", 1));
        if (one.ended(run).status() == WorkflowStatus.FAILED) {
            assertThat(one.workflows().retry(run)).isTrue();
        }
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void what_a_step_returns_is_the_same_when_it_is_remembered() {
        flows.on("types", wf -> {
            Object first = wf.step("list", List.class, () -> List.of(new Order("anvil", 1)));
            did(((List<?>) first).get(0).getClass().getSimpleName());
            wf.sleep("nap", Duration.ofMillis(20));
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("types", null);
        one.ended(run);
        assertThat(done).hasSize(2);
        assertThat(done.get(1)).isEqualTo(done.get(0));
    }

    @Test
    void a_transactional_step_under_repeatable_read_may_take_longer_than_a_heartbeat() throws InterruptedException {
        flows.source = repeatableRead();
        // As 10 s and 15 s would be.
        flows.work = jobs -> jobs.heartbeat = Duration.ofMillis(300);
        flows.on("snapshot", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                did("attempt");
                wrote(flows.source, wf.id(), "write");
                Object before = lease(wf.id());
                await().until(() -> !lease(wf.id()).equals(before));
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("snapshot", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status).as("after %s", done).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void a_transactional_step_under_repeatable_read_may_show_its_progress() throws InterruptedException {
        flows.source = repeatableRead();
        flows.on("snapshot", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                did("attempt");
                wrote(flows.source, wf.id(), "write");
                wf.progress(50, "half");
                await().until(() -> jdbc.sql("SELECT progress IS NOT NULL FROM forge_jobs WHERE id = ?")
                        .param(wf.id())
                        .query(Boolean.class)
                        .single());
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("snapshot", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status).as("after %s", done).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void a_node_that_freezes_before_its_step_commits_does_not_keep_the_run_for_ever() throws InterruptedException {
        var frozen = new AtomicBoolean();
        var freeze = new AtomicBoolean();
        var thaw = new CountDownLatch(1);
        flows.source = new Special(database.dataSource()) {
            @Override
            void before(Connection connection, String call, String sql) throws SQLException {
                if (call.equals("commit") && freeze.getAndSet(false)) {
                    frozen.set(true);
                    try {
                        thaw.await(30, TimeUnit.SECONDS);
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    }
                }
            }
        };
        flows.on("freezes", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                freeze.set(done.isEmpty());
                did("attempt");
                return wrote(flows.source, wf.id(), "write");
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("freezes", null);
        await().untilTrue(frozen);
        // While it is frozen a sweeper can take the run, as soon as the server has given the transaction up.
        await().until(() -> jdbc.sql("SELECT id FROM forge_jobs WHERE id = ? FOR UPDATE SKIP LOCKED")
                .param(run)
                .query(UUID.class)
                .optional()
                .isPresent());
        assertThat(written(run)).isEmpty();
        thaw.countDown();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(written(run)).containsExactly("write");
    }

    @Test
    void a_database_that_does_not_answer_when_a_child_is_prepared_does_not_fail_the_run() {
        var children = new TestWorkflows(cluster);
        children.on("child", wf -> "child");
        children.start("other");
        var hit = new AtomicInteger();
        flows.source = new Special(database.dataSource()) {
            @Override
            void before(Connection connection, String call, String sql) throws SQLException {
                if (sql.contains("workflows.deprecated") && hit.getAndIncrement() == 0) {
                    throw new SQLException("the connection has died", "08006");
                }
            }
        };
        flows.on("parent", wf -> {
            wf.step("a", String.class, () -> did("a"), s -> s.compensate(x -> did("undo a")));
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        WorkflowInfo info = one.ended(run);
        assertThat(hit.get()).isPositive();
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void the_last_progress_is_shown() {
        flows.on("progress", wf -> {
            wf.progress(100, "done");
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("progress", null);
        one.ended(run);
        assertThat(jdbc.sql("SELECT coalesce(progress::text, 'none') FROM forge_jobs WHERE id = ?")
                        .param(run)
                        .query(String.class)
                        .single())
                .contains("100");
    }

    static final class Unspeakable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }
    }

    @Test
    void an_exception_that_cannot_be_printed_is_a_failure_like_any_other() {
        flows.on("unspeakable", wf -> {
            wf.step("a", String.class, () -> did("a"), s -> s.compensate(x -> did("undo a")));
            wf.step("b", String.class, () -> {
                did("b");
                throw new Unspeakable();
            });
            return null;
        });
        flows.on("unspeakable-method", wf -> {
            wf.step("a", String.class, () -> wrote(wf.id(), "a"), s -> s.compensate(x -> wrote(wf.id(), "undo a")));
            throw new Unspeakable();
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("unspeakable", null);
        UUID method = one.workflows().start("unspeakable-method", null);
        WorkflowInfo info = one.ended(run);
        WorkflowInfo second = one.ended(method);
        assertThat(List.of(info.status(), second.status()))
                .as("%s %s %s", done, written(method), second.lastError())
                .containsOnly(WorkflowStatus.COMPENSATED);
        assertThat(done).containsExactly("a", "b", "b", "b", "undo a");
    }

    @Test
    void a_parent_that_is_retried_after_its_child_was_waits_for_that_child() {
        var broken = new AtomicBoolean(true);
        flows.attempts = 1;
        flows.on("child", wf -> {
            if (broken.get()) {
                throw new IllegalStateException("broken");
            }
            return wf.awaitSignal("go", String.class);
        });
        flows.on("parent", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        UUID child = one.workflows().list("child", null, 1).get(0).id();
        assertThat(one.workflows().retry(child)).isTrue();
        one.await(child, WorkflowStatus.WAITING);
        assertThat(one.workflows().retry(run)).isTrue();
        one.await(run, WorkflowStatus.WAITING);
        assertThat(one.workflows().signal(child, "go", "on")).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().list("child", null, 10))
                .extracting(WorkflowInfo::id)
                .containsExactly(child);
    }

    @Test
    void a_compensation_is_retried_even_if_its_step_must_not_be() {
        flows.on("once", wf -> {
            wf.step(
                    "charge",
                    String.class,
                    () -> did("charge"),
                    s -> s.attempts(1).compensate(x -> {
                        if (!done.contains("refund fails")) {
                            did("refund fails");
                            throw new IllegalStateException("bank is away for a second");
                        }
                        did("refund");
                    }));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("once", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).as(done.toString()).isEqualTo(WorkflowStatus.COMPENSATED);
    }

    @Test
    void a_transactional_step_that_waits_for_the_database_too_long_has_failed() {
        flows.attempts = 1;
        flows.on(
                "slow",
                wf -> wf.transactionalStep(
                        "hang",
                        String.class,
                        () -> {
                            JdbcClient.create(flows.source)
                                    .sql("SELECT pg_sleep(3)::text")
                                    .query(String.class)
                                    .single();
                            return "";
                        },
                        step -> step.timeout(Duration.ofMillis(200))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("slow", null);
        long began = System.nanoTime();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status())
                .as("after %d ms", (System.nanoTime() - began) / 1_000_000)
                .isEqualTo(WorkflowStatus.FAILED);
    }

    private Member startWith(String name, DataSource source, WorkflowHandler handler) {
        var jobs = new TestJobs(source);
        TestCluster.Member member = cluster.create(name, database.dataSource(), jobs, settings -> settings);
        var tools = new JobEngine.Tools(source, new TestJobs.Json(), jobs.monitor, null, jobs.maxPayload);
        var engine = new WorkflowEngine(
                member.node(),
                member.engine(),
                jobs.handlers(),
                new WorkflowEngine.Setup(
                        new DefaultJobs.Setup(source, member.control().shared(), tools),
                        new DataSourceTransactionManager(source)),
                new WorkflowEngine.Settings(
                        3,
                        TestJobs.AT_ONCE,
                        0,
                        new WorkflowEngine.Retention(Duration.ofDays(1), Duration.ofDays(1)),
                        new WorkflowEngine.Stranded(Duration.ofMillis(200), false),
                        WorkflowEngine.Limits.USUAL));
        member.node().register(engine);
        engine.add(handler);
        cluster.members().add(member);
        member.node().start();
        return new Member(member, engine, new DefaultWorkflows(member.node(), engine));
    }

    @Test
    void a_commit_that_the_database_refuses_is_a_failed_attempt_with_any_transaction_manager()
            throws InterruptedException {
        jdbc.sql("DROP TABLE IF EXISTS deferred").update();
        jdbc.sql("CREATE TABLE deferred (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
                .update();
        jdbc.sql("INSERT INTO deferred VALUES (1)").update();
        DataSource source = database.dataSource();
        Member one = startWith(
                "one",
                source,
                new WorkflowHandler(
                        new Version("deferred", "1"),
                        false,
                        null,
                        (wf, input) -> wf.transactionalStep("write", String.class, () -> {
                            did("attempt");
                            JdbcClient.create(source)
                                    .sql("INSERT INTO deferred VALUES (1)")
                                    .update();
                            return "";
                        }),
                        "test"));
        UUID run = one.workflows().start("deferred", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status).as("after %d attempts of 3", done.size()).isEqualTo(WorkflowStatus.FAILED);
    }

    @Test
    void a_permanent_failure_of_the_input_of_a_cancelled_run_is_no_compensation() {
        flows.on("input", Order.class, (wf, input) -> {
            wf.step("a", String.class, () -> did("a"), s -> s.compensate(x -> did("undo a")));
            return wf.awaitSignal("go", String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("input", new Order("anvil", 1));
        one.await(run, WorkflowStatus.WAITING);
        // As if the type of the input had changed with a deployment.
        jdbc.sql("UPDATE forge_workflow_runs SET input = '\"anvil\"' WHERE id = ?")
                .param(run)
                .update();
        one.workflows().cancel(run, "no");
        await().until(() -> one.workflows().find(run).orElseThrow().status() != WorkflowStatus.COMPENSATING);
        assertThat(one.workflows().find(run).orElseThrow().status() + " " + done)
                .satisfiesAnyOf(
                        it -> assertThat(it).doesNotContain("COMPENSATED"),
                        it -> assertThat(it).contains("undo a"));
    }

    @Test
    void a_method_that_looks_at_the_cause_of_a_failure_goes_the_same_way_again() {
        flows.attempts = 1;
        flows.on("cause", wf -> {
            String way;
            try {
                way = wf.step("charge", String.class, () -> {
                    throw new IllegalStateException("no money");
                });
            } catch (StepFailedException e) {
                way = e.getCause() instanceof IllegalStateException ? "credit" : "give up";
            }
            String taken = way;
            wf.step(taken, String.class, () -> did(taken));
            wf.sleep("nap", Duration.ofMillis(20));
            return way;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("cause", null);
        await().until(() -> {
            WorkflowStatus status = one.workflows().find(run).orElseThrow().status();
            return status.isFinal() || status == WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH;
        });
        WorkflowInfo info = one.workflows().find(run).orElseThrow();
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void the_end_of_a_child_wakes_its_parent_at_once_under_repeatable_read() {
        flows.source = repeatableRead();
        flows.on("child", wf -> wf.awaitSignal("go", String.class));
        flows.on("parent", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        await().until(() ->
                !one.workflows().list("child", WorkflowStatus.WAITING, 1).isEmpty());
        UUID child = one.workflows().list("child", null, 1).get(0).id();
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().signal(child, "go", "on");
        one.ended(child);
        one.ended(run);
    }

    @Test
    void a_context_on_another_thread_says_so() throws InterruptedException {
        flows.on("threads", wf -> {
            var failures = new CopyOnWriteArrayList<Throwable>();
            var thread = new Thread(() -> {
                try {
                    wf.step("elsewhere", String.class, () -> did("elsewhere"));
                } catch (Throwable e) {
                    failures.add(e);
                }
            });
            thread.start();
            thread.join();
            return failures.isEmpty() ? "nobody minded" : "refused";
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("threads", null);
        one.ended(run);
        assertThat(one.workflows().result(run, String.class)).contains("refused");
    }

    @Test
    void a_cancelled_parent_is_not_compensated_if_its_child_cannot_be() throws InterruptedException {
        flows.attempts = 1;
        flows.on("child", wf -> {
            wf.step(
                    "deep",
                    String.class,
                    () -> did("deep"),
                    s -> s.compensate(x -> {
                        throw new PermanentJobFailure("cannot be undone");
                    }));
            return wf.awaitSignal("never", String.class);
        });
        flows.on("parent", wf -> {
            wf.step("own", String.class, () -> did("own"), s -> s.compensate(x -> did("undo own")));
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        await().until(() ->
                !one.workflows().list("child", WorkflowStatus.WAITING, 1).isEmpty());
        UUID child = one.workflows().list("child", null, 1).get(0).id();
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().cancel(run, "no");
        one.ended(child);
        WorkflowInfo failed = one.ended(run);
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains(child.toString());
        assertThat(done).containsExactly("own", "deep", "undo own");
    }

    @Test
    void a_child_that_nobody_has_for_a_moment_does_not_fail_its_parent() throws InterruptedException {
        var children = new TestWorkflows(cluster);
        children.on("child", wf -> "child");
        Member other = children.start("other");
        flows.work = jobs -> jobs.on("elsewhere", context -> {});
        flows.on("parent", wf -> {
            wf.step("a", String.class, () -> did("a"), s -> s.compensate(x -> did("undo a")));
            wf.awaitSignal("go", String.class);
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        one.await(run, WorkflowStatus.WAITING);
        other.member().stop();
        one.workflows().signal(run, "go", "on");
        await().until(() -> !one.workflows().list("child", null, 1).isEmpty());
        UUID child = one.workflows().list("child", null, 1).get(0).id();
        one.await(child, WorkflowStatus.BLOCKED_MISSING_VERSION);
        var again = new TestWorkflows(cluster);
        again.on("child", wf -> "child");
        again.start("again");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("a");
    }
}
