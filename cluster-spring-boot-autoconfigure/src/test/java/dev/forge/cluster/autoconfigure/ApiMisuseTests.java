// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.autoconfigure.ratelimit.RateLimitAutoConfiguration;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.leader.LeaderRole;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.node.ClusterNodes;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimited;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.startup.StartupCoordinator;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowOperations;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.Workflows;
import jakarta.annotation.PostConstruct;
import java.time.Duration;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.BeanFactoryAware;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.context.PropertyPlaceholderAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcClientAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcTemplateAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.transaction.autoconfigure.TransactionAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.ContextRefreshedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.TransactionManagementConfigurer;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionTemplate;

/** Verifies that invalid calls in real applications are rejected at once, with the reason and the next step. */
@ClusterPostgres
class ApiMisuseTests {

    private final TestDatabase database;

    ApiMisuseTests(TestDatabase database) {
        this.database = database;
    }

    @BeforeEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withConfiguration(AutoConfigurations.of(
                        PropertyPlaceholderAutoConfiguration.class,
                        DataSourceTransactionManagerAutoConfiguration.class,
                        TransactionAutoConfiguration.class,
                        JdbcTemplateAutoConfiguration.class,
                        JdbcClientAutoConfiguration.class,
                        WorkflowAutoConfiguration.class,
                        RateLimitAutoConfiguration.class));
    }

    // Handlers ----------------------------------------------------------------------------------------------

    record Order(String item) {}

    record Box<T>(T content) {}

    record Pair<A, B>(A left, B right) {}

    static class DateList extends ArrayList<LocalDate> {}

    static class Handlers {

        @ClusterJob(priority = JobPriority.HIGH, capability = "general")
        String order(Order order) {
            return order.item();
        }

        @ClusterJob
        int boxedDate(Box<LocalDate> box) {
            return box.content().getYear();
        }

        @ClusterJob
        int dates(List<LocalDate> dates) {
            return dates.get(0).getYear();
        }

        @ClusterJob
        void textPair(Pair<String, String> pair) {}

        @ClusterJob
        void numberPair(Pair<Integer, Integer> pair) {}

        @ClusterJob
        String text(String text) {
            return text;
        }

        @ClusterCron("-")
        void nightly() {}

        @ClusterWorkflow
        String checkout(WorkflowContext workflow, Order order) {
            return order.item();
        }
    }

    // Too early ---------------------------------------------------------------------------------------------

    interface Call extends BiConsumer<String, BeanFactory> {}

    static Stream<Arguments> calls() {
        Map<String, Call> calls = new LinkedHashMap<>();
        calls.put("Jobs.enqueue", (key, beans) -> beans.getBean(Jobs.class).enqueue(new Order(key)));
        calls.put("Jobs.enqueueNamed", (key, beans) -> beans.getBean(Jobs.class).enqueueNamed("order", new Order(key)));
        calls.put("Jobs.enqueueAll", (key, beans) -> beans.getBean(Jobs.class).enqueueAll(List.of(new Order(key))));
        calls.put(
                "Crons.create",
                (key, beans) -> beans.getBean(Crons.class)
                        .create(CronDefinition.cron(key, "0 3 * * *")
                                .withHandler("order")
                                .withPayload(new Order(key))));
        calls.put(
                "Workflows.start",
                (key, beans) -> beans.getBean(Workflows.class).start("checkout", new Order(key)));
        return calls.entrySet().stream().map(call -> Arguments.of(call.getKey(), Named.of("call", call.getValue())));
    }

    static class Early implements BeanFactoryAware {

        private final Call call;
        private BeanFactory beans;

        Early(Call call) {
            this.call = call;
        }

        @Override
        public void setBeanFactory(BeanFactory beans) {
            this.beans = beans;
        }

        @PostConstruct
        void init() {
            call.accept("early", beans);
        }
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("calls")
    void call_while_beans_are_created_is_rejected_with_an_action(String name, Call call) {
        runner().withBean(Handlers.class)
                .withBean(Early.class, () -> new Early(call))
                .run(context -> assertThat(context.getStartupFailure())
                        .rootCause()
                        .isInstanceOf(ClusterNotReadyException.class)
                        .hasMessageContaining(name)
                        .hasMessageContaining("ApplicationRunner")
                        .hasMessageContaining("ApplicationReadyEvent"));
        assertThat(jobs()).isEmpty();
    }

    private List<String> jobs() {
        return database.jdbc()
                .sql("SELECT concat_ws(' ', name, priority, worker_capability) FROM forge_jobs ORDER BY created_at")
                .query(String.class)
                .list();
    }

    static class AllCreated implements SmartInitializingSingleton, BeanFactoryAware {

        private BeanFactory beans;

        @Override
        public void setBeanFactory(BeanFactory beans) {
            this.beans = beans;
        }

        private void callAll(String key) {
            calls().map(call -> (Call) ((Named<?>) call.get()[1]).getPayload())
                    .forEach(call -> call.accept(key, beans));
        }

        @Override
        public void afterSingletonsInstantiated() {
            callAll("singletons");
            // No leader can store the cron before the node joins.
            assertThatExceptionOfType(CronRejectedException.class)
                    .isThrownBy(() -> beans.getBean(Crons.class).trigger("nightly"))
                    .withMessageContaining("'nightly' is declared by this node");
        }

        @EventListener(ContextRefreshedEvent.class)
        void refreshed() {
            callAll("refreshed");
        }
    }

    @Test
    void calls_work_as_soon_as_all_beans_exist() {
        runner().withPropertyValues("forge.cluster.worker.claiming=false")
                .withBean(AllCreated.class)
                .withBean(Handlers.class)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(jobs().stream().filter(job -> job.startsWith("order")))
                            .hasSize(6)
                            .containsOnly("order 75 general");
                    assertThat(context.getBean(Crons.class).find("singletons")).isPresent();
                    assertThat(context.getBean(Crons.class).find("refreshed")).isPresent();
                    assertThat(context.getBean(WorkflowOperations.class)
                                    .search(WorkflowFilter.all().withName("checkout"), 10)
                                    .items())
                            .hasSize(2);
                });
    }

    // Payloads ----------------------------------------------------------------------------------------------

    @Test
    void generic_payload_finds_the_only_handler_of_its_class_and_is_read_with_its_type_arguments() {
        runner().withBean(Handlers.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            var date = LocalDate.of(2031, 5, 17);
            var dates = new DateList();
            dates.add(date);
            for (Object payload : List.of(new Box<>(date), List.of(date), new ArrayList<>(List.of(date)), dates)) {
                JobInfo job = ended(context, jobs.enqueue(payload).id());
                assertThat(job.result()).as(job.name() + " " + job.lastError()).isEqualTo("2031");
            }
            assertThat(ended(
                                    context,
                                    jobs.enqueueAll(List.of(new Box<>(date)))
                                            .get(0)
                                            .id())
                            .name())
                    .isEqualTo("boxed-date");
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueue(new Box<>("tomorrow")))
                    .withMessageContaining("'boxed-date'")
                    .withMessageContaining("Box<java.time.LocalDate>")
                    .withMessageContaining("tomorrow");
        });
    }

    @Test
    void generic_payload_of_several_handlers_is_rejected_with_their_names() {
        runner().withBean(Handlers.class)
                .run(context -> assertThatExceptionOfType(JobRejectedException.class)
                        .isThrownBy(() -> context.getBean(Jobs.class).enqueue(new Pair<>("a", "b")))
                        .withMessageContaining("text-pair")
                        .withMessageContaining("number-pair")
                        .withMessageContaining("enqueueNamed"));
    }

    @Test
    void payload_that_the_handler_of_this_node_cannot_read_is_rejected() {
        runner().withBean(Handlers.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueueNamed("dates", Map.of("from", "today")))
                    .withMessageContaining("'dates'")
                    .withMessageContaining("java.util.List<java.time.LocalDate>")
                    .withMessageContaining("Handlers.dates");
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueueNamed("text", null))
                    .withMessageContaining("'text'");
            assertThatExceptionOfType(CronRejectedException.class)
                    .isThrownBy(() -> context.getBean(Crons.class)
                            .create(CronDefinition.cron("nightly-dates", "0 3 * * *")
                                    .withHandler("dates")
                                    .withPayload("tomorrow")))
                    .withMessageContaining("'nightly-dates'")
                    .withMessageContaining("java.util.List<java.time.LocalDate>");
            assertThatExceptionOfType(WorkflowRejectedException.class)
                    .isThrownBy(() -> context.getBean(Workflows.class).start("checkout", List.of(1)))
                    .withMessageContaining("'checkout'")
                    .withMessageContaining(Order.class.getName());
            // A map with the members of the handler's type is accepted.
            assertThat(ended(
                                    context,
                                    jobs.enqueueNamed("order", Map.of("item", "anvil"))
                                            .id())
                            .result())
                    .isEqualTo("\"anvil\"");
            // This node does not know the payload types of handlers on other nodes.
            database.jdbc()
                    .sql("INSERT INTO forge_job_names (name) VALUES ('elsewhere')")
                    .update();
            jobs.enqueueNamed("elsewhere", List.of("any", "thing"));
        });
    }

    // Transactions ------------------------------------------------------------------------------------------

    @Test
    void change_in_a_read_only_transaction_is_rejected_by_name() {
        runner().withBean(Handlers.class).run(context -> {
            var transaction = new TransactionTemplate(context.getBean(PlatformTransactionManager.class));
            transaction.setReadOnly(true);
            Leadership leadership = context.getBean(Leadership.class);
            Map<String, Runnable> changes = changes(context);
            changes.put("fenced", () -> {
                await().until(() -> leadership.isLeader(Leadership.SCHEDULER));
                leadership.fenced(Leadership.SCHEDULER, () -> {});
            });
            changes.forEach((name, change) -> assertThatExceptionOfType(ReadOnlyTransactionException.class)
                    .as(name)
                    .isThrownBy(() -> transaction.executeWithoutResult(status -> change.run()))
                    .withMessageContaining(name)
                    .withMessageContaining("REQUIRES_NEW"));
            // Locks and state use their own transactions.
            transaction.executeWithoutResult(status -> {
                assertThat(context.getBean(ClusterLocks.class).tryLock("read-only"))
                        .isPresent();
                assertThat(context.getBean(ClusterStateStore.class).putOnce("read-only", "x", Duration.ofMinutes(1)))
                        .isTrue();
            });
        });
    }

    private static Map<String, Runnable> changes(BeanFactory beans) {
        Jobs jobs = beans.getBean(Jobs.class);
        Crons crons = beans.getBean(Crons.class);
        Workflows workflows = beans.getBean(Workflows.class);
        var id = UUID.randomUUID();
        var changes = new LinkedHashMap<String, Runnable>();
        calls().forEach(call -> changes.put(
                (String) call.get()[0],
                () -> ((Call) ((Named<?>) call.get()[1]).getPayload()).accept("read-only", beans)));
        changes.put("Jobs.cancel", () -> jobs.cancel(id));
        changes.put("Jobs.retry", () -> jobs.retry(id));
        changes.put("Crons.change", () -> crons.change(CronDefinition.cron("x", "0 3 * * *")));
        changes.put("Crons.delete", () -> crons.delete("x"));
        changes.put("Crons.pause", () -> crons.pause("x"));
        changes.put("Crons.resume", () -> crons.resume("x"));
        changes.put("Crons.trigger", () -> crons.trigger("x"));
        changes.put("Workflows.signal", () -> workflows.signal(id, "x", null));
        changes.put("Workflows.cancel", () -> workflows.cancel(id, "x"));
        changes.put("Workflows.retry", () -> workflows.retry(id));
        return changes;
    }

    static class Transactionally {
        @ClusterJob
        @Transactional
        void book() {}
    }

    @Configuration(proxyBeanMethods = false)
    @EnableTransactionManagement
    static class TwoManagers {
        @Bean
        JdbcTransactionManager first(DataSource source) {
            return new JdbcTransactionManager(source);
        }

        @Bean
        JdbcTransactionManager second(DataSource source) {
            return new JdbcTransactionManager(source);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Configured {
        @Bean
        TransactionManagementConfigurer configurer(JdbcTransactionManager second) {
            return () -> second;
        }
    }

    @Test
    void handler_that_names_none_of_several_transaction_managers_fails_the_start() {
        runner().withUserConfiguration(TwoManagers.class)
                .withBean(Transactionally.class)
                .run(context -> {
                    assertThat(refusal(context.getStartupFailure()))
                            .hasMessageContaining("first")
                            .hasMessageContaining("second");
                    assertThat(refusal(context.getStartupFailure()).action()).contains("@Primary");
                });
        runner().withUserConfiguration(TwoManagers.class, Configured.class)
                .withBean(Transactionally.class)
                .run(context -> {
                    JobInfo job = ended(
                            context,
                            context.getBean(Jobs.class)
                                    .enqueueNamed("book", null)
                                    .id());
                    assertThat(job.lastError()).isNull();
                });
    }

    // Attributes --------------------------------------------------------------------------------------------

    static class BadJob {
        @ClusterJob(name = "${no.such.property}")
        void annotated() {}
    }

    static class BadCron {
        @ClusterCron("${no.such.property}")
        void annotated() {}
    }

    static class BadDaemon {
        @ClusterDaemon(capability = "${no.such.property}")
        void annotated() {}
    }

    static class BadWorkflow {
        @ClusterWorkflow(version = "${no.such.property}")
        void annotated(WorkflowContext workflow) {}
    }

    static class BadLimit {
        @RateLimited(requestsString = "${no.such.property}", per = "1s")
        public void annotated() {}
    }

    @ParameterizedTest
    @ValueSource(classes = {BadJob.class, BadCron.class, BadDaemon.class, BadWorkflow.class, BadLimit.class})
    void unknown_placeholder_fails_the_start_with_an_action(Class<?> bean) {
        runner().withBean(bean).run(context -> {
            assertThat(refusal(context.getStartupFailure()))
                    .hasMessageContaining(bean.getName() + ".annotated")
                    .hasMessageContaining("${no.such.property}");
            assertThat(refusal(context.getStartupFailure()).action())
                    .contains("Set the property no.such.property")
                    .contains("${no.such.property:default}")
                    .doesNotContain("private");
        });
    }

    static class BadValue {
        @ClusterJob(timeout = "soon")
        void annotated() {}
    }

    @Test
    void invalid_attribute_fails_the_start_with_an_action() {
        runner().withBean(BadValue.class)
                .run(context -> assertThat(refusal(context.getStartupFailure()).action())
                        .contains("timeout")
                        .doesNotContain("private"));
    }

    // Null --------------------------------------------------------------------------------------------------

    @Test
    @SuppressWarnings({"NullAway", "DataFlowIssue"})
    void null_argument_is_rejected_with_the_name_of_its_parameter() {
        runner().withBean(Handlers.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            JobOperations operations = context.getBean(JobOperations.class);
            isNull("Jobs.enqueue", "payload", () -> jobs.enqueue(null));
            isNull("Jobs.enqueue", "options", () -> jobs.enqueue(new Order("x"), null));
            isNull("Jobs.enqueueNamed", "name", () -> jobs.enqueueNamed(null, "x"));
            isNull("Jobs.enqueueNamed", "options", () -> jobs.enqueueNamed("order", null, null));
            isNull("Jobs.enqueueAll", "payloads", () -> jobs.enqueueAll(null));
            isNull("Jobs.enqueueAll", "options", () -> jobs.enqueueAll(List.of(), (JobOptions) null));
            isNull("Jobs.enqueueAll", "options", () -> jobs.enqueueAll(List.of(), (Function<Object, JobOptions>) null));
            isNull("Jobs.enqueueAll", "payloads[1]", () -> jobs.enqueueAll(Arrays.asList(new Order("x"), null)));
            isNull("Jobs.find", "id", () -> jobs.find(null));
            isNull("Jobs.result", "id", () -> jobs.result(null, String.class));
            isNull("Jobs.result", "type", () -> jobs.result(UUID.randomUUID(), (Class<String>) null));
            isNull("JobOperations.search", "filter", () -> operations.search(null, 1));
            isNull("JobOperations.count", "filter", () -> operations.count(null));
            isNull("JobFilter.withName", "name", () -> JobFilter.all().withName(null));
            isNull("JobFilter.withStatuses", "statuses", () -> JobFilter.all().withStatuses((JobStatus[]) null));
            isNull(
                    "ClusterNodes.find",
                    "id",
                    () -> context.getBean(ClusterNodes.class).find(null));
            isNull("Jobs.cancel", "id", () -> jobs.cancel(null));
            isNull("Jobs.retry", "id", () -> jobs.retry(null));
            isNull("Jobs.pause", "name", () -> jobs.pause(null));
            isNull("Jobs.resume", "name", () -> jobs.resume(null));
            isNull("JobOperations.explain", "id", () -> operations.explain(null));
            JobOptions options = JobOptions.defaults();
            isNull("JobOptions.withDelay", "delay", () -> options.withDelay(null));
            isNull("JobOptions.withTime", "at", () -> options.withTime(null));
            isNull("JobOptions.withPriority", "priority", () -> options.withPriority(null));
            isNull("JobOptions.withCapability", "capability", () -> options.withCapability(null));
            isNull("JobOptions.withUniqueKey", "key", () -> options.withUniqueKey(null));
            isNull("JobOptions.withUniqueKey", "policy", () -> options.withUniqueKey("key", null));
            isNull("JobOptions.withMetadata", "key", () -> options.withMetadata(null, "x"));
            isNull("JobOptions.withMetadata", "value", () -> options.withMetadata("x", null));
            Crons crons = context.getBean(Crons.class);
            isNull("Crons.create", "definition", () -> crons.create(null));
            isNull("Crons.change", "definition", () -> crons.change(null));
            isNull("Crons.delete", "name", () -> crons.delete(null));
            isNull("Crons.pause", "name", () -> crons.pause(null));
            isNull("Crons.resume", "name", () -> crons.resume(null));
            isNull("Crons.trigger", "name", () -> crons.trigger(null));
            isNull("Crons.find", "name", () -> crons.find(null));
            isNull("Crons.runs", "name", () -> crons.runs(null, 1));
            isNull("Crons.latestRuns", "names", () -> crons.latestRuns(null, 1));
            Daemons daemons = context.getBean(Daemons.class);
            isNull("Daemons.find", "name", () -> daemons.find(null));
            isNull("Daemons.pause", "name", () -> daemons.pause(null));
            isNull("Daemons.resume", "name", () -> daemons.resume(null));
            Workflows workflows = context.getBean(Workflows.class);
            var id = UUID.randomUUID();
            isNull("Workflows.start", "workflow", () -> workflows.start(null, null));
            isNull("Workflows.signal", "run", () -> workflows.signal(null, "x", null));
            isNull("Workflows.signal", "name", () -> workflows.signal(id, null, null));
            isNull("Workflows.cancel", "run", () -> workflows.cancel(null, "x"));
            isNull("Workflows.cancel", "reason", () -> workflows.cancel(id, null));
            isNull("Workflows.retry", "run", () -> workflows.retry(null));
            isNull("Workflows.find", "run", () -> workflows.find(null));
            isNull("Workflows.result", "run", () -> workflows.result(null, String.class));
            isNull("Workflows.result", "type", () -> workflows.result(id, (Class<String>) null));
            Leadership leadership = context.getBean(Leadership.class);
            isNull("Leadership.join", "role", () -> leadership.join(null));
            isNull("Leadership.leave", "role", () -> leadership.leave(null));
            isNull("Leadership.isLeader", "role", () -> leadership.isLeader(null));
            isNull("Leadership.term", "role", () -> leadership.term(null));
            isNull("Leadership.fenced", "role", () -> leadership.fenced(null, () -> {}));
            isNull("Leadership.fenced", "work", () -> leadership.fenced("scheduler", (Supplier<String>) null));
            isNull("Leadership.fenced", "work", () -> leadership.fenced("scheduler", (Runnable) null));
            ClusterLocks locks = context.getBean(ClusterLocks.class);
            isNull("ClusterLocks.tryLock", "name", () -> locks.tryLock(null));
            isNull("ClusterLocks.tryLock", "lease", () -> locks.tryLock("x", null));
            try (ClusterLock lock = locks.tryLock("extended").orElseThrow()) {
                isNull("ClusterLock.extend", "lease", () -> lock.extend(null));
            }
            StartupCoordinator startup = context.getBean(StartupCoordinator.class);
            isNull("StartupCoordinator.tryAcquire", "action", () -> startup.tryAcquire(null));
            isNull("StartupCoordinator.tryAcquire", "timeToLive", () -> startup.tryAcquire("x", null));
            isNull("StartupCoordinator.release", "action", () -> startup.release(null));
            isNull("StartupCoordinator.once", "name", () -> startup.once(null, "1", () -> {}));
            isNull("StartupCoordinator.once", "version", () -> startup.once("x", null, () -> {}));
            isNull("StartupCoordinator.once", "timeout", () -> startup.once("x", "1", null, () -> {}));
            isNull("StartupCoordinator.once", "action", () -> startup.once("x", "1", null));
            RateLimiter limiter = context.getBean(RateLimiter.class);
            RateLimit limit = RateLimit.of(1, Duration.ofSeconds(1));
            isNull("RateLimiter.tryAcquire", "name", () -> limiter.tryAcquire(null, limit));
            isNull("RateLimiter.tryAcquire", "limit", () -> limiter.tryAcquire("x", (RateLimit) null));
            isNull("RateLimiter.tryAcquire", "key", () -> limiter.tryAcquire("x", null, limit));
            isNull("RateLimit", "per", () -> RateLimit.of(1, null));
            ClusterStateStore states = context.getBean(ClusterStateStore.class);
            isNull("ClusterStateStore.putOnce", "key", () -> states.putOnce(null, "x", Duration.ofMinutes(1)));
            isNull("ClusterStateStore.putOnce", "value", () -> states.putOnce("x", null, Duration.ofMinutes(1)));
            isNull("ClusterStateStore.putOnce", "timeToLive", () -> states.putOnce("x", "x", null));
            isNull("ClusterStateStore.takeOnce", "key", () -> states.takeOnce(null, String.class));
            isNull("ClusterStateStore.takeOnce", "type", () -> states.takeOnce("x", (Class<String>) null));
            isNull("ClusterStateStore.find", "key", () -> states.find(null, String.class));
            isNull("ClusterStateStore.find", "type", () -> states.find("x", (Class<String>) null));
        });
    }

    private static void isNull(String call, String parameter, ThrowingCallable code) {
        assertThatIllegalArgumentException().isThrownBy(code).withMessage("%s: %s must not be null", call, parameter);
    }

    // Names -------------------------------------------------------------------------------------------------

    @JobName("workflow:checkout@1")
    record CarriesARun() {}

    @JobName(" ")
    record Nameless() {}

    @Test
    void name_or_time_that_cannot_be_stored_is_rejected_before_the_database_sees_it() {
        String tooLong = "x".repeat(501);
        runner().withBean(Handlers.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueue(new CarriesARun()))
                    .withMessageContaining("Workflows.start");
            assertThatExceptionOfType(JobRejectedException.class).isThrownBy(() -> jobs.enqueue(new Nameless()));
            assertThat(jobs()).isEmpty();
            ClusterLocks locks = context.getBean(ClusterLocks.class);
            Leadership leadership = context.getBean(Leadership.class);
            StartupCoordinator startup = context.getBean(StartupCoordinator.class);
            for (String name : List.of(" ", "a\0b", tooLong)) {
                assertThatIllegalArgumentException().isThrownBy(() -> locks.tryLock(name));
                assertThatIllegalArgumentException().isThrownBy(() -> leadership.join(name));
            }
            assertThatIllegalArgumentException().isThrownBy(() -> startup.tryAcquire(tooLong));
            for (Duration lease : List.of(Duration.ofNanos(1), Duration.ofDays(1_000_000_000))) {
                assertThatIllegalArgumentException().isThrownBy(() -> locks.tryLock("x", lease));
            }
        });
    }

    @Test
    void result_of_a_workflow_of_another_type_is_rejected() {
        runner().withBean(Handlers.class).run(context -> {
            Workflows workflows = context.getBean(Workflows.class);
            UUID run = workflows.start("checkout", new Order("anvil"));
            await().until(() -> workflows.result(run, String.class).isPresent());
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> workflows.result(run, Order.class))
                    .withMessageContaining(run.toString())
                    .withMessageContaining(Order.class.getName());
        });
    }

    static class LocksEarly {
        LocksEarly(ClusterLocks locks) {
            locks.tryLock("early");
        }
    }

    @Test
    void lock_before_the_node_has_joined_is_rejected_with_an_action() {
        runner().withBean(LocksEarly.class)
                .run(context -> assertThat(context.getStartupFailure())
                        .rootCause()
                        .isInstanceOf(ClusterNotReadyException.class)
                        .hasMessageContaining("ApplicationRunner"));
    }

    @LeaderRole(" ")
    static class NoRole {}

    @Test
    void leader_role_without_a_name_fails_the_start_naming_its_bean() {
        runner().withBean("reports", NoRole.class)
                .run(context ->
                        assertThat(refusal(context.getStartupFailure())).hasMessageContaining("on bean 'reports'"));
    }
}
