// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.job.enqueue.RegisteredJobNames;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.TransientDataAccessResourceException;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** Lookups of names that no node knows, of which clients may submit any number. */
@ClusterPostgres
class RegisteredJobNamesTests {

    private static final int CALLERS = 8;

    private final TestDatabase database;
    private final TestCluster cluster;
    private final TestJobs work;

    RegisteredJobNamesTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    /** Repeats a call that was rejected because callers waited for too long on a paused machine. */
    private static void requireRegistered(RegisteredJobNames names, String name) {
        boolean answered = false;
        while (!answered) {
            try {
                names.requireRegistered(name);
                answered = true;
            } catch (TransientDataAccessResourceException e) {
                assertThat(e).hasMessageContaining("too many callers");
            }
        }
    }

    @Test
    void callers_that_ask_for_unknown_names_need_one_connection_at_a_time() throws Exception {
        Member member = cluster.create("one", work, settings -> settings);
        var crowd = new AtomicInteger();
        var turn = new ReentrantLock();
        // Counts callers that request a connection while another caller gets one.
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                if (!turn.tryLock()) {
                    crowd.incrementAndGet();
                    turn.lock();
                }
                try {
                    return super.getConnection();
                } finally {
                    turn.unlock();
                }
            }
        };
        var names = new RegisteredJobNames(member.node(), work.handlers(), source);
        ExecutorService threads = Executors.newFixedThreadPool(CALLERS);
        try {
            List<Callable<Void>> calls = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                String name = "unknown-" + i;
                calls.add(() -> {
                    assertThatExceptionOfType(UnknownJobException.class)
                            .isThrownBy(() -> requireRegistered(names, name))
                            .withMessageStartingWith("Unknown job '%s'", name);
                    return null;
                });
            }
            for (Future<Void> call : threads.invokeAll(calls)) {
                call.get();
            }
        } finally {
            threads.shutdown();
            member.stop();
        }
        assertThat(crowd).hasValue(0);
    }
}
