// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.cron;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.EndpointClient;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.slf4j.MDC;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Crons on beans of real applications: valid and rejected declarations, runs, and the endpoint for operators. */
@ClusterPostgres
class CronDiscoveryTests {

    private final TestDatabase database;

    CronDiscoveryTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        List.of("forge_jobs", "forge_crons", "forge_cron_runs", "forge_cron_sets", "forge_cron_memories")
                .forEach(table -> database.jdbc().sql("DELETE FROM " + table).update());
    }

    private ApplicationContextRunner runner() {
        return TestApplications.whole(database);
    }

    private static CronInfo awaitCron(ApplicationContext context, String name) {
        Crons crons = context.getBean(Crons.class);
        await().until(() -> crons.find(name).isPresent());
        return crons.find(name).orElseThrow();
    }

    // Declarations ------------------------------------------------------------------------------------------

    public static class Declared {

        @ClusterCron("0 3 * * *")
        void nightlyReport() {}

        @ClusterCron(
                name = "${poll.name}",
                every = "${poll.every}",
                target = CronTarget.ANY_WORKER,
                capability = "gpu",
                misfire = Misfire.CATCH_UP,
                catchUpLimitString = "${poll.limit}",
                overlap = Overlap.ALLOW,
                jitter = "5s",
                maxAttempts = 2,
                timeout = "1m")
        void poll(CronContext cron) {}

        @ClusterCron(value = "0 0 6 * * MON-FRI", zone = "Europe/Berlin")
        void officeHours() {}

        @ClusterCron("${not.here:-}")
        void disabled() {}
    }

    @Test
    void cron_is_in_the_table_as_it_was_declared() {
        runner().withPropertyValues("poll.name=poll-partner", "poll.every=30s", "poll.limit=7")
                .withBean(Declared.class)
                .run(context -> {
                    CronInfo nightly = awaitCron(context, "nightly-report");
                    assertThat(nightly.expression()).isEqualTo("0 3 * * *");
                    assertThat(nightly.zone()).isEqualTo("UTC");
                    assertThat(nightly.target()).isEqualTo(CronTarget.LEADER);
                    assertThat(nightly.misfire()).isEqualTo(Misfire.FIRE_ONCE);
                    assertThat(nightly.overlap()).isEqualTo(Overlap.SKIP);
                    assertThat(nightly.catchUpLimit()).isEqualTo(10);
                    assertThat(nightly.next()).isNotNull().isAfter(Instant.EPOCH);
                    CronInfo poll = awaitCron(context, "poll-partner");
                    assertThat(poll.expression()).isEqualTo("@every PT30S");
                    assertThat(poll.target()).isEqualTo(CronTarget.ANY_WORKER);
                    assertThat(poll.capability()).isEqualTo("gpu");
                    assertThat(poll.misfire()).isEqualTo(Misfire.CATCH_UP);
                    assertThat(poll.catchUpLimit()).isEqualTo(7);
                    assertThat(poll.overlap()).isEqualTo(Overlap.ALLOW);
                    assertThat(poll.jitter()).isEqualTo(Duration.ofSeconds(5));
                    assertThat(awaitCron(context, "office-hours").zone()).isEqualTo("Europe/Berlin");
                    assertThat(awaitCron(context, "disabled").next()).isNull();
                });
    }

    @Test
    void cron_attributes_default_to_properties() {
        runner().withPropertyValues(
                        "poll.name=poll",
                        "poll.every=30s",
                        "poll.limit=7",
                        "forge.cluster.cron.zone=Asia/Tokyo",
                        "forge.cluster.cron.misfire=skip",
                        "forge.cluster.cron.catch-up-limit=3")
                .withBean(Declared.class)
                .run(context -> {
                    CronInfo nightly = awaitCron(context, "nightly-report");
                    assertThat(nightly.zone()).isEqualTo("Asia/Tokyo");
                    assertThat(nightly.misfire()).isEqualTo(Misfire.SKIP);
                    assertThat(nightly.catchUpLimit()).isEqualTo(3);
                });
    }

    static class BadExpression {
        @ClusterCron("61 * * * *")
        void bad() {}
    }

    static class NeverFires {
        @ClusterCron("0 0 30 2 *")
        void bad() {}
    }

    static class BadZone {
        @ClusterCron(value = "@daily", zone = "Mars/Olympus")
        void bad() {}
    }

    static class Neither {
        @ClusterCron
        void bad() {}
    }

    static class Both {
        @ClusterCron(value = "@daily", every = "1h")
        void bad() {}
    }

    static class BadInterval {
        @ClusterCron(every = "often")
        void bad() {}
    }

    static class TooOften {
        @ClusterCron(every = "100ms")
        void bad() {}
    }

    static class BadParameter {
        @ClusterCron("@daily")
        void bad(String what) {}
    }

    static class Private {
        @SuppressWarnings("UnusedMethod")
        @ClusterCron("@daily")
        private void bad() {}
    }

    static class LeaderWithCapability {
        @ClusterCron(value = "@daily", capability = "gpu")
        void bad() {}
    }

    static class BadLimit {
        @ClusterCron(value = "@daily", catchUpLimitString = "0")
        void bad() {}
    }

    static class LikeAJob {
        @ClusterJob
        void bad() {}

        @ClusterCron(value = "@daily", name = "bad")
        void other() {}
    }

    static Stream<Arguments> refused() {
        return Stream.of(
                Arguments.of(BadExpression.class, "61 * * * *"),
                Arguments.of(NeverFires.class, "'0 0 30 2 *' never fires"),
                Arguments.of(BadZone.class, "'Mars/Olympus' is not a time zone"),
                Arguments.of(Neither.class, "either an expression or an interval"),
                Arguments.of(Both.class, "either an expression or an interval"),
                Arguments.of(BadInterval.class, "every (often)"),
                Arguments.of(TooOften.class, "whole seconds"),
                Arguments.of(BadParameter.class, "class java.lang.String"),
                Arguments.of(Private.class, "private"),
                Arguments.of(LeaderWithCapability.class, "capability (gpu)"),
                Arguments.of(BadLimit.class, "catchUpLimit (0): must be at least 1"),
                Arguments.of(LikeAJob.class, "Two handlers have the name 'bad'"));
    }

    @ParameterizedTest
    @MethodSource
    void refused(Class<?> bean, String why) {
        runner().withBean(bean)
                .run(context -> assertThat(context).getFailure().satisfies(failure -> {
                    ClusterStartupException refusal = TestApplications.refusal(failure);
                    assertThat(refusal).hasMessageContaining(why).hasMessageContaining(bean.getName() + ".");
                    assertThat(refusal.action()).isNotBlank();
                }));
    }

    // Running -----------------------------------------------------------------------------------------------

    /** Records runs. A separate bean, because the handlers are behind a proxy. */
    static class Diary {
        final List<CronContext> runs = new CopyOnWriteArrayList<>();
        final List<@Nullable String> logged = new CopyOnWriteArrayList<>();
        final CountDownLatch blocked = new CountDownLatch(1);
    }

    static class EverySecond {
        private final Diary diary;

        EverySecond(Diary diary) {
            this.diary = diary;
        }

        @ClusterCron(every = "1s")
        @Transactional
        public void tick(CronContext cron) {
            assertThat(TransactionSynchronizationManager.isActualTransactionActive())
                    .isTrue();
            diary.logged.add(MDC.get("forge.cron.name"));
            cron.fenced(() -> diary.runs.add(cron));
        }

        @ClusterCron("@yearly")
        void waits() throws InterruptedException {
            diary.blocked.await();
        }
    }

    @Test
    void run_knows_its_slot_and_the_previous_one() {
        runner().withBean(Diary.class).withBean(EverySecond.class).run(context -> {
            Diary beans = context.getBean(Diary.class);
            // A machine that paused may have lost a term, and with it an attempt.
            await().until(() -> indexAfterItsPrevious(beans.runs).isPresent());
            CronContext second =
                    beans.runs.get(indexAfterItsPrevious(beans.runs).getAsInt());
            assertThat(second.name()).isEqualTo("tick");
            assertThat(second.slot()).isEqualTo(second.slot().truncatedTo(ChronoUnit.SECONDS));
            assertThat(second.firedAt()).isAfterOrEqualTo(second.slot());
            assertThat(second.term()).isPositive();
            assertThat(beans.logged).contains("tick");
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            await().until(() -> meters.get("forge.cluster.cron.fires")
                            .tags("cron", "tick", "result", "RAN")
                            .counter()
                            .count()
                    >= 3);
        });
    }

    /** Returns the index of a first attempt whose previous slot is that of the run before it. */
    private static OptionalInt indexAfterItsPrevious(List<CronContext> runs) {
        return IntStream.range(1, runs.size())
                .filter(i -> runs.get(i).attempt() == 1
                        && runs.get(i)
                                .previousSlot()
                                .equals(Optional.of(runs.get(i - 1).slot())))
                .findFirst();
    }

    @Test
    void crons_are_not_enqueued_but_triggered() {
        runner().withBean(Diary.class).withBean(EverySecond.class).run(context -> {
            awaitCron(context, "waits");
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> context.getBean(Jobs.class).enqueueNamed("waits", null))
                    .withMessageContaining("Crons.trigger");
            Crons crons = context.getBean(Crons.class);
            UUID job = crons.trigger("waits").orElseThrow();
            await().until(() ->
                    context.getBean(Jobs.class).find(job).orElseThrow().startedAt() != null);
            assertThat(crons.trigger("waits")).isEmpty();
            context.getBean(Diary.class).blocked.countDown();
            await().until(() ->
                    context.getBean(Jobs.class).find(job).orElseThrow().status().isFinal());
            assertThat(crons.runs("waits", 10).items())
                    .extracting(CronRun::outcome)
                    .containsExactly(CronRun.Outcome.SKIPPED, CronRun.Outcome.RAN);
            assertThatExceptionOfType(CronRejectedException.class)
                    .isThrownBy(() -> crons.trigger("nobody"))
                    .withMessageContaining("Unknown cron 'nobody'");
        });
    }

    // Operators ---------------------------------------------------------------------------------------------

    @Test
    void operator_lists_pauses_resumes_and_triggers_crons() {
        runner().withBean(Diary.class).withBean(EverySecond.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            Crons crons = context.getBean(Crons.class);
            awaitCron(context, "waits");
            crons.create(CronDefinition.cron("nightly", "0 3 * * *").withHandler("waits"));
            await().until(() -> crons.find("tick")
                    .map(CronInfo::lastRun)
                    .map(run -> run.outcome() == CronRun.Outcome.RAN)
                    .orElse(false));
            EndpointClient.Response all = client.get("crons");
            assertThat(all.list("cron")).hasSize(2);
            assertThat(all.at("fixedRate", 0, "interval")).isEqualTo(1000);
            assertThat(all.at("fixedRate", 0, "nextExecution", "time")).isNotNull();
            assertThat(all.at("fixedRate", 0, "lastExecution", "outcome")).isEqualTo("ran");

            assertThat(client.post("paused", "crons", "tick").at("state")).isEqualTo("paused");
            assertThat(crons.find("tick").orElseThrow().paused()).isTrue();
            // A slow run also causes skipped slots, with another reason.
            await().untilAsserted(() -> {
                CronRun last = crons.runs("tick", 1).items().get(0);
                assertThat(last.outcome()).isEqualTo(CronRun.Outcome.SKIPPED);
                assertThat(last.reason()).isEqualTo("paused");
            });
            // The last run may not have begun yet.
            await().untilAsserted(() -> {
                EndpointClient.Response paused = client.get("crons", "tick");
                assertThat(paused.at("lastExecution", "outcome")).isEqualTo("ran");
                assertThat(paused.at("lastExecution", "attempt")).isEqualTo(1);
                assertThat(paused.at("lastSlot", "reason")).isEqualTo("paused");
            });
            assertThat(client.post("running", "crons", "tick").at("state")).isEqualTo("running");
            // Resuming is idempotent.
            assertThat(client.post("running", "crons", "tick").at("state")).isEqualTo("running");
            assertThat(crons.find("tick").orElseThrow().paused()).isFalse();
            assertThat(client.post("stopped", "crons", "tick").error(400)).contains("'running' or 'triggered'");
            assertThat(client.post("triggered", "crons", "waits").at("job")).isNotNull();
            assertThat(client.post("triggered", "crons", "waits").error(400))
                    .isEqualTo("Cron 'waits' was not triggered: its previous run has not finished");
            for (String state : List.of("paused", "running", "triggered", "flying")) {
                assertThat(client.post(state, "crons", "nobody").error(404)).contains("crons/nobody");
            }
            assertThat(client.get("crons", "waits").list("runs")).hasSize(2);
            context.getBean(Diary.class).blocked.countDown();
        });
    }
}
