// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.operate.JobLimitReports.GroupState;
import dev.forge.cluster.internal.job.operate.JobLimitReports.NameLimits;
import dev.forge.cluster.internal.job.operate.JobWaitReports.LimitedName;
import dev.forge.cluster.internal.job.operate.JobWaitReports.Reason;
import dev.forge.cluster.internal.job.row.JobLimitStore;
import dev.forge.cluster.internal.job.row.JobStoreFixture;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Reports about limits: which jobs they keep waiting, and for which reason. */
class JobWaitReportsTests extends JobStoreFixture {

    private final JobLimitStore limits;
    private final JobLimitReports limitReports;
    private final JobWaitReports waits;

    JobWaitReportsTests(TestDatabase database) {
        super(database);
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.limits = new JobLimitStore(schema, database.dataSource());
        this.limitReports = new JobLimitReports(schema, database.dataSource());
        this.waits = new JobWaitReports(schema, database.dataSource());
    }

    private void pending(int count, String group) {
        rows(count, "name, job_group, scheduled_at", "'job', %s, now() - interval '1 hour'".formatted(group));
    }

    private void running(int count, String group) {
        rows(
                count,
                "name, job_group, status, created_at, claimed_at, lease_expires_at",
                "'job', %s, 'running', now() - interval '2 hours', now(), now() + interval '1 hour'".formatted(group));
    }

    private LimitedName only() {
        List<LimitedName> names = waits.limitedNames(Map.of());
        assertThat(names).hasSize(1);
        return names.get(0);
    }

    private static Map<Reason, Long> waiting(long order, long groupFull, long nameFull, long rate) {
        return Map.of(
                Reason.WAITING_FOR_ORDER, order,
                Reason.GROUP_FULL, groupFull,
                Reason.NAME_FULL, nameFull,
                Reason.GROUP_RATE, rate);
    }

    @Test
    void due_jobs_of_full_groups_wait_for_their_groups() {
        limits.declare("job", JobLimits.none().withGroupConcurrency(1), false);
        running(1, "'a'");
        pending(3, "'a'");
        rows(1, "name, job_group, scheduled_at", "'job', 'a', now() + interval '1 hour'");
        pending(2, "'b'");
        pending(4, "NULL");

        assertThat(only()).isEqualTo(new LimitedName("job", null, 1, waiting(0, 3, 0, 0)));
    }

    @Test
    void all_but_the_first_job_of_an_ordered_group_wait_for_their_order() {
        limits.declare("job", JobLimits.none(), true);
        running(1, "'a'");
        pending(2, "'a'");
        pending(3, "'b'");
        // The first one waits for its next attempt.
        rows(
                1,
                "name, job_group, scheduled_at, created_at",
                "'job', 'c', now() + interval '1 hour', now() - interval '1 hour'");
        pending(1, "'c'");

        assertThat(only().waiting()).isEqualTo(waiting(2 + 2 + 1, 0, 0, 0));
    }

    @Test
    void jobs_of_a_full_name_wait_with_and_without_a_group() {
        limits.declare("job", JobLimits.none().withConcurrency(2), false);
        running(2, "NULL");
        pending(2, "NULL");
        pending(1, "'a'");
        rows(3, "name, scheduled_at", "'job', now() + interval '1 hour'");

        assertThat(only()).isEqualTo(new LimitedName("job", 2, 2, waiting(0, 0, 3, 0)));
        jdbc.sql("UPDATE forge_jobs SET status = 'completed' WHERE status = 'running'")
                .update();
        assertThat(only()).isEqualTo(new LimitedName("job", 2, 0, waiting(0, 0, 0, 0)));
    }

    @Test
    void jobs_wait_for_the_rate_of_their_group() {
        limits.declare("job", JobLimits.none().withGroupRate(new RateLimit(1, Duration.ofMinutes(1), 2)), false);
        jdbc.sql("""
                INSERT INTO forge_job_rates (name, job_group, next_at)
                VALUES ('job', 'a', now() + interval '90 seconds'), ('job', 'b', now() + interval '30 seconds')
                """).update();
        pending(2, "'a'");
        pending(5, "'b'");

        assertThat(only().waiting()).isEqualTo(waiting(0, 0, 0, 2));
    }

