// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import dev.forge.cluster.test.peer.JobQueue;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.context.junit.jupiter.SpringJUnitConfig;

/** Verifies which Spring tests share a context and its database. */
class SharedContextTests {

    record Seen(ApplicationContext context, String url, String database, long jobs) {}

    private static final Map<Class<?>, Seen> SEEN = new LinkedHashMap<>();

    @BeforeEach
    void forget() {
        SEEN.clear();
    }

    private static void run(Class<?>... testClasses) {
        for (Class<?> testClass : testClasses) {
            assertThat(EngineTestKit.engine("junit-jupiter")
                            .selectors(selectClass(testClass))
                            .execute()
                            .allEvents()
                            .failed()
                            .map(event -> event.getRequiredPayload(TestExecutionResult.class)
                                    .getThrowable()
                                    .orElseThrow()))
                    .as(testClass.getSimpleName())
                    .isEmpty();
        }
    }

    @Test
    void classes_with_the_same_configuration_share_one_context_and_its_database() {
        run(First.class, Second.class, AroundNested.class);
        Seen first = SEEN.get(First.class);
        assertThat(SEEN).hasSize(3).allSatisfy((type, seen) -> {
            assertThat(seen.context()).isSameAs(first.context());
            assertThat(seen.url()).endsWith("/" + first.database());
            assertThat(seen.database()).isEqualTo(first.database());
        });
        assertThat(SEEN.values()).extracting(Seen::jobs).isSorted().doesNotHaveDuplicates();
    }

    @Test
    void class_with_other_settings_has_another_context_and_another_database() {
        run(First.class, OwnDatabase.class, OtherOwnDatabase.class, Empty.class);
        assertThat(SEEN.values()).extracting(Seen::context).doesNotHaveDuplicates();
        assertThat(SEEN.values()).extracting(Seen::database).doesNotHaveDuplicates();
        assertThat(SEEN).allSatisfy((type, seen) -> assertThat(seen.url()).endsWith("/" + seen.database()));
    }

    @Test
    void context_after_a_dirty_one_has_a_new_database() {
        run(Dirty.class, DirtyToo.class);
        assertThat(SEEN.values()).extracting(Seen::database).doesNotHaveDuplicates();
        assertThat(SEEN.values()).extracting(Seen::jobs).containsExactly(1L, 1L);
    }

    @Configuration(proxyBeanMethods = false)
    static class Application {}

    @Configuration(proxyBeanMethods = false)
    static class OtherApplication {}

    abstract static class Look {

        @Autowired
        ApplicationContext context;

        @Test
        void look(TestDatabase database) {
            boolean migrated = database.jdbc()
                    .sql("SELECT to_regclass('forge_jobs') IS NOT NULL")
                    .query(Boolean.class)
                    .single();
            if (migrated) {
                new JobQueue(database).enqueue("job", "{}");
            }
            SEEN.put(
                    getClass(),
                    new Seen(
                            context,
                            context.getEnvironment().getRequiredProperty("spring.datasource.url"),
                            database.name(),
                            migrated
                                    ? database.jdbc()
                                            .sql("SELECT count(*) FROM forge_jobs")
                                            .query(Long.class)
                                            .single()
                                    : 0));
        }
    }

    @ClusterPostgres
    @SpringJUnitConfig(Application.class)
    static class First extends Look {}

    @ClusterPostgres
    @SpringJUnitConfig(Application.class)
    static class Second extends Look {}

    @ClusterPostgres
    @SpringJUnitConfig(Application.class)
    static class AroundNested {

        @Nested
        class Inside extends Look {}
    }

    @ClusterPostgres(ownDatabase = true)
    @SpringJUnitConfig(Application.class)
    static class OwnDatabase extends Look {}

    @ClusterPostgres(ownDatabase = true)
    @SpringJUnitConfig(Application.class)
    static class OtherOwnDatabase extends Look {}

    @ClusterPostgres(migrated = false)
    @SpringJUnitConfig(Application.class)
    static class Empty extends Look {}

    @ClusterPostgres
    @DirtiesContext
    @SpringJUnitConfig(OtherApplication.class)
    static class Dirty extends Look {}

    @ClusterPostgres
    @DirtiesContext
    @SpringJUnitConfig(OtherApplication.class)
    static class DirtyToo extends Look {}
}
