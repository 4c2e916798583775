// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.provider.Arguments;

/** Definitions and calls that are rejected. */
@ClusterPostgres
class CronRejectionTests extends AbstractCronTests {

    CronRejectionTests(TestDatabase database) {
        super(database);
    }

    static Stream<Arguments> nonsense() {
        CronDefinition good = CronDefinition.cron("c", YEARLY).withHandler("mail");
        return Stream.of(
                Arguments.of(
                        CronDefinition.cron(" ", YEARLY).withHandler("mail"), "Cron ' ': name ' ' must not be blank"),
                Arguments.of(CronDefinition.cron("a\0b", YEARLY).withHandler("mail"), "Cron 'a?b': name 'a?b' "),
                Arguments.of(good.withHandler(""), "Cron 'c': handler '' must not be blank"),
                Arguments.of(
                        CronDefinition.cron("x".repeat(201), YEARLY).withHandler("mail"),
                        "Cron name 'xxxxxxxxxxxxxxxxxxxx...' has 201 characters, the limit is 200"),
                Arguments.of(
                        CronDefinition.cron("n/../x y", YEARLY).withHandler("mail"),
                        "Cron name 'n/../x y' has an empty, '.' or '..' path segment"),
                Arguments.of(good.withCapability("a\0b"), "Cron 'c': capability 'a?b' "),
                Arguments.of(
                        good.withHandler("fax"),
                        "Cron 'c': no live node has handler 'fax'; known handlers: [mail, report]"),
                Arguments.of(
                        good.withTarget(CronTarget.LEADER),
                        "Cron 'c': target LEADER requires a method with @ClusterCron, but handler 'mail' is none"),
                Arguments.of(
                        CronDefinition.cron("c", "at noon").withHandler("mail"),
                        "Cron 'c': 'at noon' is not a cron expression: "),
                Arguments.of(
                        CronDefinition.cron("c", "0 0 30 2 *").withHandler("mail"),
                        "Cron 'c': '0 0 30 2 *' never fires"),
                Arguments.of(
                        CronDefinition.every("c", Duration.ofMillis(10)).withHandler("mail"),
                        "Cron 'c': 'PT0.01S' must be whole seconds"),
                Arguments.of(
                        CronDefinition.cron("c", "0 0 1" + ",1".repeat(250) + " * *")
                                .withHandler("mail"),
                        "Cron 'c': expression of 509 characters; at most 500 are allowed"),
                Arguments.of(
                        good.withCapability("x".repeat(501)),
                        "Cron 'c': capability of 501 characters; at most 500 are allowed"),
                Arguments.of(good.withCapability("@leader"), "Cron 'c': capability '@leader': those that begin with @"),
                Arguments.of(good.withPayload("x".repeat(2_000)), "Cron 'c': payload "),
                Arguments.of(good.withPayload("a\0b"), "Cron 'c': payload holds a NUL character"));
    }

    @Test
    void invalid_definition_is_rejected_with_a_reason() {
        work.maxPayload = 1_000;
        work.on("mail", context -> {});
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        leader.crons().create(CronDefinition.cron("good", YEARLY).withHandler("mail"));
        nonsense().forEach(example -> {
            var definition = (CronDefinition) example.get()[0];
            assertThatExceptionOfType(CronRejectedException.class)
                    .as(example.get()[1].toString())
                    .isThrownBy(() -> leader.crons().create(definition))
                    .withMessageStartingWith(example.get()[1].toString());
        });
        refused(
                () -> leader.crons()
                        .create(CronDefinition.cron("good", "@daily").withHandler("mail")),
                "Cron 'good' exists already");
        refused(() -> leader.crons().create(CronDefinition.cron("report", "@daily")), "Cron 'report' exists already");
        refused(
                () -> leader.crons().change(CronDefinition.cron("none", YEARLY).withHandler("mail")),
                "Unknown cron 'none'");
        refused(
                () -> leader.crons()
                        .change(CronDefinition.cron("good", "at noon").withHandler("mail")),
                "Cron 'good': 'at noon' is not a cron expression: ");
        refused(
                () -> leader.crons().change(CronDefinition.cron("report", "@daily")),
                "Cron 'report' is declared in code. Change it there, or pause it.");
        refused(
                () -> leader.crons().delete("report"),
                "Cron 'report' is declared in code. Change it there, or pause it.");
        refused(() -> leader.crons().trigger("none"), "Unknown cron 'none'");
        jdbc.sql("UPDATE forge_crons SET handler = 'fax' WHERE name = 'good'").update();
        refused(() -> leader.crons().trigger("good"), "Cron 'good': no live node has handler 'fax'");
        assertThat(leader.crons().list(10).items()).extracting(CronInfo::name).containsExactly("good", "report");
        assertThat(info("good").expression()).isEqualTo(YEARLY);
        assertThat(count("forge_jobs")).isZero();
    }

    @Test
    void node_without_the_function_role_changes_no_cron() {
        work.on(cron("report", YEARLY), this::recordRun);
        startLeader(work);
        Member gateway = cluster.start("gateway", work, without(NodeRole.FUNCTION));
        awaitCron("report");
        for (Runnable change : List.<Runnable>of(
                () -> gateway.crons().create(CronDefinition.cron("c", YEARLY).withHandler("report")),
                () -> gateway.crons().change(CronDefinition.cron("c", YEARLY).withHandler("report")),
                () -> gateway.crons().delete("c"),
                () -> gateway.crons().pause("report"),
                () -> gateway.crons().resume("report"),
                () -> gateway.crons().trigger("report"))) {
            assertThatExceptionOfType(MutationRefusedException.class).isThrownBy(change::run);
        }
        assertThat(gateway.crons().list(10).items()).hasSize(1);
    }
}
