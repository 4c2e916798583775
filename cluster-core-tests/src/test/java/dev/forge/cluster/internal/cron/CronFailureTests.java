// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** Verifies that crons which cannot be parsed, fired or locked do not affect other crons. */
@ClusterPostgres
class CronFailureTests extends AbstractCronTests {

    CronFailureTests(TestDatabase database) {
        super(database);
    }

    @Test
    void broken_cron_does_not_stop_other_crons() {
        work.on(cron("report", YEARLY), this::recordRun);
        work.on(cron("expression", YEARLY), this::recordRun);
        work.on(cron("zone", YEARLY), this::recordRun);
        startLeader(work);
        awaitCron("report");
        awaitReconciled(1);
        jdbc.sql("UPDATE forge_crons SET expression = 'now and then' WHERE name = 'expression'")
                .update();
        jdbc.sql("UPDATE forge_crons SET zone = 'Mars/Olympus' WHERE name = 'zone'")
                .update();
        due("expression", Duration.ofSeconds(7));
        due("zone", Duration.ofSeconds(6));
        due("report");
        awaitRuns(1);
        await().until(() -> info("expression").next() == null && info("zone").next() == null);
        assertThat(count("forge_cron_runs WHERE cron <> 'signal'")).isOne();
    }

    @Test
    void cron_changed_by_sql_cannot_forge_a_log_line() {
        work.on(cron("report", YEARLY), this::recordRun);
        startLeader(work);
        awaitCron("report");
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class.getPackageName());
        logger.addAppender(log);
        try {
            jdbc.sql("""
                    INSERT INTO forge_crons (name, handler, expression, next_fire_at)
                    VALUES ('x', 'report', E'now\\n2026-01-01 ERROR forged', now())
                    """).update();
            cluster.members().forEach(AbstractCronTests::fireSoon);
            await().until(() -> List.copyOf(log.list).stream()
                    .anyMatch(event -> event.getFormattedMessage().contains("forged")));
        } finally {
            logger.detachAppender(log);
        }
        assertThat(List.copyOf(log.list))
                .allSatisfy(event -> assertThat(event.getFormattedMessage()).doesNotContain("\n", "\r"));
    }

    @Test
    void failing_cron_is_excluded_and_retried() {
        work.on(cron("good", YEARLY), this::recordRun);
        work.on(cron("bad", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("good");
        leader.cronEngine().retryFailedAfter(Duration.ofMillis(300));
        jdbc.sql("""
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN RAISE EXCEPTION 'not this one' USING DETAIL = 'secret'; END $$
                """).update();
        jdbc.sql("""
                CREATE TRIGGER refuse BEFORE INSERT ON forge_cron_runs FOR EACH ROW WHEN (NEW.cron = 'bad')
                EXECUTE FUNCTION refuse()
                """).update();
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class.getPackageName());
        logger.addAppender(log);
        try {
            due("bad", Duration.ofSeconds(7));
            due("good", Duration.ofSeconds(6));
            awaitRuns(1);
            assertThat(runs.get(0).cron()).isEqualTo("good");
            assertThat(info("bad").problem())
                    .isEqualTo(
                            "could not be fired: the database returned SQLSTATE P0001; see the log of the scheduler");
            due("good", Duration.ofSeconds(3));
            awaitRuns(2);
        } finally {
            jdbc.sql("DROP FUNCTION refuse() CASCADE").update();
            logger.detachAppender(log);
        }
        awaitRuns(3);
        assertThat(info("bad").problem()).isNull();
        assertThat(List.copyOf(log.list))
                .filteredOn(event -> event.getLevel() == Level.WARN)
                .hasSize(1);
    }

    @Test
    void full_disk_excludes_no_cron() {
        work.on(cron("good", YEARLY), this::recordRun);
        startLeader(work);
        awaitCron("good");
        jdbc.sql("CREATE SEQUENCE refusals").update();
        try {
            jdbc.sql("""
                    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN
                        PERFORM nextval('refusals');
                        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
                    END $$
                    """).update();
            jdbc.sql("CREATE TRIGGER refuse BEFORE INSERT ON forge_cron_runs EXECUTE FUNCTION refuse()")
                    .update();
            due("good", Duration.ofSeconds(1));
            await().until(() -> jdbc.sql("SELECT last_value FROM refusals")
                            .query(Long.class)
                            .single()
                    >= 3);
        } finally {
            jdbc.sql("DROP FUNCTION refuse() CASCADE").update();
            jdbc.sql("DROP SEQUENCE refusals").update();
        }
        // A cron that failed on its own would be delayed by 30 seconds.
        await().atMost(Duration.ofSeconds(20)).until(() -> runs.size() == 1);
        assertThat(info("good").problem()).isNull();
    }

    @Test
    void excessive_jitter_in_the_table_is_capped() {
        work.on(cron("good", YEARLY), this::recordRun);
        work.on(cron("bad", YEARLY), this::recordRun);
        startLeader(work);
        awaitCron("good");
        awaitReconciled(1);
        jdbc.sql("UPDATE forge_crons SET jitter_millis = 9223372036854775807 WHERE name = 'bad'")
                .update();
        due("bad", Duration.ofSeconds(7));
        due("good", Duration.ofSeconds(6));
        awaitRuns(1);
        ledger("bad", 1);
        assertThat(info("bad").problem()).isNull();
    }

    @Test
    void corrected_cron_fires_again() {
        work.on(cron("declared", YEARLY), this::recordRun);
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        leader.crons().create(CronDefinition.cron("made", YEARLY).withHandler("mail"));
        awaitCron("declared");
        // One notification for the declaration of the node, and one for the created cron.
        awaitReconciled(2);
        jdbc.sql("UPDATE forge_crons SET expression = 'every full moon' WHERE name = 'declared'")
                .update();
        jdbc.sql("UPDATE forge_crons SET zone = 'Mars/Base' WHERE name = 'made'")
                .update();
        due("declared");
        due("made");
        await().until(() -> info("declared").next() == null && info("made").next() == null);
        assertThat(info("declared").problem()).startsWith("'every full moon' is not a cron expression");
        assertThat(info("made").problem()).startsWith("'Mars/Base' is not a time zone");
        jdbc.sql("UPDATE forge_crons SET zone = 'UTC', expression = '@yearly'").update();
        await().until(() -> info("declared").next() != null && info("made").next() != null);
        assertThat(info("declared").problem()).isNull();
        assertThat(info("made").problem()).isNull();
    }

    @Test
    void unreadable_declaration_does_not_block_other_crons() {
        startLeader(build(cron("odd", YEARLY), cron("report", YEARLY)));
        awaitCron("report");
        // A build with newer time zones could declare it.
        jdbc.sql("UPDATE forge_cron_sets SET definitions = jsonb_set(definitions, '{0,zone}', '\"Mars/Olympus\"')")
                .update();
        start("two", build(cron("other", YEARLY)));
        awaitCron("other");
        due("report");
        awaitRuns(1);
        assertThat(info("odd").zone()).isEqualTo("UTC");
    }

    @Test
    void stopped_cron_restarts_once_a_leader_can_parse_it() {
        startLeader(build(cron("report", YEARLY), cron("never", "-")));
        awaitCron("report");
        jdbc.sql("UPDATE forge_crons SET next_fire_at = NULL").update();
        reconcileUntil(() -> info("report").next() != null);
        assertThat(info("never").next()).isNull();
    }

    @Test
    void locked_cron_does_not_delay_other_crons() throws Exception {
        work.on(cron("held", YEARLY), this::recordRun).on(cron("free", YEARLY), this::recordRun);
        Member one = startLeader(work);
        awaitCron("free");
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("SELECT 1 FROM forge_crons WHERE name = 'held' FOR UPDATE");
            Member two = start("two", build(cron("held", "@daily"), cron("free", YEARLY)));
            one.leadership().leave(Leadership.SCHEDULER);
            await().until(() -> two.leadership().isLeader(Leadership.SCHEDULER));
            due("free");
            await().until(() -> runs.size() == 1);
            connection.rollback();
        }
        reconcileUntil(() -> info("held").expression().equals("@daily"));
    }

    @Test
    void locked_cron_does_not_delay_new_crons() throws Exception {
        startLeader(build(cron("held", YEARLY)));
        awaitCron("held");
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("SELECT 1 FROM forge_crons WHERE name = 'held' FOR UPDATE");
            start("two", build(cron("held", "@daily"), cron("fresh", YEARLY)));
            awaitCron("fresh");
            assertThat(info("held").expression()).isEqualTo(YEARLY);
            connection.rollback();
        }
        await().until(() -> info("held").expression().equals("@daily"));
    }
}
