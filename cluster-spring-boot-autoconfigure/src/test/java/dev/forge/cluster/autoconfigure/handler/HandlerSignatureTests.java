// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.job.Backoff;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Stream;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.transaction.annotation.Transactional;

/** Parameters and results of handlers, and signatures that fail the start. */
class HandlerSignatureTests extends AbstractHandlerTests {

    HandlerSignatureTests(TestDatabase database) {
        super(database);
    }

    static class TwoPayloads {
        @ClusterJob
        void impossible(String one, String two) {}
    }

    static class TwoContexts {
        @ClusterJob
        void impossible(JobContext one, JobContext two) {}
    }

    static class Private {
        @ClusterJob
        @SuppressWarnings("UnusedMethod")
        private void impossible() {}
    }

    static class Static {
        @ClusterJob
        static void impossible() {}
    }

    static class NoNumber {
        @ClusterJob(maxAttemptsString = "${attempts}")
        void impossible() {}
    }

    static class NoAttempt {
        @ClusterJob(maxAttemptsString = "0")
        void impossible() {}
    }

    static class NoPlaceholder {
        @ClusterJob(name = "${nobody.knows}")
        void impossible() {}
    }

    static class NoPriority {
        @ClusterJob(priorityString = "urgent")
        void impossible() {}
    }

    static class NoDuration {
        @ClusterJob(timeout = "soon")
        void impossible() {}
    }

    static class NoTime {
        @ClusterJob(timeout = "0s")
        void impossible() {}
    }

    static class NoRetention {
        @ClusterJob(retention = "-1d")
        void impossible() {}
    }

    static class NoMultiplier {
        @ClusterJob(backoff = @Backoff(multiplierString = "many"))
        void impossible() {}
    }

    static class NoJitter {
        @ClusterJob(backoff = @Backoff(jitter = 7))
        void impossible() {}
    }

    static class TwoLines {
        @ClusterJob(name = "send\nforged")
        void impossible() {}
    }

    static class Final {
        @ClusterJob
        @Transactional
        public final void impossible() {}
    }

    static class PackagePrivateFinal {
        @ClusterJob
        @Transactional
        final void impossible() {}
    }

    static Stream<Arguments> impossible() {
        return Stream.of(
                Arguments.of(Final.class, "it is final, but bean 'handlerSignatureTests.Final' is a CGLIB proxy"),
                Arguments.of(PackagePrivateFinal.class, "it is final, but bean"),
                Arguments.of(TwoPayloads.class, "java.lang.String"),
                Arguments.of(TwoContexts.class, "JobContext"),
                Arguments.of(Private.class, "private"),
                Arguments.of(Static.class, "static"),
                Arguments.of(NoNumber.class, "maxAttempts (abc)"),
                Arguments.of(NoAttempt.class, "maxAttempts (0)"),
                Arguments.of(NoPlaceholder.class, "nobody.knows"),
                Arguments.of(NoPriority.class, "priority (urgent)"),
                Arguments.of(NoDuration.class, "timeout (soon)"),
                Arguments.of(NoTime.class, "timeout (0s)"),
                Arguments.of(NoRetention.class, "retention (-1d)"),
                Arguments.of(NoMultiplier.class, "backoff.multiplier (many)"),
                Arguments.of(NoJitter.class, "backoff.jitter (7.0)"),
                Arguments.of(TwoLines.class, "name 'send?forged' holds a control character (U+000A at position 4)"));
    }

