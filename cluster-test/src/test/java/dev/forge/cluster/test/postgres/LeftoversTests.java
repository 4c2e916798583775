// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.junit.platform.testkit.engine.Event;

/** Tests the check that fails a test which leaves sessions, threads or processes behind. */
class LeftoversTests {

    private static @Nullable AutoCloseable left;

    @AfterEach
    void cleanUp() throws Exception {
        if (left != null) {
            left.close();
        }
    }

    private static List<String> failuresOf(Class<?> testClass) {
        return failuresOf(testClass, Duration.ofSeconds(1));
    }

    private static List<String> failuresOf(Class<?> testClass, Duration grace) {
        return EngineTestKit.engine("junit-jupiter")
                .configurationParameter("junit.jupiter.conditions.deactivate", "*")
                .configurationParameter(ClusterPostgresExtension.GRACE_PARAMETER, Long.toString(grace.toMillis()))
                .selectors(selectClass(testClass))
                .execute()
                .testEvents()
                .failed()
                .map((Event event) -> event.getPayload(org.junit.platform.engine.TestExecutionResult.class)
                        .flatMap(org.junit.platform.engine.TestExecutionResult::getThrowable)
                        .map(Throwable::getMessage)
                        .orElse(""))
                .toList();
    }

    @Test
    void open_session_fails_its_test() {
        assertThat(failuresOf(LeavesASession.class))
                .singleElement()
                .asString()
                .contains("This test left behind", "session ", "SELECT 'left open'");
    }

    @Test
    void running_thread_fails_its_test() {
        assertThat(failuresOf(LeavesAThread.class)).singleElement().asString().contains("thread left-running");
    }

    @Test
    void running_process_fails_its_test() {
        assertThat(failuresOf(LeavesAProcess.class)).singleElement().asString().contains("process ", "sleep");
    }

    @Test
    void tidy_test_passes_and_its_database_is_dropped() {
        assertThat(failuresOf(Tidy.class, Leftovers.GRACE)).isEmpty();
        String query = "SELECT count(*) FROM pg_database WHERE datname = ?";
        try (TestDatabase other = PostgresServer.shared().createEmptyDatabase("other")) {
            assertThat(other.jdbc()
                            .sql(query)
                            .param(other.name())
                            .query(Long.class)
                            .single())
                    .isOne();
            assertThat(other.jdbc()
                            .sql(query)
                            .param(Tidy.name)
                            .query(Long.class)
                            .single())
                    .isZero();
        }
    }

    @ClusterPostgres
    static class LeavesASession {
        @Test
        void test(TestDatabase database) throws SQLException {
            Connection connection = database.dataSource().getConnection();
            connection.createStatement().execute("SELECT 'left open'");
            left = connection;
        }
    }

    @ClusterPostgres
    static class LeavesAThread {
        @Test
        void test() {
            var end = new CountDownLatch(1);
            new Thread(
                            () -> {
                                try {
                                    end.await();
                                } catch (InterruptedException e) {
                                    Thread.currentThread().interrupt();
                                }
                            },
                            "left-running")
                    .start();
            left = end::countDown;
        }
    }

    @ClusterPostgres
    static class LeavesAProcess {
        @Test
        void test() throws IOException {
            Process process = new ProcessBuilder("sleep", "100").start();
            left = process::destroyForcibly;
        }
    }

    @ClusterPostgres
    static class Tidy {
        static String name = "";

        @Test
        void test(TestDatabase database) {
            name = database.name();
            assertThat(database.jdbc()
                            .sql("SELECT count(*) FROM forge_jobs")
                            .query(Long.class)
                            .single())
                    .isZero();
        }
    }
}
