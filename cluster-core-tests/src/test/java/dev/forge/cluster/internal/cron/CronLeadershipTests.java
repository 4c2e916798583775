// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** Firing across changes of the scheduler leader. */
@ClusterPostgres
class CronLeadershipTests extends AbstractCronTests {

    CronLeadershipTests(TestDatabase database) {
        super(database);
    }

    /**
     * Shortens the time in which a new leadership is disputed to eight seconds; a pause of this machine must not end it.
     * Removes the liveness lock, because the death of the predecessor ends a dispute, too.
     */
    private static NodeSettings impatient(NodeSettings settings) {
        return TestNodes.withElectionEvery(
                TestNodes.withLease(
                        TestNodes.withoutLivenessLock(settings),
                        Duration.ofSeconds(8),
                        Duration.ofMillis(200),
                        Duration.ofSeconds(6)),
                Duration.ofMillis(100));
    }

    @Test
    void next_leader_fires_every_slot_once_without_gaps() {
        work.on(cron("tick", SECONDLY).overlapping().misfire(Misfire.CATCH_UP, 100), this::recordRun);
        Member one = startLeader(work);
        Member two = start("two", work);
        await().until(() -> ran("tick").size() >= 2);
        long term = cluster.term(Leadership.SCHEDULER);
        one.stop();
        await().until(() ->
                ran("tick").stream().filter(row -> row.term() > term).count() >= 2);
        two.crons().pause("tick");
        List<CronRun> rows = ran("tick");
        await().until(() -> runs.size() >= started(rows).size());
        assertConsecutive(rows);
        assertThat(runs.stream().map(Run::slot).sorted()).isEqualTo(slots(started(rows)));
        assertThat(runs.stream().map(Run::node).distinct()).containsExactly("one", "two");
    }

    @Test
    void new_leader_claims_runs_of_its_predecessor_at_once() {
        work.on(cron("report", YEARLY), this::recordRun);
        work.poll = Duration.ofMinutes(10);
        Member one = startLeader(work);
        Member two = start("two", work);
        awaitCron("report");
        jdbc.sql("INSERT INTO forge_job_pauses VALUES ('report')").update();
        due("report");
        ledger("report", 1);
        // The predecessor may still search because of the new run.
        one.engine().quiesce();
        // No notification is sent, and the next poll is minutes away.
        jdbc.sql("DELETE FROM forge_job_pauses").update();
        one.stop();
        await().until(() -> two.leadership().isLeader(Leadership.SCHEDULER));
        await().until(() -> runs.size() == 1);
        assertThat(runs.get(0).node()).isEqualTo("two");
    }

    @Test
    void disputed_leader_fires_crons_but_runs_none() {
        var undisputed = new CopyOnWriteArrayList<Boolean>();
        var second = new AtomicReference<Member>();
        work.on(cron("report", YEARLY), context -> {
            undisputed.add(second.get().node().elector().isUndisputed(Leadership.SCHEDULER));
            recordRun(context);
        });
        Member one = startLeader("one", work, CronLeadershipTests::impatient);
        Member two = cluster.start("two", work, CronLeadershipTests::impatient);
        second.set(two);
        awaitCron("report");
        // Repeated, because the next heartbeat makes the node compete again.
        await().until(() -> {
            one.node().elector().compete(false);
            jdbc.sql(
                            "SELECT pg_terminate_backend(backend_pid) FROM forge_leader_leases WHERE role = 'scheduler' AND node_id = ?")
                    .param(one.node().id())
                    .query()
                    .listOfRows();
            return two.leadership().isLeader(Leadership.SCHEDULER);
        });
        assertThat(two.node().elector().isUndisputed(Leadership.SCHEDULER)).isFalse();
        due("report");
        ledger("report", 1);
        awaitRuns(1);
        assertThat(undisputed).containsExactly(true);
        assertThat(runs.get(0).node()).isEqualTo("two");
    }

    @Test
    void leader_of_an_earlier_term_fires_nothing() {
        work.on(cron("report", YEARLY), this::recordRun);
        Member leader = startLeader(work);
        awaitCron("report");
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class.getPackageName());
        logger.setLevel(Level.INFO);
        logger.addAppender(log);
        try {
            // The node does not notice that its term is over, as if it had been frozen.
            jdbc.sql("UPDATE forge_leaders SET current_term = current_term + 1 WHERE role = 'scheduler'")
                    .update();
            due("report");
            await().until(() -> List.copyOf(log.list).stream()
                    .anyMatch(event -> event.getFormattedMessage().contains("is over")));
        } finally {
            logger.detachAppender(log);
            logger.setLevel(null);
        }
        assertThat(leader.leadership().isLeader(Leadership.SCHEDULER)).isTrue();
        assertThat(count("forge_cron_runs")).isZero();
        assertThat(count("forge_jobs")).isZero();
        assertThat(info("report").next()).isBefore(now());
    }
}
