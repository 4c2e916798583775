// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Commands to runs whose rows another transaction has locked. */
@ClusterPostgres
class WorkflowLockTests {

    private final JdbcClient jdbc;
    private final TestDatabase database;
    private final TestCluster cluster;
    private final TransactionTemplate transaction;
    private final AtomicBoolean broken = new AtomicBoolean(true);
    private final Member node;
    private final UUID waiting;
    private final UUID other;
    private final UUID failed;

    WorkflowLockTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.transaction = new TransactionTemplate(new JdbcTransactionManager(cluster.source));
        this.node = new TestWorkflows(cluster)
                .on("wait", wf -> wf.awaitSignal("go", String.class))
                .on("fail", wf -> {
                    if (broken.get()) {
                        throw new NonRetryableJobException("broken");
                    }
                    return "mended";
                })
                .start("one");
        this.waiting = node.workflows().start("wait", null);
        this.other = node.workflows().start("wait", null);
        this.failed = node.workflows().start("fail", null);
        node.await(waiting, WorkflowStatus.WAITING);
        node.await(other, WorkflowStatus.WAITING);
        node.await(failed, WorkflowStatus.FAILED);
        broken.set(false);
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private Map<UUID, Supplier<Boolean>> commands() {
        return Map.of(
                waiting, () -> node.workflows().signal(waiting, "go", "gone"),
                other, () -> node.workflows().cancel(other, "obsolete"),
                failed, () -> node.workflows().retry(failed));
    }

    private String lockTimeout() {
        return JdbcClient.create(cluster.source)
                .sql("SELECT current_setting('lock_timeout')")
                .query(String.class)
                .single();
    }

    @Test
    void command_to_a_locked_run_fails_after_a_bounded_wait() throws Exception {
        try (Connection operator = database.dataSource().getConnection()) {
            lockAll(operator);
            Map<UUID, Supplier<Boolean>> commands = commands();
            Map<UUID, CompletableFuture<Boolean>> results = new HashMap<>();
            commands.forEach((run, command) -> results.put(run, CompletableFuture.supplyAsync(command)));
            results.forEach((run, result) -> assertThatThrownBy(() -> result.get(1, TimeUnit.MINUTES))
                    .cause()
                    .isInstanceOf(CannotAcquireLockException.class)
                    .hasMessageContainingAll(run.toString(), "Nothing was changed", "pg_blocking_pids"));
            operator.rollback();
        }
        assertThat(List.of(waiting, other, failed))
                .extracting(this::status)
                .containsExactly("waiting", "waiting", "failed");
        commands()
                .forEach((run, command) ->
                        assertThat(command.get()).as("%s", run).isTrue());
        assertThat(node.ended(waiting).result()).isEqualTo("\"gone\"");
        assertThat(node.ended(other).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(node.ended(failed).result()).isEqualTo("\"mended\"");
    }

    @Test
    void transaction_of_the_caller_keeps_its_lock_timeout() {
        for (String timeout : List.of("0", "100ms", "7s", "2min")) {
            transaction.executeWithoutResult(status -> {
                setLockTimeout(timeout);
                commands().forEach((run, command) -> {
                    assertThat(command.get()).as("%s with %s", run, timeout).isTrue();
                    assertThat(lockTimeout()).isEqualTo(timeout);
                });
                status.setRollbackOnly();
            });
        }
    }

    @Test
    void transaction_of_the_caller_continues_after_a_command_that_was_not_executed() throws SQLException {
        try (Connection operator = database.dataSource().getConnection()) {
            lockAll(operator);
            transaction.executeWithoutResult(status -> {
                setLockTimeout("100ms");
                commands().forEach((run, command) -> {
                    assertThatThrownBy(command::get)
                            .isInstanceOf(CannotAcquireLockException.class)
                            .hasMessageContainingAll(run.toString(), "100ms");
                    assertThat(lockTimeout()).isEqualTo("100ms");
                });
                node.workflows().start("fail", null, "after");
            });
            operator.rollback();
        }
        assertThat(jdbc.sql("SELECT count(*) FROM forge_workflow_runs WHERE run_key = 'after'")
                        .query(Long.class)
                        .single())
                .isEqualTo(1);
    }

    private void setLockTimeout(String timeout) {
        JdbcClient.create(cluster.source)
                .sql("SELECT set_config('lock_timeout', ?, true)")
                .param(timeout)
                .query(String.class)
                .single();
    }

    private String status(UUID run) {
        return jdbc.sql("SELECT status FROM forge_workflow_runs WHERE id = ?")
                .param(run)
                .query(String.class)
                .single();
    }

    private static void lockAll(Connection operator) throws SQLException {
        operator.setAutoCommit(false);
        try (Statement statement = operator.createStatement()) {
            statement.execute("SELECT FROM forge_workflow_runs FOR UPDATE");
        }
    }
}
