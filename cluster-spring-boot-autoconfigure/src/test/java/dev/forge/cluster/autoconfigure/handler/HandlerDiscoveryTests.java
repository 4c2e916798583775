// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.aop.support.AopUtils;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Names of handlers, and handlers on all kinds of beans. */
class HandlerDiscoveryTests extends AbstractHandlerTests {

    HandlerDiscoveryTests(TestDatabase database) {
        super(database);
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

    record Shared(int number) {}

    @JobName("first")
    record SharedByName(int number) {}

    static class Sharing {
        @ClusterJob
        void first(Shared shared) {}

        @ClusterJob
        void second(Shared shared) {}

        @ClusterJob
        void third(SharedByName shared) {}

        @ClusterJob
        void fourth(SharedByName shared) {}

        @ClusterJob
        void fifth(String text) {}

        @ClusterJob
        void sixth(String text) {}
    }

    @Test
    void handlers_between_which_enqueue_cannot_choose_are_named_at_the_start(CapturedOutput output) {
        runner().withBean(Sharing.class).run(context -> {
            assertThat(output)
                    .contains(
                            "Several jobs take a " + Shared.class.getName() + ": first (",
                            Sharing.class.getName() + ".first",
                            ", second (",
                            "call enqueueNamed, put @JobName on the type");
            assertThat(output.getAll().lines().filter(line -> line.contains("Several jobs take")))
                    .as("types that name their job, and those of the JDK")
                    .hasSize(1);
            Jobs jobs = context.getBean(Jobs.class);
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueue(new Shared(1)))
                    .withMessageContaining("first")
                    .withMessageContaining("second");
            assertThat(jobs.enqueueNamed("second", new Shared(1))).isNotNull();
        });
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

    static class Greetings extends Generic<HandlerSignatureTests.Greeting> {}

    @Test
    void handler_inherited_from_a_generic_class_takes_the_type_of_the_subclass() {
        runner().withBean(Greetings.class)
                .run(context -> assertThat(ended(
                                        context,
                                        context.getBean(Jobs.class)
                                                .enqueue(new HandlerSignatureTests.Greeting("x"))
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
        runner().withBean(HandlerSignatureTests.Signatures.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            JobInfo job = jobs.find(jobs.enqueue(new Foreign("x")).id()).orElseThrow();
            assertThat(job.name()).isEqualTo("elsewhere");
            assertThat(job.status()).isEqualTo(JobStatus.PENDING);
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueue(new Stranger("x")))
                    .withMessageContaining(Stranger.class.getName())
                    .withMessageContaining(HandlerSignatureTests.Greeting.class.getName());
            // Three handlers take this payload type.
            assertThatExceptionOfType(JobRejectedException.class)
                    .isThrownBy(() -> jobs.enqueue(new HandlerSignatureTests.Greeting("x")))
                    .withMessageContaining("enqueueNamed");
        });
    }
}
