// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Crons whose runs belong to groups of jobs. */
@ClusterPostgres
class CronGroupTests extends AbstractCronTests {

    CronGroupTests(TestDatabase database) {
        super(database);
    }

    private static CronDefinition mail(String cron, String group) {
        return CronDefinition.cron(cron, YEARLY).withHandler("mail").withGroup(group);
    }

    @Test
    void runs_of_two_crons_share_the_limit_of_their_group() {
        work.on(job("mail").grouped(null, JobLimits.none().withGroupConcurrency(1), false), (payload, context) -> {
            assertThat(release.await(5, TimeUnit.MINUTES)).isTrue();
            return context.group();
        });
        Member leader = startLeader(work);
        leader.crons().create(mail("one", "acme"));
        leader.crons().create(mail("two", "acme"));
        assertThat(info("one").group()).isEqualTo("acme");

        due("one");
        UUID first = ledger("one", 1).get(0).job();
        await().until(() -> leader.jobs().find(first).orElseThrow().status() == JobStatus.RUNNING);
        UUID second = leader.crons().trigger("two").orElseThrow();
        assertThat(leader.operations().explain(second).reason()).isEqualTo(JobExplanation.Reason.GROUP_FULL);
        release.countDown();
        for (UUID run : List.of(first, second)) {
            JobInfo ended = leader.ended(run);
            assertThat(ended.group()).isEqualTo("acme");
            assertThat(ended.result()).isEqualTo("\"acme\"");
        }
    }

    @Test
    void changed_definition_changes_the_group_of_later_runs() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        leader.crons().create(mail("one", "acme"));
        leader.crons().change(mail("one", "other"));
        assertThat(leader.ended(leader.crons().trigger("one").orElseThrow()).group())
                .isEqualTo("other");
        leader.crons().change(CronDefinition.cron("one", "@daily").withHandler("mail"));
        assertThat(info("one").group()).isNull();
        assertThat(leader.ended(leader.crons().trigger("one").orElseThrow()).group())
                .isNull();
    }

    @Test
    void group_of_the_definition_comes_before_that_of_the_handler() {
        work.on(
                job("mail").grouped(payload -> "declared", JobLimits.none(), false),
                (payload, context) -> context.group());
        Member leader = startLeader(work);
        leader.crons().create(mail("one", "acme"));
        leader.crons().create(CronDefinition.cron("two", YEARLY).withHandler("mail"));
        assertThat(leader.ended(leader.crons().trigger("one").orElseThrow()).group())
                .isEqualTo("acme");
        assertThat(leader.ended(leader.crons().trigger("two").orElseThrow()).group())
                .isEqualTo("declared");
    }

    @Test
    void leader_runs_a_cron_with_a_group() {
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        leader.crons()
                .create(CronDefinition.cron("grouped", YEARLY)
                        .withHandler("report")
                        .withGroup("acme"));
        due("grouped");
        awaitRuns(1);
        assertThat(leader.ended(ledger("grouped", 1).get(0).job()).group()).isEqualTo("acme");
    }

    @Test
    void invalid_group_is_rejected() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        refused(() -> leader.crons().create(mail("c", " ")), "Cron 'c': group ' ' must not be blank");
        refused(() -> leader.crons().create(mail("c", "a\nb")), "Cron 'c': group 'a?b' holds a control character");
        refused(
                () -> leader.crons().create(mail("c", "x".repeat(501))),
                "Cron 'c': group of 501 characters; at most 500 are allowed");
    }
}
