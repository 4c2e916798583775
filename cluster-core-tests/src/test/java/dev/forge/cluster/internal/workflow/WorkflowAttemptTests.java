// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.transaction.support.ResourceHolderSupport;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Failures of a transactional step or its compensation: those that count as attempts, and those of the database. */
@ClusterPostgres
class WorkflowAttemptTests {

    private static final int ATTEMPTS = 2;

    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestWorkflows flows;
    private final List<Long> calls = new CopyOnWriteArrayList<>();
    private final CountDownLatch causeSeen = new CountDownLatch(1);

    WorkflowAttemptTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
        flows.attempts = ATTEMPTS;
        jdbc.sql("CREATE TABLE IF NOT EXISTS blame (id int PRIMARY KEY)").update();
        jdbc.sql("INSERT INTO blame VALUES (1) ON CONFLICT DO NOTHING").update();
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private interface Fault {
        void run() throws Exception;
    }

    /** Returns the faults of steps that return, but whose transaction fails. */
    private Map<String, Fault> faults() {
        return Map.of(
                "caught", this::catchDuplicate,
                "rollback-only", this::throwBeforeCommit,
                "late", this::exceedTransactionTimeout);
    }

    private void catchDuplicate() {
        try {
            JdbcClient.create(flows.source).sql("INSERT INTO blame VALUES (1)").update();
        } catch (DuplicateKeyException expected) {
            assertThat(expected).hasMessageContaining("blame");
        }
    }

