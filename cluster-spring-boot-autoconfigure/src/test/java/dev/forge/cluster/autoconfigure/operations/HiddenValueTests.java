// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration;
import dev.forge.cluster.autoconfigure.ratelimit.RateLimitAutoConfiguration;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.context.ApplicationContext;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Values that somebody without the permission to see them might learn in other ways than by reading the job. */
@ClusterPostgres
class HiddenValueTests {

    private static final Caller SEES = new Caller(true, "alice", "192.0.2.1", AuditSource.DASHBOARD);
    private static final Caller BLIND = new Caller(false, "bob", "192.0.2.2", AuditSource.DASHBOARD);
    private static final String SECRET = "4711";

    private final TestDatabase database;
    private final JdbcClient jdbc;

    HiddenValueTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    record Pay(int amount) {}

    static class Work {

        @ClusterJob(ordered = true)
        void line() {}

        @ClusterJob
        void total() {}

        @ClusterJob
        void pay(Pay pay) {}
    }

    private void run(Consumer<ApplicationContext> test) {
        TestApplications.on(database)
                .withConfiguration(AutoConfigurations.of(
                        RateLimitAutoConfiguration.class,
                        WorkflowAutoConfiguration.class,
                        ClusterOperationsAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class))
                .withBean(Work.class)
                .run(test::accept);
    }

    private static JsonObject read(
            ApplicationContext context, Caller caller, Map<String, String> parameters, String... path) {
        OperationResult result = context.getBean(ClusterOperations.class).read(caller, List.of(path), parameters);
        assertThat(result).isInstanceOf(OperationResult.Found.class);
        return (JsonObject) ((OperationResult.Found) result).body();
    }

    @Test
    void attention_and_explanations_name_no_group_and_no_batch() {
        run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            UUID callback = jobs.batch(JobBatchOptions.named("batch " + SECRET).withOnEnd(new Pay(3)))
                    .info()
                    .orElseThrow()
                    .onEnd();
            assertThat(read(context, BLIND, Map.of(), "jobs", String.valueOf(callback))
                            .toString())
                    .contains("waits for batch")
                    .doesNotContain(SECRET);

            JobOptions later =
                    JobOptions.defaults().withGroup("customer " + SECRET).withDelay(Duration.ofDays(1));
            jobs.enqueueNamed("line", null, later);
            UUID second = jobs.enqueueNamed("line", null, later).id();
            jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() - interval '2 hours' WHERE id = ?")
                    .param(second)
                    .update();
            assertThat(read(context, BLIND, Map.of(), "attention").toString())
                    .contains(second.toString(), "Reason: ")
                    .doesNotContain(SECRET);
        });
    }

    @Test
    void rejection_of_a_copy_quotes_no_payload() {
        run(context -> {
            context.getBean(Jobs.class).pause("pay");
            String job = jdbc.sql(
                            "SELECT forge_enqueue('pay', '{\"amount\": \"card %s\"}'::jsonb)::text".formatted(SECRET))
                    .query(String.class)
                    .single();
            var operations = context.getBean(ClusterOperations.class);
            assertThatThrownBy(() -> operations.change(BLIND, List.of("jobs", job), "duplicated", Map.of()))
                    .isInstanceOf(InvalidOperationException.class)
                    .hasMessageContaining("Only users who may see values")
                    .hasMessageNotContaining(SECRET);
            assertThatThrownBy(() -> operations.change(SEES, List.of("jobs", job), "duplicated", Map.of()))
                    .isInstanceOf(InvalidOperationException.class)
                    .hasMessageContaining(SECRET);
        });
    }

    @Test
    void copy_of_a_job_that_was_submitted_by_http_has_no_key() {
        run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            JobOperations operations = context.getBean(JobOperations.class);
            jobs.pause("total");
            UUID job = jobs.enqueueNamed("total", null, JobOptions.defaults().withUniqueKey("x"))
                    .id();
            jdbc.sql("UPDATE forge_jobs SET unique_key = '@http/abc/key' WHERE id = ?")
                    .param(job)
                    .update();
            UUID copy = operations.enqueueCopy(job, null).orElseThrow().id();
            assertThat(copy).isNotEqualTo(job);
            assertThat(jobs.find(copy).orElseThrow().uniqueKey()).isNull();
        });
    }

    @Test
    void audit_trail_shows_no_reason_and_is_not_searched_by_hidden_values() {
        run(context -> {
            var operations = context.getBean(ClusterOperations.class);
            context.getBean(Jobs.class)
                    .enqueueNamed(
                            "line",
                            null,
                            JobOptions.defaults().withGroup(SECRET).withDelay(Duration.ofDays(1)));
            operations.change(
                    SEES, List.of("jobs"), "cancelled", Map.of("group", SECRET, "reason", "customer " + SECRET));
            String target = String.valueOf(((Map<?, ?>) ((List<?>) Objects.requireNonNull(
                                    read(context, SEES, Map.of(), "audit").get("entries")))
                            .get(0))
                    .get("target"));
            assertThat(target).isEqualTo("group=" + SECRET);
            assertThat(read(context, BLIND, Map.of(), "audit").toString())
                    .contains("alice")
                    .doesNotContain(SECRET);
            assertThatThrownBy(() -> operations.read(BLIND, List.of("audit"), Map.of("target", target)))
                    .isInstanceOf(HiddenValuesException.class);
        });
    }

    @Test
    void impossible_filter_of_runs_is_refused() {
        run(context -> assertThatThrownBy(() -> context.getBean(ClusterOperations.class)
                        .read(BLIND, List.of("workflows"), Map.of("name", "x".repeat(900))))
                .isInstanceOf(InvalidOperationException.class));
    }
}
