// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.audit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import ch.qos.logback.classic.Level;
import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.OperationAudited;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.audit.OperatorSource;
import dev.forge.cluster.autoconfigure.LogLines;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.event.EventListener;
import org.springframework.security.authentication.AnonymousAuthenticationToken;
import org.springframework.security.authentication.UsernamePasswordAuthenticationToken;
import org.springframework.security.core.Authentication;
import org.springframework.security.core.authority.AuthorityUtils;
import org.springframework.security.core.context.SecurityContextHolder;

/** The audit trail of an application. */
@ClusterPostgres
class AuditAutoConfigurationTests {

    private final TestDatabase database;

    AuditAutoConfigurationTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        SecurityContextHolder.clearContext();
        database.clear();
    }

    static class Application {

        final List<OperationAudited> events = new CopyOnWriteArrayList<>();

        @ClusterJob
        void work() {}

        @EventListener
        void audited(OperationAudited event) {
            events.add(event);
        }
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database).withBean(Application.class);
    }

    private static UUID later(Jobs jobs) {
        return jobs.enqueueNamed("work", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                .id();
    }

    private static List<AuditEntry> entries(AuditTrail trail) {
        return trail.list(AuditFilter.all(), 10).items();
    }

    private static void login(Authentication authentication) {
        SecurityContextHolder.getContext().setAuthentication(authentication);
    }

    @Test
    void operation_of_an_authenticated_user_is_recorded_logged_and_published() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            UUID job = later(jobs);
            try (var lines = new LogLines(Audit.class)) {
                login(UsernamePasswordAuthenticationToken.authenticated("alice", null, List.of()));
                assertThat(jobs.cancel(job)).isTrue();
                assertThat(lines.own(Level.INFO))
                        .containsExactly("Operation job.cancel on %s: 1 changed, by alice (java)".formatted(job));
            }
            AuditEntry entry = entries(context.getBean(AuditTrail.class)).get(0);
            assertThat(entry.who()).isEqualTo("alice");
            assertThat(entry.source()).isEqualTo(AuditSource.JAVA);
            List<OperationAudited> events = context.getBean(Application.class).events;
            await().until(() -> !events.isEmpty());
            assertThat(events)
                    .containsExactly(
                            new OperationAudited(Operator.named("alice"), "job.cancel", job.toString(), null, 1, null));
        });
    }

    @Test
    void operation_of_an_anonymous_or_unknown_user_is_not_recorded() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            assertThat(jobs.cancel(later(jobs))).isTrue();
            login(new AnonymousAuthenticationToken("key", "anonymous", AuthorityUtils.createAuthorityList("GUEST")));
            assertThat(jobs.cancel(later(jobs))).isTrue();
            login(UsernamePasswordAuthenticationToken.unauthenticated("mallory", "guess"));
            assertThat(jobs.cancel(later(jobs))).isTrue();
            assertThat(entries(context.getBean(AuditTrail.class))).isEmpty();
        });
    }

    @Test
    void operator_source_of_the_application_replaces_that_of_spring_security() {
        runner().withBean(OperatorSource.class, () -> () -> Optional.of(Operator.named("batch")))
                .run(context -> {
                    login(UsernamePasswordAuthenticationToken.authenticated("alice", null, List.of()));
                    Jobs jobs = context.getBean(Jobs.class);
                    jobs.pause("work");
                    assertThat(entries(context.getBean(AuditTrail.class)))
                            .extracting(AuditEntry::who)
                            .containsExactly("batch");
                });
    }

    @Test
    void trail_works_without_spring_security() {
        runner().withClassLoader(new FilteredClassLoader("org.springframework.security"))
                .run(context -> {
                    assertThat(context).hasNotFailed().doesNotHaveBean(OperatorSource.class);
                    Jobs jobs = context.getBean(Jobs.class);
                    AuditTrail trail = context.getBean(AuditTrail.class);
                    jobs.pause("work");
                    assertThat(entries(trail)).isEmpty();
                    trail.as(Operator.named("alice"), "done", () -> jobs.resume("work"));
                    assertThat(entries(trail)).extracting(AuditEntry::reason).containsExactly("done");
                });
    }

    @Test
    void old_entries_are_deleted() {
        runner().withPropertyValues("forge.cluster.audit.retention=10d").run(context -> {
            for (int days : new int[] {9, 11}) {
                database.jdbc().sql("""
                                INSERT INTO forge_audit (at, who, source, action, target, count)
                                VALUES (now() - ? * interval '1 day', 'alice', 'java', 'job.cancel', ?, 1)
                                """).params(days, String.valueOf(days)).update();
            }
            context.getBean(AuditCleanUp.class).cleanUp();
            assertThat(entries(context.getBean(AuditTrail.class)))
                    .extracting(AuditEntry::target)
                    .containsExactly("9");
        });
    }
}
