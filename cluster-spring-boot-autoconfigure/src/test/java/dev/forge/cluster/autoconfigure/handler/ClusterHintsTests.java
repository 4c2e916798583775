// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.DisabledClusterAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.Outcome;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.annotation.RegisterReflectionForBinding;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import org.springframework.aot.test.generate.TestGenerationContext;
import org.springframework.beans.factory.aot.AotServices;
import org.springframework.beans.factory.aot.BeanRegistrationAotProcessor;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.beans.factory.support.RegisteredBean;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.context.aot.ApplicationContextAotGenerator;
import org.springframework.context.support.GenericApplicationContext;

public class ClusterHintsTests {

    record Item(String name) {}

    record Order(List<Item> items) {}

    record Receipt(Map<String, Price> prices) {}

    record Price(long cents) {}

    record Untouched(String nothing) {}

    record Page(int number) {}

    interface Imports {
        void read(Order order);
    }

    static class Work implements Imports {
        @ClusterJob
        Receipt process(Order order, JobContext job) {
            return new Receipt(Map.of());
        }

        @ClusterJob
        Outcome decide(List<Item> items) {
            return Outcome.complete();
        }

        @Override
        @ClusterJob
        public void read(Order order) {}

        @ClusterJob
        @RegisterReflectionForBinding(Page.class)
        void resume(JobContext job) {
            job.checkpoint(new Page(job.checkpoint(Page.class).map(Page::number).orElse(0) + 1));
        }

        void notAJob(Untouched untouched) {}
    }

    record Later(Soon soon) {}

    record Soon(int number) {}

    static class Futures {
        @ClusterJob
        CompletableFuture<Later> later() {
            return CompletableFuture.completedFuture(new Later(new Soon(1)));
        }

        @ClusterJob
        CompletableFuture<Outcome> decided() {
            return CompletableFuture.completedFuture(Outcome.complete());
        }
    }

    @Test
    void result_of_a_future_becomes_json_not_the_future() {
        RuntimeHints hints = hintsOf(Futures.class);
        for (Class<?> bound : List.of(Later.class, Soon.class)) {
            assertThat(RuntimeHintsPredicates.reflection()
                            .onMethodInvocation(bound.getRecordComponents()[0].getAccessor()))
                    .as(bound.getName())
                    .accepts(hints);
        }
        assertThat(RuntimeHintsPredicates.reflection().onType(CompletableFuture.class))
                .rejects(hints);
        assertThat(RuntimeHintsPredicates.reflection().onType(Outcome.class)).rejects(hints);
    }

    static class Many {
        @ClusterJob(batchSize = 10)
        List<Outcome> index(List<Item> items, List<JobContext> jobs) {
            return items.stream().map(item -> Outcome.complete()).toList();
        }
    }

    @Test
    void payloads_of_many_jobs_become_json_not_their_contexts_and_outcomes() {
        RuntimeHints hints = hintsOf(Many.class);
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Item.class.getRecordComponents()[0].getAccessor()))
                .accepts(hints);
        assertThat(RuntimeHintsPredicates.reflection().onType(JobContext.class)).rejects(hints);
        assertThat(RuntimeHintsPredicates.reflection().onType(Outcome.class)).rejects(hints);
    }

    static class Bystander {}

    record Outer(Work work) {}

    public static RuntimeHints hintsOf(Class<?> bean) {
        var context = new GenericApplicationContext();
        context.registerBeanDefinition("bean", new RootBeanDefinition(bean));
        var generation = new TestGenerationContext();
        new ApplicationContextAotGenerator().processAheadOfTime(context, generation);
        return generation.getRuntimeHints();
    }

    @Test
    void hints_contain_the_methods_of_handlers_and_their_json_types() throws Exception {
        RuntimeHints hints = hintsOf(Work.class);
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Work.class.getDeclaredMethod("process", Order.class, JobContext.class)))
                .accepts(hints);
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Work.class.getDeclaredMethod("decide", List.class)))
                .accepts(hints);
        for (Class<?> bound : List.of(Order.class, Item.class, Receipt.class, Price.class)) {
            assertThat(RuntimeHintsPredicates.reflection()
                            .onMethodInvocation(bound.getRecordComponents()[0].getAccessor()))
                    .as(bound.getName())
                    .accepts(hints);
            assertThat(RuntimeHintsPredicates.reflection().onType(bound)).accepts(hints);
        }
        assertThat(RuntimeHintsPredicates.reflection().onType(Untouched.class)).rejects(hints);
        assertThat(RuntimeHintsPredicates.reflection().onType(Outcome.class)).rejects(hints);
    }

    @Test
    void hints_contain_checkpoint_types_named_on_the_handler() {
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Page.class.getRecordComponents()[0].getAccessor()))
                .accepts(hintsOf(Work.class));
    }

    @Test
    void hints_contain_the_interface_method_of_a_jdk_proxy() throws Exception {
        assertThat(RuntimeHintsPredicates.reflection().onMethodInvocation(Imports.class.getMethod("read", Order.class)))
                .accepts(hintsOf(Work.class));
    }

    @Test
    void bean_without_handlers_contributes_nothing() {
        var beans = new DefaultListableBeanFactory();
        beans.registerBeanDefinition("bystander", new RootBeanDefinition(Bystander.class));
        assertThat(new ClusterHints().processAheadOfTime(RegisteredBean.of(beans, "bystander")))
                .isNull();
    }

    @Test
    void handler_in_an_inner_bean_is_found() throws Exception {
        var context = new GenericApplicationContext();
        var outer = new RootBeanDefinition(Outer.class);
        outer.getConstructorArgumentValues().addGenericArgumentValue(new RootBeanDefinition(Work.class));
        context.registerBeanDefinition("outer", outer);
        var generation = new TestGenerationContext();
        new ApplicationContextAotGenerator().processAheadOfTime(context, generation);
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(Work.class.getDeclaredMethod("decide", List.class)))
                .accepts(generation.getRuntimeHints());
    }

    @Test
    void spring_finds_the_processor_and_the_hints_of_the_cluster_itself() throws Exception {
        assertThat(AotServices.factories().load(BeanRegistrationAotProcessor.class))
                .anyMatch(ClusterHints.class::isInstance);
        RuntimeHints hints = hintsOf(Bystander.class);
        assertThat(RuntimeHintsPredicates.resource().forResource("dev/forge/cluster/db/V1__forge_cluster.sql"))
                .accepts(hints);
        DisabledClusterAutoConfiguration.TYPES.forEach(type ->
                assertThat(RuntimeHintsPredicates.proxies().forInterfaces(type)).accepts(hints));
        Class<?> progress = Class.forName("dev.forge.cluster.internal.job.run.AttemptNotes$Progress");
        assertThat(RuntimeHintsPredicates.reflection()
                        .onMethodInvocation(progress.getRecordComponents()[0].getAccessor()))
                .accepts(hints);
    }
}
