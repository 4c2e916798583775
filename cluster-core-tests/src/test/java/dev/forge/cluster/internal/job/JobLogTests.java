// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobLogLine;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

/** Lines that handlers log for their jobs. */
@ClusterPostgres
class JobLogTests extends JobFixture {

    JobLogTests(TestDatabase database) {
        super(database);
    }

    @Test
    void lines_survive_failed_attempts_and_are_there_when_the_job_has_ended() {
        work.on(job("plain").attempts(2), (payload, context) -> {
            context.log("attempt {} of {}", context.attempt(), context.maxAttempts());
            context.log("second line");
            throw new IllegalStateException("fails");
        });
        work.on(job("transactional").attempts(2).in(work.transaction()), (payload, context) -> {
            context.log("attempt {}", context.attempt());
            if (context.attempt() == 1) {
                throw new IllegalStateException("rolled back");
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID plain = member.jobs().enqueueNamed("plain", null).id();
        UUID transactional = member.jobs().enqueueNamed("transactional", null).id();
        assertThat(member.ended(plain).status()).isEqualTo(JobStatus.FAILED);
        assertThat(member.operations().logs(plain))
                .extracting(JobLogLine::message)
                .containsExactly("attempt 1 of 2", "second line", "attempt 2 of 2", "second line");
        assertThat(member.operations().logs(plain))
                .extracting(JobLogLine::attempt)
                .containsExactly(1, 1, 2, 2);
        assertThat(member.ended(transactional).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.operations().logs(transactional))
                .extracting(JobLogLine::message)
                .containsExactly("attempt 1", "attempt 2");
        assertThat(member.operations().logs(UUID.randomUUID())).isEmpty();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> member.operations().logs(null));
    }

    @Test
    void lines_are_written_while_the_handler_runs() throws InterruptedException {
        var mayEnd = new CountDownLatch(1);
        work.on("job", context -> {
            context.log("begun");
            until(mayEnd);
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        await().untilAsserted(() -> assertThat(member.operations().logs(id))
                .extracting(JobLogLine::message)
                .containsExactly("begun"));
        assertThat(member.jobs().find(id).orElseThrow().status().isFinal()).isFalse();
        mayEnd.countDown();
        member.ended(id);
        assertThat(member.operations().logs(id)).hasSize(1);
    }

    @Test
    void number_and_length_of_lines_are_bounded() {
        work.on("job", context -> {
            for (int i = 0; i < 5_000; i++) {
                context.log("line {}", i);
            }
            context.log("x".repeat(100_000));
            context.log("nul \0, half \ud83d, pair \ud83d\ude00");
            context.log("null {}", (Object) null);
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        var lines = member.operations().logs(id);
        assertThat(lines).hasSize(500);
        assertThat(lines.get(0).message()).isEqualTo("line 4503");
        assertThat(lines.get(496).message()).isEqualTo("line 4999");
        assertThat(lines.get(497).message()).hasSizeLessThan(1_100).endsWith("... (100000 characters)");
        assertThat(lines.get(498).message()).isEqualTo("nul  , half ?, pair \ud83d\ude00");
        assertThat(lines.get(499).message()).isEqualTo("null null");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_job_logs")
                        .query(Long.class)
                        .single())
                .isEqualTo(500);
    }

    @Test
    void lines_of_deleted_jobs_are_cleaned_up() {
        work.on("job", context -> context.log("line"));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID kept = member.jobs().enqueueNamed("job", null).id();
        UUID deleted = member.jobs().enqueueNamed("job", null).id();
        member.ended(kept);
        member.ended(deleted);
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?").param(deleted).update();
        member.engine().cleanUp();
        assertThat(member.operations().logs(deleted)).isEmpty();
        assertThat(member.operations().logs(kept)).hasSize(1);
    }
}
