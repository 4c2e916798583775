// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.observe.JobEnded;
import dev.forge.cluster.job.observe.JobFailed;
import dev.forge.cluster.job.observe.JobInterceptor;
import dev.forge.cluster.job.observe.JobListener;
import dev.forge.cluster.job.observe.JobStarted;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.event.EventListener;
import org.springframework.core.annotation.Order;

/** Listeners, interceptors and events of jobs, as an application declares them. */
@ClusterPostgres
class JobListenerTests {

    private static final List<String> CALLS = new CopyOnWriteArrayList<>();

    private final TestDatabase database;

    JobListenerTests(TestDatabase database) {
        this.database = database;
        CALLS.clear();
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withPropertyValues("forge.cluster.job.backoff.delay=10ms", "forge.cluster.job.backoff.jitter=0")
                .withBean(Handlers.class);
    }

    static class Handlers {
        @ClusterJob
        void work() {
            CALLS.add("work");
        }

        @ClusterJob(maxAttempts = 2)
        void fail() {
            throw new IllegalStateException("broken");
        }

        private final AtomicBoolean snoozed = new AtomicBoolean();

        @ClusterJob
        Outcome snooze() {
            // A flag and not the epoch, because a claim that waited for too long is returned before the first attempt.
            return snoozed.compareAndSet(false, true) ? Outcome.snooze(Duration.ZERO) : Outcome.complete("woken");
        }
    }

    static class Recording implements JobListener {

        private final String name;

        Recording(String name) {
            this.name = name;
        }

        @Override
        public void beforeAttempt(JobContext job) {
            CALLS.add("%s before %s %d".formatted(name, job.name(), job.attempt()));
        }

        @Override
        public void afterAttempt(JobContext job, JobAttemptOutcome outcome) {
            Throwable failure = outcome.failure();
            CALLS.add("%s %s%s".formatted(name, outcome.kind(), failure == null ? "" : ": " + failure.getMessage()));
        }

        @Override
        public void failedPermanently(UUID id, String job, JobStatus status, String error) {
            CALLS.add("%s permanently %s %s: %s"
                    .formatted(name, job, status, error.lines().findFirst().orElse("")));
        }
    }

    @Order(1)
    static final class First extends Recording {
        First() {
            super("first");
        }
    }

    @Order(2)
    static final class Second extends Recording {
        Second() {
            super("second");
        }
    }

