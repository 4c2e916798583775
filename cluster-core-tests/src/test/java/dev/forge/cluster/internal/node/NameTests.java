// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.daemon.DefaultDaemons;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.ratelimit.RateLimits;
import dev.forge.cluster.internal.startup.DefaultStartupCoordinator;
import dev.forge.cluster.internal.startup.StartupActions;
import dev.forge.cluster.internal.state.DefaultClusterStateStore;
import dev.forge.cluster.internal.state.StateStore;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.UnaryOperator;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Rejection of unprintable names and keys, because names and keys appear in log lines, URLs and metrics. */
@ClusterPostgres
class NameTests {

    private static final List<String> UNPRINTABLE = List.of(
            "a\n2026-01-01 ERROR forged", "a\rb", "a\tb", "a\0b", "a\u001b[31mb", "a\u007fb", "a\u0085b", "a\u2028b");
    private static final RateLimit LIMIT = RateLimit.of(1, Duration.ofMinutes(1));

    private final TestDatabase database;
    private final TestCluster cluster;

    NameTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    @Test
    void name_or_key_with_a_control_character_is_rejected_everywhere() {
        Member flows =
                new TestWorkflows(cluster).on("checkout", context -> null).start("one");
        TestCluster.Member member = flows.member();
        Jobs jobs = member.jobs();
        Workflows workflows = flows.workflows();
        ClusterStateStore states = new DefaultClusterStateStore(
                member.node(),
                new StateStore(
                        cluster.schema, database.dataSource(), member.control().shared()),
                new TestJobs.Json(),
                1_000);
        RateLimiter limiter = new RateLimits(
                new RateLimits.Settings(false, RateLimits.Loss.LOCAL, 10),
                (bucket, limit, permits) -> {
                    throw new AssertionError("a bucket of the name " + bucket);
                },
                name -> {});
        // The calls are rejected before they reach an engine.
        Daemons daemons = new DefaultDaemons(
                member.node(),
                null,
                new DaemonStore(cluster.schema, member.control().shared()));
        var actions = new StartupActions(
                member.node(), cluster.schema, member.control(), StartupActions.Timing.waitingFor(Duration.ZERO));
        // A known job, so that only the key is wrong.
        database.jdbc()
                .sql("INSERT INTO forge_job_names (name) VALUES ('known')")
                .update();
        for (String bad : UNPRINTABLE) {
            Map<String, ThrowingCallable> calls = new LinkedHashMap<>();
            calls.put("job name", () -> jobs.enqueueNamed(bad, null));
            calls.put("paused name", () -> jobs.pause(bad));
            calls.put("resumed name", () -> jobs.resume(bad));
            calls.put(
                    "unique key",
                    () -> jobs.enqueueNamed("known", null, JobOptions.defaults().withUniqueKey(bad)));
            calls.put(
                    "capability",
                    () -> jobs.enqueueNamed("known", null, JobOptions.defaults().withCapability(bad)));
            calls.put("lock", () -> member.locks().tryLock(bad));
            calls.put(
                    "startup action",
                    () -> new DefaultStartupCoordinator(member.locks(), Duration.ofSeconds(1), actions)
                            .tryAcquire(bad));
            calls.put("workflow", () -> workflows.start(bad, null));
            calls.put("run key", () -> workflows.start("checkout", null, bad));
            calls.put("signal", () -> workflows.signal(UUID.randomUUID(), bad, "value"));
            calls.put("rate limit", () -> limiter.tryAcquire(bad, LIMIT));
            calls.put(
                    "cron",
                    () -> member.crons()
                            .create(CronDefinition.cron(bad, "@yearly").withHandler("known")));
            calls.put("state to put", () -> states.putOnce(bad, "value", Duration.ofMinutes(1)));
            calls.put("state to take", () -> states.takeOnce(bad, String.class));
            calls.put("leader role", () -> member.leadership().join(bad));
            calls.put("cron to find", () -> member.crons().find(bad));
            calls.put("cron whose runs are listed", () -> member.crons().runs(bad, 1));
            calls.put("cron whose latest runs are listed", () -> member.crons().latestRuns(List.of(bad), 1));
            calls.put("cron to pause", () -> member.crons().pause(bad));
            calls.put("cron to resume", () -> member.crons().resume(bad));
            calls.put("cron to trigger", () -> member.crons().trigger(bad));
            calls.put("cron to delete", () -> member.crons().delete(bad));
            calls.put("daemon to find", () -> daemons.find(bad));
            calls.put("daemon to pause", () -> daemons.pause(bad));
            calls.put("daemon to resume", () -> daemons.resume(bad));
            calls.put(
                    "workflow to list",
                    () -> flows.operations().search(WorkflowFilter.all().withName(bad), 1));
            calls.put("state to find", () -> states.find(bad, String.class));
            calls.put("startup action that runs once", () -> actions.once(bad, "1", () -> {}));
            calls.put("version of a startup action", () -> actions.once("load", bad, () -> {}));
            calls.forEach((what, call) -> assertThat(catchThrowable(call))
                    .as("%s, unprintable name %d", what, UNPRINTABLE.indexOf(bad))
                    .isInstanceOf(RuntimeException.class)
                    .satisfies(e -> assertThat(e.getMessage())
                            .containsAnyOf("control character", "printable")
                            .doesNotContain(bad)));
        }
        assertThat(database.jdbc()
                        .sql("SELECT count(*) FROM forge_jobs")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void step_name_with_a_line_break_fails_the_run() {
        Member flows = new TestWorkflows(cluster)
                .on("checkout", context -> context.step("pay\nforged", String.class, () -> "paid"))
                .start("one");
        UUID run = flows.workflows().start("checkout", null);
        assertThat(flows.ended(run).lastError()).contains("control character", "pay?forged");
    }

    @Test
    void node_with_a_line_break_in_its_name_does_not_start() {
        assertThatExceptionOfType(ClusterStartupException.class)
                .isThrownBy(() -> cluster.create("one\nforged", UnaryOperator.identity()))
                .withMessageContaining("'one?forged' holds a control character (U+000A at position 3)");
    }
}
