// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.mockito.Mockito.mock;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.job.JobSlots;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.job.Backoff;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import jakarta.persistence.EntityManagerFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Stream;
import javax.sql.DataSource;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.aop.support.AopUtils;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.context.PropertyPlaceholderAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcClientAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcTemplateAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.boot.transaction.autoconfigure.TransactionAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Handlers on all kinds of beans, in real applications on a real database. */
@ClusterPostgres
@ExtendWith(OutputCaptureExtension.class)
class HandlerDiscoveryTests {

    private final TestDatabase database;

    HandlerDiscoveryTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.jdbc().sql("DELETE FROM forge_jobs").update();
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withPropertyValues("forge.cluster.job.backoff.delay=1ms", "forge.cluster.job.backoff.max-delay=1ms")
                .withConfiguration(AutoConfigurations.of(
                        PropertyPlaceholderAutoConfiguration.class,
                        DataSourceTransactionManagerAutoConfiguration.class,
                        TransactionAutoConfiguration.class,
                        JdbcTemplateAutoConfiguration.class,
                        JdbcClientAutoConfiguration.class));
    }

    // Names -------------------------------------------------------------------------------------------------

    static class Named {
        @ClusterJob
        void processOrder() {}

        @ClusterJob(
                name = "${reports.job}",
                aliases = {"former", "${reports.alias:}x"})
        String report() {
            return "reported";
        }
    }

    @Test
    void name_comes_from_the_method_or_a_placeholder_and_aliases_run_too() {
        runner().withPropertyValues("reports.job=daily-report")
                .withBean(Named.class)
                .run(context -> {
                    assertThat(context.getBean(JobHandlers.class).names())
                            .containsExactly("daily-report", "former", "process-order", "x");
                    assertThat(database.jdbc()
                                    .sql("SELECT handlers FROM forge_nodes")
                                    .query((row, n) ->
                                            List.of((String[]) row.getArray(1).getArray()))
                                    .single())
                            .containsExactlyInAnyOrder("daily-report", "former", "process-order", "x");
                    UUID renamed = database.jdbc()
                            .sql("SELECT forge_enqueue('former')")
                            .query(UUID.class)
                            .single();
                    assertThat(ended(context, renamed).result()).isEqualTo("\"reported\"");
                });
    }

    @ParameterizedTest
    @CsvSource({
        "processOrder, process-order",
        "importXMLFile, import-xml-file",
        "sendSMS, send-sms",
        "parseURLs, parse-urls",
        "parseURLsOfPage, parse-urls-of-page",
        "URLs, urls",
        "XMLSync, xml-sync",
        "toX, to-x",
        "aB, a-b",
        "export2PDF, export2-pdf",
        "already_snake, already_snake",
        "x, x"
    })
    void method_name_becomes_a_kebab_case_job_name(String method, String name) {
        assertThat(AttributeReader.kebab(method)).isEqualTo(name);
    }

    static class Rival {
        @ClusterJob(name = "process-order")
        void other() {}
    }

    static class AliasRival {
        @ClusterJob(aliases = "process-order")
        void another() {}
    }

    @Test
    void two_handlers_of_one_name_fail_the_start_naming_both() {
        for (Class<?> rival : List.of(Rival.class, AliasRival.class)) {
            runner().withPropertyValues("reports.job=r")
                    .withBean(Named.class)
                    .withBean(rival)
                    .run(context -> assertThat(refusal(context.getStartupFailure()))
                            .hasMessageContaining("'process-order'")
                            .hasMessageContaining(Named.class.getName() + ".processOrder")
                            .hasMessageContaining(rival.getName()));
        }
    }

    // Signatures --------------------------------------------------------------------------------------------

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
                Arguments.of(Final.class, "it is final, but bean 'handlerDiscoveryTests.Final' is a CGLIB proxy"),
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
        Named lazyClass() {
            return new Named();
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
    void payload_and_context_come_in_any_order_and_neither_must() {
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

    // Kinds of beans ----------------------------------------------------------------------------------------

    interface Ledger {
        boolean book(String entry);
    }

    static class JdkProxied implements Ledger {
        @Override
        @ClusterJob
        @Transactional
        public boolean book(String entry) {
            return TransactionSynchronizationManager.isActualTransactionActive();
        }
    }

    @Test
    void bean_behind_a_jdk_proxy_runs_in_its_transaction() {
        runner().withPropertyValues("spring.aop.proxy-target-class=false")
                .withBean("ledger", Ledger.class, JdkProxied::new)
                .run(context -> {
                    assertThat(AopUtils.isJdkDynamicProxy(context.getBean(Ledger.class)))
                            .isTrue();
                    assertThat(ended(
                                            context,
                                            context.getBean(Jobs.class)
                                                    .enqueueNamed("book", "entry")
                                                    .id())
                                    .result())
                            .isEqualTo("true");
                });
    }

    public interface Declared {
        @ClusterJob
        @Transactional
        String declaredOnTheInterface(String text);
    }

    static class Implementing implements Declared {
        @Override
        public String declaredOnTheInterface(String text) {
            return text + TransactionSynchronizationManager.isActualTransactionActive();
        }
    }

    @Test
    void annotation_may_be_on_the_interface() {
        runner().withPropertyValues("spring.aop.proxy-target-class=false")
                .withBean("declared", Declared.class, Implementing::new)
                .run(context -> assertThat(ended(
                                        context,
                                        context.getBean(Jobs.class)
                                                .enqueueNamed("declared-on-the-interface", "it ")
                                                .id())
                                .result())
                        .isEqualTo("\"it true\""));
    }

    @Test
    void transactional_bean_behind_cglib_commits_with_its_job_and_rolls_back_with_its_failure() {
        database.jdbc().sql("CREATE TABLE IF NOT EXISTS entries (entry text)").update();
        runner().withBean(Entries.class).run(context -> {
            assertThat(AopUtils.isCglibProxy(context.getBean(Entries.class))).isTrue();
            JobInfo job = ended(
                    context,
                    context.getBean(Jobs.class).enqueueNamed("enter", "entry").id());
            assertThat(job.status()).as(job.lastError()).isEqualTo(JobStatus.COMPLETED);
            assertThat(job.attempts()).isEqualTo(2);
            assertThat(database.jdbc()
                            .sql("SELECT entry FROM entries")
                            .query(String.class)
                            .list())
                    .containsExactly("entry 2");
        });
        database.jdbc().sql("DROP TABLE entries").update();
    }

    static class Entries {
        private final JdbcClient jdbc;

        Entries(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob
        @Transactional
        void enter(String entry, JobContext job) {
            jdbc.sql("INSERT INTO entries VALUES (?)")
                    .param(entry + " " + job.attempt())
                    .update();
            if (job.attempt() == 1) {
                throw new IllegalStateException("rolls back");
            }
        }
    }

    static class Apart {
        @ClusterJob
        @Transactional(propagation = Propagation.REQUIRES_NEW)
        void requiresNew() {}

        @ClusterJob
        @Transactional(propagation = Propagation.NOT_SUPPORTED)
        void notSupported() {}

        @ClusterJob
        @Transactional(propagation = Propagation.NEVER)
        void never() {}

        @ClusterJob
        @Transactional(propagation = Propagation.SUPPORTS)
        void supports() {}

        @ClusterJob
        @Transactional(propagation = Propagation.MANDATORY)
        void mandatory() {}
    }

    @Test
    void transaction_that_cannot_complete_the_job_is_a_warning(CapturedOutput output) {
        runner().withBean(Apart.class).run(context -> {
            assertThat(output.getAll())
                    .contains(Apart.class.getName() + ".requiresNew runs at least once")
                    .contains("propagation = REQUIRES_NEW")
                    .contains(".notSupported runs at least once")
                    .contains(".never runs at least once")
                    .contains(".supports runs at least once")
                    .doesNotContain(".mandatory runs");
            JobInfo job = ended(
                    context,
                    context.getBean(Jobs.class)
                            .enqueueNamed("requires-new", null)
                            .id());
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        });
    }

    static class ElsewhereUnnamed {
        @ClusterJob
        @Transactional
        void book() {}
    }

    static class ElsewhereNamed {
        @ClusterJob
        @Transactional("elsewhere")
        void book() {}
    }

    static class Here {
        @ClusterJob
        @Transactional("here")
        String book() {
            return "booked";
        }
    }

    static Stream<PlatformTransactionManager> foreign() {
        var jpa = new JpaTransactionManager(mock(EntityManagerFactory.class));
        jpa.setDataSource(new SimpleDriverDataSource());
        return Stream.of(new JdbcTransactionManager(new SimpleDriverDataSource()), jpa);
    }

    @ParameterizedTest
    @MethodSource("foreign")
    void handler_with_transactions_of_another_database_fails_the_start(PlatformTransactionManager elsewhere) {
        for (Class<?> handler : List.of(ElsewhereUnnamed.class, ElsewhereNamed.class)) {
            runner().withBean("elsewhere", PlatformTransactionManager.class, () -> elsewhere)
                    .withBean(handler)
                    .run(context -> assertThat(refusal(context.getStartupFailure()))
                            .hasMessageContaining(handler.getName() + ".book")
                            .extracting(ClusterStartupException::action)
                            .asString()
                            .contains("@Transactional(\"...\")"));
        }
    }

    @ParameterizedTest
    @MethodSource("foreign")
    void handler_may_name_the_matching_transaction_manager(PlatformTransactionManager elsewhere) {
        runner().withBean("elsewhere", PlatformTransactionManager.class, () -> elsewhere)
                .withUserConfiguration(OwnManager.class)
                .withBean(Here.class)
                .run(context -> assertThat(ended(
                                        context,
                                        context.getBean(Jobs.class)
                                                .enqueueNamed("book", null)
                                                .id())
                                .result())
                        .isEqualTo("\"booked\""));
    }

    @Configuration(proxyBeanMethods = false)
    static class OwnManager {
        @Bean
        JdbcTransactionManager here(DataSource source) {
            return new JdbcTransactionManager(source);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class LazyConfiguration {
        static final List<String> CREATED = new CopyOnWriteArrayList<>();

        @Bean
        @Lazy
        LazyBean lazyBean() {
            CREATED.add("lazy");
            return new LazyBean();
        }
    }

    static class LazyBean {
        @ClusterJob
        String wakes() {
            return "awake";
        }
    }

    @Test
    void lazy_bean_is_created_by_its_first_job() {
        LazyConfiguration.CREATED.clear();
        runner().withUserConfiguration(LazyConfiguration.class).run(context -> {
            assertThat(context.getBean(JobHandlers.class).names()).contains("wakes");
            assertThat(LazyConfiguration.CREATED).isEmpty();
            assertThat(ended(
                                    context,
                                    context.getBean(Jobs.class)
                                            .enqueueNamed("wakes", null)
                                            .id())
                            .result())
                    .isEqualTo("\"awake\"");
            assertThat(LazyConfiguration.CREATED).containsExactly("lazy");
        });
    }

    static class Generic<T> {
        @ClusterJob
        String inherited(T payload) {
            return payload.getClass().getSimpleName();
        }
    }

    static class Greetings extends Generic<Greeting> {}

    @Test
    void handler_inherited_from_a_generic_class_takes_the_type_of_the_subclass() {
        runner().withBean(Greetings.class)
                .run(context -> assertThat(ended(
                                        context,
                                        context.getBean(Jobs.class)
                                                .enqueue(new Greeting("x"))
                                                .id())
                                .result())
                        .isEqualTo("\"Greeting\""));
    }

    // Typed enqueueing --------------------------------------------------------------------------------------

    @JobName("elsewhere")
    record Foreign(String text) {}

    record Stranger(String text) {}

    @Test
    void payload_with_a_job_name_needs_no_handler_here_and_one_without_is_refused() {
        runner().withBean(Signatures.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            JobInfo job = jobs.find(jobs.enqueue(new Foreign("x")).id()).orElseThrow();
            assertThat(job.name()).isEqualTo("elsewhere");
            assertThat(job.status()).isEqualTo(JobStatus.PENDING);
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueue(new Stranger("x")))
                    .withMessageContaining(Stranger.class.getName())
                    .withMessageContaining(Greeting.class.getName());
            // Three handlers take it.
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueue(new Greeting("x")))
                    .withMessageContaining("enqueueNamed");
        });
    }

    // The pool ----------------------------------------------------------------------------------------------

    record Latches(CountDownLatch begun, CountDownLatch end) {}

    static class Patient {
        private final Latches latches;

        Patient(Latches latches) {
            this.latches = latches;
        }

        @ClusterJob
        @Transactional
        public void wait(Integer number) throws InterruptedException {
            latches.begun.countDown();
            latches.end.await();
        }
    }

    @Test
    void transactional_jobs_leave_connections_to_the_application(CapturedOutput output) {
        var latches = new Latches(new CountDownLatch(3), new CountDownLatch(1));
        runner().withBean(Latches.class, () -> latches)
                .withBean(Patient.class)
                .withPropertyValues(
                        "spring.datasource.hikari.maximum-pool-size=5",
                        "spring.datasource.hikari.connection-timeout=2000",
                        "spring.datasource.hikari.pool-name=small")
                .run(context -> {
                    List<UUID> ids = context.getBean(Jobs.class).enqueueAll(List.of(1, 2, 3, 4, 5, 6)).stream()
                            .map(EnqueuedJob::id)
                            .toList();
                    latches.begun.await();
                    assertThat(context.getBean(HikariDataSource.class)
                                    .getHikariPoolMXBean()
                                    .getActiveConnections())
                            .isEqualTo(3);
                    assertThat(context.getBean(JdbcClient.class)
                                    .sql("SELECT count(*) FROM forge_jobs WHERE status = 'running'")
                                    .query(Integer.class)
                                    .single())
                            .isEqualTo(3);
                    latches.end.countDown();
                    ids.forEach(id -> assertThat(ended(context, id).status()).isEqualTo(JobStatus.COMPLETED));
                });
        assertThat(output.getAll()).doesNotContain("may hold");
    }

    @Test
    void settings_that_may_use_all_connections_are_a_warning(CapturedOutput output) {
        database.jdbc().sql("CREATE TABLE IF NOT EXISTS entries (entry text)").update();
        runner().withBean(Entries.class)
                .withPropertyValues(
                        "spring.datasource.hikari.pool-name=small", "forge.cluster.worker.max-concurrent-jobs=10")
                .run(context -> assertThat(output.getAll())
                        .contains("may hold 10 connections", "'small' has 10", "maximum-pool-size to 15"));
        int before = output.getAll().length();
        runner().withBean(Entries.class)
                .withBean(Signatures.class)
                .withPropertyValues(
                        "forge.cluster.worker.executors.narrow.max-concurrent-jobs=4",
                        "forge.cluster.worker.routing[0].pattern=enter",
                        "forge.cluster.worker.routing[0].executor=narrow")
                .run(context -> {
                    assertThat(context.getBean(JobSlots.class).jobs()).isEqualTo(10);
                    assertThat(output.getAll().substring(before)).doesNotContain("may hold");
                });
        runner().withBean(Entries.class)
                .withPropertyValues(
                        "spring.datasource.hikari.maximum-pool-size=2", "forge.cluster.node.roles=scheduler")
                .run(context -> assertThat(output.getAll().substring(before)).doesNotContain("may hold"));
        database.jdbc().sql("DROP TABLE entries").update();
    }
}