    @Test
    void listeners_are_called_around_each_attempt_in_their_order() {
        runner().withBean(Second.class).withBean(First.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            ended(context, jobs.enqueueNamed("work", null).id());
            await().until(() -> CALLS.size() == 5);
            assertThat(CALLS)
                    .containsExactly(
                            "first before work 1",
                            "second before work 1",
                            "work",
                            "first COMPLETED",
                            "second COMPLETED");
        });
    }

    @Test
    void listener_sees_how_each_attempt_ended_and_the_permanent_failure_once() {
        runner().withBean(First.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            ended(context, jobs.enqueueNamed("snooze", null).id());
            await().until(() -> CALLS.contains("first COMPLETED"));
            assertThat(CALLS)
                    .containsExactly(
                            "first before snooze 1", "first SNOOZED", "first before snooze 1", "first COMPLETED");
            CALLS.clear();
            ended(context, jobs.enqueueNamed("fail", null).id());
            await().until(() -> CALLS.size() == 5);
            assertThat(CALLS)
                    .containsExactly(
                            "first before fail 1",
                            "first RETRIED: broken",
                            "first before fail 2",
                            "first FAILED: broken",
                            "first permanently fail FAILED: java.lang.IllegalStateException: broken");
        });
    }

    @Test
    void abandoned_job_is_reported() {
        runner().withPropertyValues("forge.cluster.job.max-recoveries=0", "forge.cluster.sweep.interval=100ms")
                .withBean(First.class)
                .run(context -> {
                    var id = UUID.randomUUID();
                    database.jdbc().sql("""
                                    INSERT INTO forge_jobs
                                        (id, name, payload, status, claim_epoch, worker_id, attempts, claimed_at, lease_expires_at)
                                    VALUES (?, 'work', '{}', 'running', 1, gen_random_uuid(), 1, now() - interval '1 hour',
                                            now() - interval '1 hour')
                                    """).param(id).update();
                    assertThat(ended(context, id).status()).isEqualTo(JobStatus.ABANDONED);
                    await().until(() -> CALLS.size() == 1);
                    assertThat(CALLS.get(0))
                            .startsWith("first permanently work ABANDONED: abandoned after more than 0");
                });
    }

    static class Alerting implements JobListener {

        private final Jobs jobs;

        Alerting(Jobs jobs) {
            this.jobs = jobs;
        }

        @Override
        public void failedPermanently(UUID id, String job, JobStatus status, String error) {
            jobs.enqueueNamed("work", null);
        }
    }

    @Order(1)
    static final class Outer implements JobInterceptor {
        @Override
        public @Nullable Object intercept(JobContext job, Handler handler) throws Throwable {
            CALLS.add("outer");
            return handler.proceed();
        }
    }

    @Order(2)
    static final class Inner implements JobInterceptor {
        @Override
        public @Nullable Object intercept(JobContext job, Handler handler) throws Throwable {
            CALLS.add("inner");
            return handler.proceed();
        }
    }

    @Test
    void interceptors_surround_the_handler_in_their_order() {
        runner().withBean(Inner.class).withBean(Outer.class).run(context -> {
            ended(
                    context,
                    context.getBean(Jobs.class).enqueueNamed("work", null).id());
            assertThat(CALLS).containsExactly("outer", "inner", "work");
        });
    }

    static class Enqueueing implements JobInterceptor {

        private final Jobs jobs;

        Enqueueing(Jobs jobs) {
            this.jobs = jobs;
        }

        @Override
        public Object intercept(JobContext job, Handler handler) throws Throwable {
            assertThat(jobs.find(job.id())).isPresent();
            return handler.proceed();
        }
    }

    @Test
    void listeners_and_interceptors_may_depend_on_jobs() {
        runner().withBean(Alerting.class).withBean(Enqueueing.class).run(context -> {
            ended(
                    context,
                    context.getBean(Jobs.class).enqueueNamed("fail", null).id());
            await().until(() -> CALLS.contains("work"));
        });
    }

    static class Failing implements JobListener {
        @Override
        public void beforeAttempt(JobContext job) {
            throw new IllegalStateException("listener");
        }

        @Override
        public void afterAttempt(JobContext job, JobAttemptOutcome outcome) {
            Failing.<RuntimeException>sneaky(new IOException("listener"));
        }

        @SuppressWarnings("unchecked")
        private static <E extends Throwable> void sneaky(Throwable failure) throws E {
            throw (E) failure;
        }
    }

    static class Blocking implements JobListener {

        private final CountDownLatch release = new CountDownLatch(1);

        @Override
        public void failedPermanently(UUID id, String job, JobStatus status, String error) {
            try {
                release.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    @Test
    void slow_listener_does_not_delay_reporting_threads() throws Exception {
        var blocking = new Blocking();
        var listeners = new JobListeners(() -> List.of(blocking));
        for (int i = 0; i < 1_100; i++) {
            listeners.failed(UUID.randomUUID(), "work", JobStatus.FAILED, "broken");
        }
        blocking.release.countDown();
        listeners.destroy();
        listeners.failed(UUID.randomUUID(), "work", JobStatus.FAILED, "after the end");
    }

    @Test
    void failing_listener_changes_nothing() {
        runner().withBean(Failing.class).withBean(First.class).run(context -> {
            JobInfo job = ended(
                    context,
                    context.getBean(Jobs.class).enqueueNamed("work", null).id());
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
            await().until(() -> CALLS.contains("first COMPLETED"));
        });
    }

    static class Events {

        private final List<ClusterEvent> published = new CopyOnWriteArrayList<>();

        @EventListener
        void published(JobStarted event) {
            published.add(event);
        }

        @EventListener
        void published(JobEnded event) {
            published.add(event);
        }

        @EventListener
        void published(JobFailed event) {
            published.add(event);
        }
    }

    @Test
    void permanent_failures_are_published_by_default() {
        runner().withBean(Events.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            List<ClusterEvent> published = context.getBean(Events.class).published;
            ended(context, jobs.enqueueNamed("work", null).id());
            UUID failed = jobs.enqueueNamed("fail", null).id();
            ended(context, failed);
            await().until(() -> !published.isEmpty());
            assertThat(published).singleElement().isInstanceOfSatisfying(JobFailed.class, event -> {
                assertThat(event.id()).isEqualTo(failed);
                assertThat(event.name()).isEqualTo("fail");
                assertThat(event.status()).isEqualTo(JobStatus.FAILED);
                assertThat(event.error()).contains("broken");
            });
        });
    }

    @Test
    void all_events_are_published_on_request() {
        runner().withPropertyValues("forge.cluster.job.events=all")
                .withBean(Events.class)
                .run(context -> {
                    List<ClusterEvent> published = context.getBean(Events.class).published;
                    UUID id = context.getBean(Jobs.class)
                            .enqueueNamed("work", null)
                            .id();
                    await().until(() -> published.size() == 2);
                    assertThat(published)
                            .containsExactly(
                                    new JobStarted(id, "work", 1),
                                    new JobEnded(
                                            id,
                                            "work",
                                            1,
                                            new JobAttemptOutcome(JobAttemptOutcome.Kind.COMPLETED, null)));
                });
    }

    @Test
    void no_events_are_published_if_they_are_switched_off() {
        runner().withPropertyValues("forge.cluster.job.events=none")
                .withBean(Events.class)
                .withBean(First.class)
                .run(context -> {
                    ended(
                            context,
                            context.getBean(Jobs.class)
                                    .enqueueNamed("fail", null)
                                    .id());
                    // Listeners are called in the same pass as events would be published.
                    await().until(() -> CALLS.stream().anyMatch(call -> call.contains("permanently")));
                    assertThat(context.getBean(Events.class).published).isEmpty();
                });
    }

    static class Flow {
        @ClusterWorkflow(version = "1")
        String flow(WorkflowContext wf) {
            return wf.step("step", String.class, () -> "done");
        }
    }

    @Test
    void interceptor_cannot_keep_a_workflow_from_recording_its_end() {
        runner().withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class))
                .withBean(Flow.class)
                .withBean(JobInterceptor.class, () -> (job, handler) -> {
                    handler.proceed();
                    return "another result";
                })
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("flow", null);
                    await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
                    assertThat(workflows.result(run, String.class)).hasValue("done");
                });
    }

    @Test
    void interceptor_that_fails_after_a_workflow_does_not_change_its_end() {
        runner().withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class))
                .withBean(Flow.class)
                .withBean(First.class)
                .withBean(JobInterceptor.class, () -> (job, handler) -> {
                    handler.proceed();
                    throw new IllegalStateException("too late");
                })
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("flow", null);
                    await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
                    await().until(() -> CALLS.contains("first COMPLETED"));
                });
    }

    @Test
    void interceptor_that_skips_a_workflow_does_not_complete_its_job() {
        runner().withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class))
                .withBean(Flow.class)
                .withBean(JobInterceptor.class, () -> (job, handler) -> job.attempt() == 1 ? null : handler.proceed())
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("flow", null);
                    await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
                    assertThat(workflows.result(run, String.class)).hasValue("done");
                });
    }
}