    @ParameterizedTest
    @MethodSource("impossible")
    void invalid_handler_fails_the_start_naming_its_method(Class<?> bean, String reason) {
        runner().withPropertyValues("attempts=abc")
                .withBean(bean)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining("@ClusterJob on " + bean.getName() + ".impossible")
                        .hasMessageContaining(reason));
    }

    static class FinalCron {
        @ClusterCron("0 0 1 1 *")
        @Transactional
        public final void impossible() {}
    }

    static class FinalDaemon {
        @ClusterDaemon
        final void impossible(DaemonContext daemon) {}

        @Transactional
        void other() {}
    }

    @ParameterizedTest
    @ValueSource(classes = {FinalCron.class, FinalDaemon.class})
    void final_method_of_a_proxied_cron_or_daemon_fails_the_start(Class<?> bean) {
        runner().withBean(bean)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining(" on " + bean.getName() + ".impossible: it is final, but bean"));
    }

    static class FinalWithoutProxy {
        private final String result = "done";

        @ClusterJob
        final String unproxied() {
            return result;
        }
    }

    static class LazyFinal {
        @ClusterJob(maxAttempts = 1)
        @Transactional
        public final void late() {}
    }

    @Test
    void final_method_runs_without_a_proxy_and_fails_with_a_reason_on_a_lazy_one() {
        runner().withBean(FinalWithoutProxy.class)
                .withBean(LazyFinal.class, LazyFinal::new, definition -> definition.setLazyInit(true))
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    assertThat(ended(
                                            context,
                                            jobs.enqueueNamed("unproxied", null).id())
                                    .result())
                            .isEqualTo("\"done\"");
                    assertThat(ended(context, jobs.enqueueNamed("late", null).id())
                                    .lastError())
                            .contains("it is final, but bean");
                });
    }

    interface Face {}

    static class Hidden implements Face {
        @ClusterJob
        void hidden() {}
    }

    @Configuration(proxyBeanMethods = false)
    static class LazyFaces {
        @Bean
        @Lazy
        Face lazyFace() {
            return new Hidden();
        }

        @Bean
        Face eagerFace() {
            return new Face() {};
        }

        @Bean
        @Lazy
        HandlerDiscoveryTests.Named lazyClass() {
            return new HandlerDiscoveryTests.Named();
        }
    }

    @Test
    void lazy_bean_declared_as_an_interface_is_a_warning(CapturedOutput output) {
        runner().withPropertyValues("reports.job=report")
                .withUserConfiguration(LazyFaces.class)
                .run(context -> assertThat(context.getBean(JobHandlers.class).names())
                        .contains("process-order")
                        .doesNotContain("hidden"));
        assertThat(output.getAll())
                .contains("Lazy beans declared as interfaces: [lazyFace (" + Face.class.getName() + ")]. If");
    }

    record Unreadable(String name, Supplier<String> value) {}

    static final class WithoutGetter {
        final String value;

        WithoutGetter(String value) {
            this.value = value;
        }
    }

    static class Unreadables {
        @ClusterJob
        void takesUnreadable(Unreadable payload) {}

        @ClusterJob
        void takesWithoutGetter(WithoutGetter payload) {}
    }

    @Test
    void payload_that_can_be_written_but_not_read_is_refused() {
        runner().withBean(Unreadables.class).withBean(Signatures.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            for (Object payload : List.of(new Unreadable("x", () -> "y"), new WithoutGetter("x"))) {
                assertThatExceptionOfType(JobRejectedException.class)
                        .isThrownBy(() -> jobs.enqueue(payload))
                        .withMessageContaining(payload.getClass().getName())
                        .withMessageContaining("cannot be read as");
            }
            // Members that the type does not have are ignored.
            UUID id = database.jdbc()
                    .sql("SELECT forge_enqueue('payload-only', '{\"to\": \"world\", \"from\": \"SQL\"}')")
                    .query(UUID.class)
                    .single();
            assertThat(ended(context, id).result()).isEqualTo("\"world\"");
        });
    }

    record Parcel(List<Item> items) {}

    record Item(int weight) {}

    static class Parcels {
        @ClusterJob
        void send(Parcel parcel) {}
    }

    @Test
    void payload_that_cannot_be_read_is_refused_with_the_member() {
        runner().withBean(Parcels.class)
                .run(context -> assertThatExceptionOfType(JobRejectedException.class)
                        .isThrownBy(() -> context.getBean(Jobs.class)
                                .enqueueNamed(
                                        "send",
                                        Map.of("items", List.of(Map.of("weight", 1), Map.of("weight", "heavy")))))
                        .withMessageContaining("takes: items[1].weight: "));
    }

    static class StillScheduled {
        @ClusterCron("0 0 * * *")
        @Scheduled(fixedRate = 60_000)
        public void work() {}
    }

    static class StillLocked {
        @ClusterCron("0 0 * * *")
        @SchedulerLock(name = "work")
        public void work() {}
    }

    @ParameterizedTest
    @ValueSource(classes = {StillScheduled.class, StillLocked.class})
    void handler_that_another_scheduler_runs_or_skips_fails_the_start(Class<?> bean) {
        String annotation = bean == StillScheduled.class ? "@Scheduled" : "@SchedulerLock";
        runner().withBean(bean)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining(
                                "@ClusterCron on %s.work: the method is also %s", bean.getName(), annotation)
                        .satisfies(refusal -> assertThat(refusal.action()).startsWith("Remove " + annotation)));
    }

    record Greeting(String to) {}

    static class Signatures {
        @ClusterJob
        String contextFirst(JobContext job, Greeting greeting) {
            return job.name() + " " + greeting.to();
        }

        @ClusterJob
        String contextLast(Greeting greeting, JobContext job) {
            return job.name() + " " + greeting.to();
        }

        @ClusterJob
        String contextOnly(JobContext job) {
            return job.name();
        }

        @ClusterJob
        String payloadOnly(Greeting greeting) {
            return greeting.to();
        }

        @ClusterJob
        void nothing() {}

        @ClusterJob
        String generic(List<Greeting> greetings) {
            return greetings.get(1).to();
        }

        @ClusterJob
        int primitive(int number) {
            return number + 1;
        }

        @ClusterJob
        Map<String, Greeting> tree(Map<String, List<Greeting>> tree) {
            return Map.of("first", tree.get("all").get(0));
        }
    }

    @Test
    void payload_and_context_are_optional_and_in_any_order() {
        runner().withBean(Signatures.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            var world = new Greeting("world");
            var expected = Map.<String, List<Object>>of(
                    "context-first", List.of(world, "\"context-first world\""),
                    "context-last", List.of(world, "\"context-last world\""),
                    "context-only", List.of(world, "\"context-only\""),
                    "payload-only", List.of(world, "\"world\""),
                    "generic", List.of(List.of(new Greeting("you"), world), "\"world\""),
                    "primitive", List.of(41, "42"),
                    "tree", List.of(Map.of("all", List.of(world)), "{\"first\": {\"to\": \"world\"}}"));
            expected.forEach((name, example) -> {
                JobInfo job =
                        ended(context, jobs.enqueueNamed(name, example.get(0)).id());
                assertThat(job.result()).as(name + " " + job.lastError()).isEqualTo(example.get(1));
            });
            JobInfo nothing = ended(context, jobs.enqueueNamed("nothing", null).id());
            assertThat(nothing.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(nothing.result()).isNull();
        });
    }

    static class Outcomes {
        final AtomicInteger naps = new AtomicInteger();

        @ClusterJob
        Outcome decides(String how, JobContext job) {
            return switch (how) {
                case "complete" -> Outcome.complete("result");
                case "fail" -> Outcome.fail("told so");
                case "snooze" -> naps.incrementAndGet() < 3 ? Outcome.snooze(Duration.ofMillis(1)) : Outcome.complete();
                default -> job.attempt() < 3 ? Outcome.retryAfter(Duration.ofMillis(1), "not yet") : Outcome.complete();
            };
        }
    }

    @Test
    void outcome_decides_the_status_of_the_job() {
        runner().withBean(Outcomes.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            assertThat(ended(context, jobs.enqueue("complete").id()).result()).isEqualTo("\"result\"");
            JobInfo failed = ended(context, jobs.enqueue("fail").id());
            assertThat(failed.status()).isEqualTo(JobStatus.FAILED);
            assertThat(failed.lastError()).isEqualTo("told so");
            assertThat(failed.attempts()).isEqualTo(1);
            JobInfo snoozed = ended(context, jobs.enqueue("snooze").id());
            assertThat(snoozed.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(snoozed.attempts()).isEqualTo(1);
            JobInfo retried = ended(context, jobs.enqueue("retry").id());
            assertThat(retried.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(retried.attempts()).isEqualTo(3);
            assertThat(ended(
                                    context,
                                    jobs.enqueue("retry", JobOptions.defaults().withMaxAttempts(2))
                                            .id())
                            .status())
                    .isEqualTo(JobStatus.FAILED);
        });
    }
}
