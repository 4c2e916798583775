// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;

/** Closes the connection before and after each statement of a run, commits included. */
@ClusterPostgres
class WorkflowConnectionLossTests {

    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestWorkflows flows;
    private final Fragile source;

    WorkflowConnectionLossTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
        this.source = new Fragile(database.dataSource());
        flows.source = source;
        jdbc.sql("CREATE TABLE IF NOT EXISTS fault_effects (position bigserial, run uuid, step text)")
                .update();
        jdbc.sql("TRUNCATE fault_effects").update();
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private String write(UUID run, String step) {
        // Joins the transaction of the step, if it has one.
        JdbcClient.create(source)
                .sql("INSERT INTO fault_effects (run, step) VALUES (?, ?)")
                .params(run, step)
                .update();
        return step;
    }

    private List<String> effects(UUID run) {
        return jdbc.sql("SELECT step FROM fault_effects WHERE run = ? ORDER BY position")
                .param(run)
                .query(String.class)
                .list();
    }

    @Test
    void connection_loss_at_any_statement_neither_skips_nor_repeats_a_recorded_step() {
        var plain = new AtomicInteger();
        Map<UUID, Set<Object>> chances = new ConcurrentHashMap<>();
        flows.attempts = 5;
        flows.on("forward", wf -> {
            wf.transactionalStep("reserve", String.class, () -> write(wf.id(), "reserve"));
            List<Object> chance = List.of(wf.randomUuid(), wf.now());
            wf.step("charge", String.class, () -> {
                plain.incrementAndGet();
                chances.computeIfAbsent(wf.id(), run -> ConcurrentHashMap.newKeySet())
                        .add(chance);
                return "charged";
            });
            String by = wf.awaitSignal("approve", String.class);
            wf.transactionalStep("ship", String.class, () -> write(wf.id(), "ship"));
            return by;
        });
        Member one = flows.start("one");
        int points = everyPoint(one, "forward", run -> {
            one.workflows().signal(run, "approve", "boss");
            WorkflowInfo info = one.ended(run);
            assertThat(info.status()).as(source.where()).isEqualTo(WorkflowStatus.COMPLETED);
            assertThat(effects(run)).as(source.where()).containsExactly("reserve", "ship");
            assertThat(info.steps())
                    .as(source.where())
                    .extracting(WorkflowInfo.Step::name)
                    .containsExactly("reserve", "uuid", "now", "charge", "approve", "ship");
            assertThat(chances.get(run))
                    .as("recorded times and UUIDs of all executions: %s", source.where())
                    .hasSize(1);
        });
        assertThat(points).as("statements of a run").isGreaterThan(8);
        assertThat(plain.get()).as("executions of the plain step").isGreaterThanOrEqualTo(points);
    }

