// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.AsyncAnnotationBeanPostProcessor;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.transaction.annotation.Transactional;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Handlers whose work continues after they have returned: awaited where possible, rejected otherwise. */
@ClusterPostgres
class AsynchronousHandlerTests {

    private final TestDatabase database;

    AsynchronousHandlerTests(TestDatabase database) {
        this.database = database;
    }

    @Async
    @Retention(RetentionPolicy.RUNTIME)
    @interface Background {}

    static class AsyncJob {
        @Async
        @ClusterJob
        public void work() {}
    }

    @Async
    static class AsyncClass {
        @ClusterJob
        public void work() {}
    }

    static class AsyncByMetaAnnotation {
        @Background
        @ClusterJob
        public CompletableFuture<String> work() {
            return CompletableFuture.completedFuture("");
        }
    }

    /** An annotation that is asynchronous only because the application configures it. */
    @Retention(RetentionPolicy.RUNTIME)
    @interface InBackground {}

    @EnableAsync(annotation = InBackground.class)
    static class OwnAsyncAnnotation {
        @InBackground
        @ClusterJob
        public void work() {}
    }

    static class HandlerInBackground {
        @InBackground
        @ClusterJob
        public void work() {}
    }

    @EnableAsync(annotation = InBackground.class)
    @Configuration(proxyBeanMethods = false)
    static class AsyncConfiguration {}

    /** Registers the post-processor without {@code @EnableAsync}, as applications with several executors do. */
    @Configuration(proxyBeanMethods = false)
    static class OwnProcessor {
        @Bean
        static AsyncAnnotationBeanPostProcessor inBackground() {
            var processor = new AsyncAnnotationBeanPostProcessor();
            processor.setAsyncAnnotationType(InBackground.class);
            processor.setProxyTargetClass(true);
            return processor;
        }
    }

    @ParameterizedTest
    @CsvSource({
        "dev.forge.cluster.autoconfigure.handler.AsynchronousHandlerTests$AsyncConfiguration, its method is @",
        "dev.forge.cluster.autoconfigure.handler.AsynchronousHandlerTests$OwnProcessor, the proxy of bean"
    })
    void handler_that_the_application_makes_asynchronous_fails_the_start(Class<?> configuration, String reason) {
        TestApplications.whole(database)
                .withUserConfiguration(configuration)
                .withBean("handler", HandlerInBackground.class)
                .run(context -> {
                    assertThat(context).hasFailed();
                    assertThat(refusal(context.getStartupFailure()))
                            .hasMessageContaining("@ClusterJob on " + HandlerInBackground.class.getName() + ".work")
                            .hasMessageContaining(reason)
                            .satisfies(refusal -> assertThat(refusal.action()).contains("annotation"));
                });
    }

    static class AsyncCron {
        @Async
        @ClusterCron("0 0 * * *")
        public void work() {}
    }

    static class AsyncDaemon {
        @Async
        @ClusterDaemon
        public void work() {}
    }

    static class AsyncWorkflow {
        @Async
        @ClusterWorkflow(name = "work", version = "1")
        public void work(WorkflowContext wf) {}
    }

    static class TransactionalFuture {
        @Transactional
        @ClusterJob
        public CompletableFuture<String> work() {
            return new CompletableFuture<>();
        }
    }

    static class TransactionalMono {
        @Transactional
        @ClusterCron("0 0 * * *")
        public Mono<String> work() {
            return Mono.empty();
        }
    }

    static class DaemonWithFuture {
        @ClusterDaemon
        public CompletableFuture<Void> work() {
            return new CompletableFuture<>();
        }
    }

    static class WorkflowWithMono {
        @ClusterWorkflow(name = "work", version = "1")
        public Mono<String> work(WorkflowContext wf) {
            return Mono.empty();
        }
    }

    static Stream<Arguments> refused() {
        return Stream.of(
                Arguments.of(AsyncJob.class, "@ClusterJob", "its method is @Async"),
                Arguments.of(AsyncClass.class, "@ClusterJob", "its class is @Async"),
                Arguments.of(AsyncByMetaAnnotation.class, "@ClusterJob", "its method is @Async"),
                Arguments.of(
                        OwnAsyncAnnotation.class,
                        "@ClusterJob",
                        "its method is @AsynchronousHandlerTests.InBackground"),
                Arguments.of(AsyncCron.class, "@ClusterCron", "its method is @Async"),
                Arguments.of(AsyncDaemon.class, "@ClusterDaemon", "its method is @Async"),
                Arguments.of(AsyncWorkflow.class, "@ClusterWorkflow", "its method is @Async"),
                Arguments.of(TransactionalFuture.class, "@ClusterJob", "it returns java.util.concurrent"),
                Arguments.of(TransactionalMono.class, "@ClusterCron", "it returns reactor.core.publisher.Mono"),
                Arguments.of(DaemonWithFuture.class, "@ClusterDaemon", "it returns java.util.concurrent"),
                Arguments.of(WorkflowWithMono.class, "@ClusterWorkflow", "it returns reactor.core.publisher.Mono"));
    }

    @ParameterizedTest
    @MethodSource("refused")
    void handler_that_cannot_be_awaited_fails_the_start(Class<?> bean, String annotation, String reason) {
        ApplicationContextRunner runner = TestApplications.whole(database)
                .withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class))
                .withBean(bean);
        runner.run(context -> {
            assertThat(context).hasFailed();
            assertThat(refusal(context.getStartupFailure()))
                    .hasMessageContaining(annotation + " on " + bean.getName() + ".work")
                    .hasMessageContaining(reason)
                    .satisfies(refusal -> assertThat(refusal.action()).isNotBlank());
        });
    }

    static class Reactive {
        final AtomicBoolean cancelled = new AtomicBoolean();

        @ClusterJob
        Mono<String> mono() {
            return Mono.fromSupplier(() -> "value");
        }

        @ClusterJob
        Mono<Void> nothing() {
            return Mono.empty();
        }

        @ClusterJob
        Flux<Integer> flux() {
            return Flux.range(1, 3);
        }

        @ClusterJob(maxAttempts = 1)
        Flux<Integer> endless() {
            return Flux.range(0, Integer.MAX_VALUE);
        }

        @ClusterJob(maxAttempts = 1)
        Mono<String> failing() {
            return Mono.error(new IllegalStateException("mail server is down"));
        }

        @ClusterJob(maxAttempts = 1, timeout = "200ms")
        Mono<String> never() {
            return Mono.<String>never().doOnCancel(() -> cancelled.set(true));
        }
    }

    @Test
    void reactive_results_are_awaited() {
        TestApplications.whole(database).withBean(Reactive.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            assertThat(ended(context, jobs.enqueueNamed("mono", null).id()).result())
                    .isEqualTo("\"value\"");
            assertThat(ended(context, jobs.enqueueNamed("nothing", null).id()).status())
                    .isEqualTo(JobStatus.COMPLETED);
            assertThat(ended(context, jobs.enqueueNamed("flux", null).id()).result())
                    .isEqualTo("[1, 2, 3]");
            JobInfo endless = ended(context, jobs.enqueueNamed("endless", null).id());
            assertThat(endless.status()).isEqualTo(JobStatus.FAILED);
            assertThat(endless.lastError()).contains("more than 100000 values");
            assertThat(ended(context, jobs.enqueueNamed("failing", null).id()).lastError())
                    .startsWith("java.lang.IllegalStateException: mail server is down");
            assertThat(ended(context, jobs.enqueueNamed("never", null).id()).lastError())
                    .contains("200 ms");
            await().untilTrue(context.getBean(Reactive.class).cancelled);
        });
    }
}