    @Test
    void long_backlog_of_a_group_does_not_hide_other_groups() {
        limits.declare("job", JobLimits.none().withGroupConcurrency(1), false);
        running(1, "'a'");
        running(1, "'b'");
        pending(1_500, "'a'");
        pending(7, "'b'");

        assertThat(only().waiting()).isEqualTo(waiting(0, 1_007, 0, 0));
    }

    @Test
    void jobs_with_other_capabilities_and_priorities_and_names_of_the_handler_count() {
        limits.declare("job", JobLimits.none().withGroupConcurrency(2), false);
        running(1, "'a'");
        rows(1, "name, job_group, status", "'former', 'a', 'claimed'");
        pending(1, "'a'");
        rows(2, "name, job_group, priority", "'job', 'a', 90");
        rows(3, "name, job_group, worker_capability", "'job', 'a', 'gpu'");
        rows(4, "name, job_group", "'former', 'a'");

        assertThat(waits.limitedNames(Map.of("former", "job")))
                .containsExactly(new LimitedName("job", null, 2, waiting(0, 10, 0, 0)));
        assertThat(only()).isEqualTo(new LimitedName("job", null, 1, waiting(0, 0, 0, 0)));
    }

    @Test
    void made_up_names_do_not_hide_names_of_handlers() {
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('fast'), ('slow')").update();
        jdbc.sql("""
                INSERT INTO forge_job_limits (name, concurrency)
                SELECT '!' || n, 1 FROM generate_series(1, 1000) AS n UNION ALL VALUES ('fast', 2), ('slow', 3)
                """).update();

        assertThat(waits.limitedNames(Map.of()))
                .hasSize(1_000)
                .extracting(LimitedName::name)
                .contains("fast", "slow");
        assertThat(names(null, 3)).containsExactly("fast", "slow", "!1");
        assertThat(names("fast", 2)).containsExactly("slow", "!1");
        assertThat(names("!1", 1)).containsExactly("!10");
        assertThat(names("!999", 1)).isEmpty();
    }

    private List<String> names(String after, int limit) {
        return limitReports.page(after, limit).stream().map(NameLimits::name).toList();
    }

    @Test
    void names_without_limits_are_absent() {
        limits.override("job", JobLimits.none().withConcurrency(1));
        limits.reset("job");
        limits.weigh("job", "a", 3);

        assertThat(waits.limitedNames(Map.of())).isEmpty();
        assertThat(limitReports.page(null, 10)).isEmpty();
    }

    @Test
    void groups_are_listed_with_what_they_hold_and_their_weight() {
        running(1, "'a'");
        running(2, "'b'");
        limits.weigh("job", "a", 3);
        limits.weigh("job", "z", 5);
        limits.weigh("other", "y", 5);

        assertThat(limitReports.groups("job", List.of("job"), 10))
                .containsExactly(new GroupState("b", 2, 1), new GroupState("a", 1, 3), new GroupState("z", 0, 5));
        assertThat(limitReports.groups("job", List.of("job"), 1)).containsExactly(new GroupState("b", 2, 1));
        assertThat(limitReports.held(List.of("job", "other"))).isEqualTo(Map.of("job", 3L));
    }

    @Test
    void limits_are_listed_by_name() {
        limits.declare("a", JobLimits.none().withGroupConcurrency(1), true);
        limits.declare("b", JobLimits.none().withConcurrency(4), false);
        limits.override("b", JobLimits.none().withGroupRate(new RateLimit(1, Duration.ofMinutes(15), 3)));

        assertThat(limitReports.page(null, 1))
                .containsExactly(new JobLimitReports.NameLimits(
                        "a",
                        JobLimits.none().withGroupConcurrency(1),
                        true,
                        false,
                        JobLimits.none().withGroupConcurrency(1),
                        null));
        assertThat(limitReports.page("a", 10))
                .containsExactly(new JobLimitReports.NameLimits(
                        "b",
                        JobLimits.none().withGroupRate(new RateLimit(1, Duration.ofMinutes(15), 3)),
                        false,
                        true,
                        JobLimits.none().withConcurrency(4),
                        null));
    }
}