    private void throwBeforeCommit() {
        TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
            @Override
            public void beforeCommit(boolean readOnly) {
                throw new IllegalStateException("not like this");
            }
        });
    }

    private void exceedTransactionTimeout() {
        var holder = (ResourceHolderSupport) TransactionSynchronizationManager.getResource(flows.source);
        assertThat(holder).isNotNull();
        holder.setTimeoutInMillis(0);
    }

    private static String step(WorkflowContext wf, Fault fault, UnaryOperator<Step<String>> options) {
        return wf.transactionalStep(
                "write",
                String.class,
                () -> {
                    fault.run();
                    return "written";
                },
                options);
    }

    @Test
    void step_whose_transaction_fails_by_its_own_fault_uses_up_its_attempts() {
        faults().forEach((name, fault) -> flows.on(
                name,
                wf -> step(
                        wf,
                        () -> {
                            calls.add(System.nanoTime());
                            fault.run();
                        },
                        it -> it)));
        Member one = flows.start("one");
        for (String name : faults().keySet()) {
            calls.clear();
            UUID run = one.workflows().start(name, null);
            WorkflowInfo info = one.ended(run);
            assertThat(info.status()).as(name).isEqualTo(WorkflowStatus.FAILED);
            assertThat(calls).as("calls of %s", name).hasSize(ATTEMPTS);
            assertThat(info.steps().get(0).attempts()).as(name).isEqualTo(ATTEMPTS);
            assertThat(info.steps().get(0).lastError()).as(name).isNotEmpty();
        }
    }

    @Test
    void step_that_ignores_the_interrupt_of_its_timeout_uses_up_its_attempts() {
        flows.attempts = 1;
        flows.on(
                "deaf",
                wf -> step(
                        wf,
                        () -> {
                            calls.add(System.nanoTime());
                            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(1_100);
                            while (System.nanoTime() < until) {
                                Thread.onSpinWait();
                            }
                        },
                        it -> it.withTimeout(Duration.ofSeconds(1))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("deaf", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(calls).hasSize(1);
    }

    @Test
    void compensation_whose_transaction_fails_by_its_own_fault_uses_up_its_attempts() {
        faults().forEach((name, fault) -> flows.on(name, wf -> {
            step(
                    wf,
                    () -> {},
                    it -> it.withCompensation(written -> {
                        calls.add(System.nanoTime());
                        fault.run();
                    }));
            throw new IllegalStateException("fails");
        }));
        Member one = flows.start("one");
        for (String name : faults().keySet()) {
            calls.clear();
            UUID run = one.workflows().start(name, null);
            WorkflowInfo info = one.ended(run);
            assertThat(info.status()).as(name).isEqualTo(WorkflowStatus.FAILED);
            assertThat(calls).as("calls of %s", name).hasSize(ATTEMPTS);
            assertThat(info.steps().get(0).status()).as(name).isEqualTo(StepStatus.COMPENSATION_FAILED);
        }
    }

    @Test
    void repetition_after_a_lost_connection_backs_off_and_stores_its_cause() {
        var armed = new AtomicBoolean();
        flows.source = losing(flows.source, armed);
        flows.on("cut", wf -> step(wf, () -> called(armed), it -> it));
        Member one = flows.start("one");
        UUID run = one.workflows().start("cut", null);
        await().until(() -> one.workflows().find(run).orElseThrow().steps().stream()
                .anyMatch(it ->
                        it.attempts() == 0 && String.valueOf(it.lastError()).contains("cable")));
        causeSeen.countDown();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(info.steps().get(0).attempts()).isEqualTo(1);
        assertThat(info.steps().get(0).lastError()).isNull();
        requirePauses();
    }

    @Test
    void repeated_compensation_backs_off_and_stores_its_cause() {
        var armed = new AtomicBoolean();
        flows.source = losing(flows.source, armed);
        flows.on("cut", wf -> {
            step(wf, () -> {}, it -> it.withCompensation(written -> called(armed)));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("cut", null);
        await().until(() -> one.workflows().find(run).orElseThrow().steps().stream()
                .anyMatch(it -> it.compensationAttempts() == 0
                        && String.valueOf(it.lastError()).contains("cable")));
        causeSeen.countDown();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(info.steps().get(0).compensationAttempts()).isEqualTo(1);
        assertThat(info.lastError()).as("cause of the compensation").contains("fails");
        requirePauses();
    }

    @Test
    void step_whose_transaction_can_never_begin_uses_up_its_attempts() {
        var armed = new AtomicBoolean();
        flows.source = refusing(flows.source, armed, () -> new SQLException("the pool has been closed"));
        flows.on("closed", wf -> {
            armed.set(true);
            return step(wf, () -> calls.add(System.nanoTime()), it -> it);
        });
        Member one = flows.start("one");
        WorkflowInfo info = one.ended(one.workflows().start("closed", null));
        assertThat(info.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(calls).isEmpty();
        assertThat(info.steps().get(0).attempts()).isEqualTo(ATTEMPTS);
        assertThat(info.steps().get(0).lastError()).contains("the pool has been closed");
    }

    @Test
    void step_that_finds_the_pool_exhausted_counts_no_attempt() {
        var armed = new AtomicBoolean();
        var refusals = new AtomicInteger();
        flows.attempts = 1;
        flows.source = refusing(flows.source, armed, () -> {
            armed.set(refusals.incrementAndGet() < 3);
            return new SQLTransientConnectionException("HikariPool-1 - Connection is not available");
        });
        flows.on("exhausted", wf -> {
            armed.set(refusals.get() < 3);
            return step(wf, () -> calls.add(System.nanoTime()), it -> it);
        });
        Member one = flows.start("one");
        WorkflowInfo info = one.ended(one.workflows().start("exhausted", null));
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(refusals).hasValue(3);
        assertThat(info.steps().get(0).attempts()).isEqualTo(1);
    }

    /** Returns a data source that refuses connections to transactions of steps while it is armed. */
    private static DataSource refusing(DataSource real, AtomicBoolean armed, Supplier<SQLException> failure) {
        return new DelegatingDataSource(real) {
            @Override
            public Connection getConnection() throws SQLException {
                boolean begins = StackWalker.getInstance()
                        .walk(frames ->
                                frames.anyMatch(frame -> frame.getClassName().endsWith("StepExecutor")
                                        && frame.getMethodName().equals("begin")));
                if (begins && armed.get()) {
                    throw failure.get();
                }
                return super.getConnection();
            }
        };
    }

    private void called(AtomicBoolean armed) throws InterruptedException {
        calls.add(System.nanoTime());
        armed.set(calls.size() <= 3);
        if (calls.size() > 3) {
            // The successful call deletes the cause, so that the test has to see the cause first.
            assertThat(causeSeen.await(1, TimeUnit.MINUTES)).isTrue();
        }
    }

    private void requirePauses() {
        assertThat(calls).hasSize(4);
        for (int i = 1; i < calls.size(); i++) {
            long least = 200L << (i - 1);
            assertThat((calls.get(i) - calls.get(i - 1)) / 1_000_000)
                    .as("pause %d, ms", i)
                    .isGreaterThanOrEqualTo(least);
        }
    }

    /** Returns a data source that loses the connection of a step's transaction when the step is recorded, once per arming. */
    private static DataSource losing(DataSource real, AtomicBoolean armed) {
        return new AbstractDataSource() {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = real.getConnection();
                return (Connection) Proxy.newProxyInstance(
                        Connection.class.getClassLoader(),
                        new Class<?>[] {Connection.class},
                        (self, method, arguments) -> {
                            if (method.getName().equals("prepareStatement")
                                    && String.valueOf(arguments[0]).contains("forge_workflow_steps")
                                    // The test reads the steps meanwhile.
                                    && !String.valueOf(arguments[0])
                                            .stripLeading()
                                            .startsWith("SELECT")
                                    && armed.compareAndSet(true, false)) {
                                connection.abort(Runnable::run);
                                throw new SQLException("somebody pulled the cable", "08006");
                            }
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
        };
    }
}
