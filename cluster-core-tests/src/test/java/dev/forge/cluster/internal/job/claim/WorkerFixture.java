// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.run.JobStores;
import dev.forge.cluster.internal.job.run.WorkerNode;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Fixture with a node whose worker polls once a minute: everything that happens sooner was triggered by a wake-up. */
@ClusterPostgres
abstract class WorkerFixture {

    static final Duration SOON = Duration.ofSeconds(30);
    final TestDatabase database;
    final JdbcClient jdbc;
    final TestCluster cluster;
    final TestJobs work;
    final TransactionTemplate transactions;

    WorkerFixture(TestDatabase database) {
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

    TestJobs jobs() {
        var jobs = new TestJobs(database.dataSource());
        jobs.poll = Duration.ofMinutes(1);
        return jobs;
    }

    TestJobs copy() {
        TestJobs copy = jobs();
        work.handlers().all().forEach(copy.handlers()::add);
        return copy;
    }

    Member start() {
        return cluster.start("one", work, UnaryOperator.identity());
    }

    static void until(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    }

    long count(String condition) {
        return jdbc.sql("SELECT count(*) FROM forge_jobs WHERE " + condition)
                .query(Long.class)
                .single();
    }

    Worker worker(Member member, List<Lane.Selection> selections) {
        return worker(member, database.dataSource(), () -> 0, selections);
    }

    /** Returns a worker whose clock is {@code ahead} nanoseconds ahead of the clock of its node. */
    Worker worker(Member member, DataSource source, LongSupplier ahead, List<Lane.Selection> selections) {
        var dependencies = new WorkerParts(
                work.settings(),
                work.handlers(),
                JobStores.of(cluster.schema, source, source),
                new PayloadJson(new TestJobs.Json(), work.maxPayload),
                JobMonitor.NONE,
                List::of);
        return new Worker(
                dependencies,
                new WorkerNode() {
                    @Override
                    public @Nullable UUID claimingNode() {
                        return member.node().id();
                    }

                    @Override
                    public boolean isTrusted() {
                        return member.node().membership().isTrusted();
                    }

                    @Override
                    public long nanos() {
                        return member.node().nanos() + ahead.getAsLong();
                    }

                    @Override
                    public boolean hasContactSince(long nanos) {
                        return member.node().contact().hasAnsweredSince(nanos - ahead.getAsLong());
                    }

                    @Override
                    public String nodeName() {
                        return "one";
                    }

                    @Override
                    public void setLogContext() {}

                    @Override
                    public void jobReturned() {}
                },
                selections);
    }

    static void stop(Worker worker) {
        try {
            worker.end();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** A data source whose connections can be cut; counts the calls of a method that got no connection. */
    static final class Breakable extends DelegatingDataSource {

        final String method;
        final List<Connection> given = new CopyOnWriteArrayList<>();
        final AtomicInteger refused = new AtomicInteger();
        volatile boolean shut;

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
            if (shut) {
                // shut() may not have seen this connection.
                connection.abort(Runnable::run);
            }
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

    interface After {
        Object call(Method method, Object[] arguments, Object result) throws SQLException;
    }

    static <T> T proxy(Class<T> type, T target, After after) {
        return type.cast(Proxy.newProxyInstance(
                WorkerFixture.class.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> {
                    try {
                        return after.call(method, arguments, method.invoke(target, arguments));
                    } catch (InvocationTargetException e) {
                        throw e.getTargetException();
                    }
                }));
    }

    void lock(UUID id) {
        jdbc.sql("SELECT FROM forge_jobs WHERE id = ? FOR UPDATE")
                .param(id)
                .query((row, n) -> true)
                .single();
    }

    /** Waits until the finisher has checked twice whether a skipped row is locked: the second time after a retry. */
    void finisherSkipsTwice() {
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

    static JobHandler.Transaction in(JdbcTransactionManager manager) {
        return new JobHandler.Transaction(
                manager, new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW));
    }
}