    @Test
    void connection_loss_at_any_statement_compensates_each_step_once() {
        flows.attempts = 5;
        flows.on("backward", wf -> {
            wf.transactionalStep(
                    "reserve",
                    String.class,
                    () -> write(wf.id(), "reserve"),
                    step -> step.withCompensation(what -> write(wf.id(), "undo reserve")));
            wf.transactionalStep(
                    "charge",
                    String.class,
                    () -> write(wf.id(), "charge"),
                    step -> step.withCompensation(what -> write(wf.id(), "undo charge")));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        int points = everyPoint(one, "backward", run -> {
            assertThat(one.ended(run).status()).as(source.where()).isEqualTo(WorkflowStatus.COMPENSATED);
            assertThat(effects(run))
                    .as(source.where())
                    .containsExactly("reserve", "charge", "undo charge", "undo reserve");
        });
        assertThat(points).as("statements of a run").isGreaterThan(8);
    }

    @Test
    void connection_loss_at_any_statement_executes_jobs_children_and_parallel_steps_once() {
        flows.attempts = 5;
        flows.work = jobs -> jobs.on(TestJobs.job("add"), (payload, context) -> "added");
        flows.on("child", wf -> wf.transactionalStep("born", String.class, () -> write(wf.id(), "born")));
        flows.on("sideways", wf -> {
            wf.saveState("begun");
            wf.all(Stream.of("left", "right")
                    .map(name -> Step.of(name, String.class, () -> write(wf.id(), name))
                            .withTransaction())
                    .toList());
            return wf.job("add", null, String.class) + wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        int points = everyPoint(one, "sideways", run -> {
            WorkflowInfo info = one.ended(run);
            assertThat(info.status()).as(source.where()).isEqualTo(WorkflowStatus.COMPLETED);
            assertThat(info.result()).as(source.where()).isEqualTo("\"addedborn\"");
            assertThat(effects(run)).as(source.where()).containsExactlyInAnyOrder("left", "right");
        });
        assertThat(points).as("statements of a run").isGreaterThan(12);
        assertThat(jdbc.sql("SELECT run FROM fault_effects WHERE step = 'born' GROUP BY run HAVING count(*) > 1")
                        .query(UUID.class)
                        .list())
                .isEmpty();
        assertThat(jdbc.sql("""
                                SELECT parent_id FROM forge_workflow_runs WHERE parent_id IS NOT NULL
                                GROUP BY parent_id HAVING count(*) > 1
                                """).query(UUID.class).list())
                .as("parents with two children")
                .isEmpty();
    }

    private interface Check {
        void of(UUID run);
    }

    /** Runs a workflow with a connection loss before and after each of its statements; returns the number of statements. */
    private int everyPoint(Member node, String workflow, Check check) {
        int points = 0;
        for (boolean after : List.of(false, true)) {
            int at = 1;
            boolean hit = true;
            while (hit) {
                source.arm(at, after);
                UUID run = node.workflows().start(workflow, null);
                check.of(run);
                hit = source.disarm();
                at++;
            }
            points = Math.max(points, at - 2);
        }
        return points;
    }

    /** A data source whose connections close at a given statement of a run. */
    private static final class Fragile extends AbstractDataSource {

        private final DataSource real;
        private final List<String> sent = new ArrayList<>();
        private int fatal;
        private boolean after;
        private boolean hit;

        Fragile(DataSource real) {
            this.real = real;
        }

        synchronized void arm(int statement, boolean afterIt) {
            fatal = statement;
            after = afterIt;
            hit = false;
            sent.clear();
        }

        synchronized boolean disarm() {
            fatal = 0;
            return hit;
        }

        synchronized String where() {
            return "%s statement %d: %s".formatted(after ? "after" : "before", fatal, sent);
        }

        private synchronized boolean isFatal(String what, boolean side) {
            if (fatal == 0 || !Thread.currentThread().getName().matches("forge-(job|cluster-step).*")) {
                return false;
            }
            if (!side) {
                sent.add(what.strip().lines().findFirst().orElse(""));
            }
            boolean dies = !hit && sent.size() == fatal && after == side;
            hit |= dies;
            return dies;
        }

        @Override
        public Connection getConnection() throws SQLException {
            Connection connection = real.getConnection();
            return proxy(Connection.class, (method, arguments) -> {
                if (method.getName().equals("commit")) {
                    return fragile(connection, "commit", () -> call(method, connection, arguments));
                }
                Object result = call(method, connection, arguments);
                return result instanceof PreparedStatement statement
                        ? statement(connection, statement, String.valueOf(arguments[0]))
                        : result;
            });
        }

        @Override
        public Connection getConnection(String username, String password) throws SQLException {
            return getConnection();
        }

        private Statement statement(Connection connection, PreparedStatement statement, String sql) {
            return proxy(
                    PreparedStatement.class,
                    (method, arguments) -> method.getName().startsWith("execute")
                            ? fragile(connection, sql, () -> call(method, statement, arguments))
                            : call(method, statement, arguments));
        }

        private Object fragile(Connection connection, String what, Sent sent) throws Throwable {
            if (isFatal(what, false)) {
                throw dead(connection);
            }
            Object result = sent.send();
            if (isFatal(what, true)) {
                throw dead(connection);
            }
            return result;
        }

        private static SQLException dead(Connection connection) throws SQLException {
            connection.abort(Runnable::run);
            return new SQLException("the connection has died", "08006");
        }

        private interface Sent {
            Object send() throws Throwable;
        }

        private interface Handling {
            Object handle(Method method, Object[] arguments) throws Throwable;
        }

        private static Object call(Method method, Object target, Object[] arguments) throws Throwable {
            try {
                return method.invoke(target, arguments);
            } catch (InvocationTargetException e) {
                throw e.getTargetException();
            }
        }

        private static <T> T proxy(Class<T> type, Handling handling) {
            return type.cast(Proxy.newProxyInstance(
                    type.getClassLoader(),
                    new Class<?>[] {type},
                    (self, method, arguments) -> switch (method.getName()) {
                        case "equals" -> self == arguments[0];
                        case "hashCode" -> System.identityHashCode(self);
                        default -> handling.handle(method, arguments);
                    }));
        }
    }
}
