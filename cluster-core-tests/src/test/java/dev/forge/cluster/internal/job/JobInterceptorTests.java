// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.observe.JobInterceptor;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Interceptors around the handlers of jobs. */
@ClusterPostgres
class JobInterceptorTests extends JobFixture {

    private final List<String> calls = new CopyOnWriteArrayList<>();

    JobInterceptorTests(TestDatabase database) {
        super(database);
    }

    private JobInterceptor recording(String name) {
        return (job, handler) -> {
            calls.add(name + " before " + job.name());
            try {
                return handler.proceed();
            } finally {
                calls.add(name + " after");
            }
        };
    }

    private JobInfo run(String name) {
        Member member = cluster.start("one", work, UnaryOperator.identity());
        return member.ended(member.jobs().enqueueNamed(name, null).id());
    }

    @Test
    void interceptors_surround_the_handler_in_their_order() {
        work.interceptors = List.of(recording("outer"), recording("inner"));
        work.on("job", context -> calls.add("handler"));
        assertThat(run("job").status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(calls)
                .containsExactly("outer before job", "inner before job", "handler", "inner after", "outer after");
    }

    @Test
    void result_of_the_outermost_interceptor_is_that_of_the_job() {
        work.interceptors =
                List.of((job, handler) -> handler.proceed() + "!", (job, handler) -> handler.proceed() + "?");
        work.on(job("job"), (payload, context) -> "done");
        assertThat(run("job").result()).isEqualTo("\"done?!\"");
    }

    @Test
    void interceptor_that_does_not_call_the_handler_decides_the_end() {
        work.interceptors = List.of((job, handler) -> Outcome.fail("not for this tenant"));
        work.on("job", context -> calls.add("handler"));
        JobInfo job = run("job");
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.lastError()).contains("not for this tenant");
        assertThat(calls).isEmpty();
    }

    @Test
    void exception_of_an_interceptor_fails_the_attempt() {
        work.interceptors = List.of((job, handler) -> {
            if (job.attempt() == 1) {
                throw new IllegalStateException("no tenant");
            }
            return handler.proceed();
        });
        work.on("job", context -> {});
        JobInfo job = run("job");
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isEqualTo(2);
        assertThat(job.lastError()).contains("no tenant");
    }

    @Test
    void handler_runs_once_per_attempt() {
        work.interceptors = List.of((job, handler) -> {
            handler.proceed();
            return handler.proceed();
        });
        work.on(job("job").attempts(1), (payload, context) -> calls.add("handler"));
        JobInfo job = run("job");
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.lastError()).contains("proceed() was called twice");
        assertThat(calls).containsExactly("handler");
    }

    @Test
    void interceptor_runs_in_the_transaction_of_the_handler() {
        work.interceptors = List.of((job, handler) -> {
            calls.add("transaction " + TransactionSynchronizationManager.isActualTransactionActive());
            jdbc.sql("INSERT INTO effects VALUES (?, ?)")
                    .params(job.id(), job.attempt())
                    .update();
            return handler.proceed();
        });
        work.on(job("job").in(work.transaction()).attempts(1), (payload, context) -> {
            throw new IllegalStateException("rolls back");
        });
        assertThat(run("job").status()).isEqualTo(JobStatus.FAILED);
        assertThat(calls).containsExactly("transaction true");
        assertThat(jdbc.sql("SELECT count(*) FROM effects").query(Long.class).single())
                .isZero();
    }

    @Test
    void future_of_a_handler_is_awaited_after_the_interceptors() {
        work.interceptors = List.of(recording("outer"));
        Object later = CompletableFuture.completedFuture("later");
        work.on(job("job"), (payload, context) -> later);
        assertThat(run("job").result()).isEqualTo("\"later\"");
        assertThat(calls).containsExactly("outer before job", "outer after");
    }
}
