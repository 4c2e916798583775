// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** Verifies that a node which knows the queue of a new job claims the job without a search. */
@ClusterPostgres
class ClaimHintTests extends WorkerFixture {

    private final AtomicBoolean searchable = new AtomicBoolean(true);

    ClaimHintTests(TestDatabase database) {
        super(database);
    }

    @BeforeEach
    void addHandlers() {
        work.on("job", context -> {});
    }

    /** Returns a data source on which searches fail on demand. */
    private DataSource source() {
        return new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                return proxy(Connection.class, super.getConnection(), (method, arguments, result) -> {
                    if (result instanceof PreparedStatement
                            && !searchable.get()
                            && arguments[0].toString().contains("RECURSIVE gap")) {
                        throw new SQLException("no search", "XX000");
                    }
                    return result;
                });
            }
        };
    }

    private static UUID enqueue(Member member) {
        return member.jobs().enqueueNamed("job", null).id();
    }

    @Test
    void job_that_this_node_enqueues_is_claimed_without_a_search() {
        Member member = cluster.start("one", source(), work, UnaryOperator.identity());
        member.ended(enqueue(member));
        searchable.set(false);
        assertThat(member.ended(enqueue(member)).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void job_that_another_node_enqueues_is_claimed_without_a_search() {
        Member worker = cluster.start("one", source(), work, UnaryOperator.identity());
        Member enqueuer = cluster.start("two", copy(), settings -> TestNodes.withRoles(settings, NodeRole.FUNCTION));
        worker.ended(enqueue(enqueuer));
        searchable.set(false);
        assertThat(worker.ended(enqueue(enqueuer)).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void hint_for_a_job_that_does_not_exist_leaves_other_jobs_to_the_search() {
        var ran = new CopyOnWriteArrayList<String>();
        work.on("other", context -> ran.add("other"));
        Member member = cluster.start("one", source(), work, UnaryOperator.identity());
        member.ended(enqueue(member));
        jdbc.sql("INSERT INTO forge_jobs (id, name) VALUES (gen_random_uuid(), 'other')")
                .update();
        member.engine().heard("work another\n%d\n\njob".formatted(JobPriority.NORMAL.value()));
        await().until(() -> ran.size() == 1);
    }
}
