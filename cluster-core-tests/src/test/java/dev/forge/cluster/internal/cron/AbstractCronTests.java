// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.internal.PatientAwaits;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.awaitility.core.ConditionFactory;
import org.junit.jupiter.api.AfterEach;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Fixture for tests of crons on nodes in this JVM. Most crons of the tests are due once a year; tests move the next slot to
 * where they need it.
 */
abstract class AbstractCronTests {

    static final String YEARLY = "@yearly";
    static final String SECONDLY = "* * * * * *";

    /** A run as its handler recorded it. */
    record Run(String cron, String node, Instant slot, long term) {}

    final TestDatabase database;
    final JdbcClient jdbc;
    final TestCluster cluster;
    final TestJobs work;
    final List<Run> runs = new CopyOnWriteArrayList<>();
    final CountDownLatch release = new CountDownLatch(1);
    /** The number of notifications that crons have changed. */
    private final AtomicInteger announcements = new AtomicInteger();

    AbstractCronTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = jobs();
    }

    static ConditionFactory await() {
        return PatientAwaits.await().pollInterval(Duration.ofMillis(20));
    }

    @AfterEach
    void close() {
        release.countDown();
        cluster.close();
    }

    TestJobs jobs() {
        return new TestJobs(database.dataSource());
    }

    void recordRun(CronContext context) {
        runs.add(new Run(context.name(), context.job().nodeName(), context.slot(), context.term()));
    }

    /** Records a run and blocks until {@link #release} is counted down. */
    void hold(CronContext context) throws InterruptedException {
        recordRun(context);
        assertThat(release.await(5, TimeUnit.MINUTES)).isTrue();
    }

    Member start(String name, TestJobs jobs) {
        return cluster.start(name, jobs, TestNodes::steady);
    }

    Member startLeader(String name, TestJobs jobs, UnaryOperator<NodeSettings> change) {
        Member member = cluster.create(name, jobs, settings -> change.apply(TestNodes.steady(settings)));
        member.node().components().register(new NodeComponent() {
            @Override
            public void heard(String notification) {
                if (notification.equals(CronEngine.CRONS_CHANGED)) {
                    announcements.incrementAndGet();
                }
            }
        });
        cluster.members().add(member);
        member.node().start();
        await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        return member;
    }

    Member startLeader(TestJobs jobs) {
        return startLeader("one", jobs, UnaryOperator.identity());
    }

    static UnaryOperator<NodeSettings> without(NodeRole... roles) {
        var left = EnumSet.allOf(NodeRole.class);
        left.removeAll(List.of(roles));
        return settings -> with(settings, left, List.of("general"));
    }

    static UnaryOperator<NodeSettings> offering(String... capabilities) {
        return settings -> with(settings, settings.presence().roles(), List.of(capabilities));
    }

    static NodeSettings with(NodeSettings settings, Set<NodeRole> roles, List<String> offered) {
        return TestNodes.withCapabilities(TestNodes.withRoles(settings, roles), offered);
    }

    /** Moves the next slot of a cron into the past and returns it. */
    Instant due(String cron, Duration ago) {
        Instant slot = now().minus(ago);
        slot = Instant.ofEpochSecond(slot.getEpochSecond());
        due(cron, slot);
        return slot;
    }

    void due(String cron, Instant slot) {
        await().until(() -> jdbc.sql("UPDATE forge_crons SET next_fire_at = ? WHERE name = ?")
                        .params(slot.atOffset(ZoneOffset.UTC), cron)
                        .update()
                == 1);
        cluster.members().forEach(AbstractCronTests::fireSoon);
    }

    Instant due(String cron) {
        return due(cron, Duration.ofSeconds(5));
    }

    /** Waits until the leader has completed a pass: it has decided a slot that became due after all others. */
    void awaitPass() {
        long before = count("forge_cron_runs WHERE cron = 'signal'");
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, paused, declared, next_fire_at)
                VALUES ('signal', '@yearly', true, false, clock_timestamp())
                ON CONFLICT (name) DO UPDATE SET next_fire_at = excluded.next_fire_at
                """).update();
        cluster.members().forEach(AbstractCronTests::fireSoon);
        await().until(() -> count("forge_cron_runs WHERE cron = 'signal'") > before);
    }

    /**
     * Waits until the leader has compared all definitions after that many notifications. A later comparison would revert
     * changes of the test to declared crons.
     */
    void awaitReconciled(int notifications) {
        await().until(() -> announcements.get() >= notifications);
        // The pass that decides the first signal may have begun before the notification.
        awaitPass();
        awaitPass();
    }

    static void fireSoon(Member member) {
        member.cronEngine().fireSoon();
    }

    Instant now() {
        return jdbc.sql("SELECT clock_timestamp()")
                .query(OffsetDateTime.class)
                .single()
                .toInstant();
    }

    /** Returns the ledger rows of a cron, oldest slot first. */
    List<CronRun> ledger(String cron) {
        var rows = new ArrayList<>(
                cluster.members().get(0).crons().runs(cron, 1_000).items());
        rows.sort(Comparator.comparing(CronRun::slot));
        return rows;
    }

    List<CronRun> ledger(String cron, int size) {
        await().until(() -> ledger(cron).size() >= size);
        List<CronRun> rows = ledger(cron);
        assertThat(rows).hasSize(size);
        return rows;
    }

    void awaitRuns(int size) {
        await().until(() -> runs.size() >= size);
        assertThat(runs).hasSize(size);
    }

    CronInfo info(String cron) {
        return cluster.members().get(0).crons().find(cron).orElseThrow();
    }

    void awaitCron(String name) {
        await().until(() -> cluster.members().get(0).crons().find(name).isPresent());
    }

    long count(String from) {
        return jdbc.sql("SELECT count(*) FROM " + from).query(Long.class).single();
    }

    void inTransactionThatRollsBack(Runnable changes) {
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            changes.run();
            status.setRollbackOnly();
        });
    }

    List<CronRun> ran(String cron) {
        return ledger(cron).stream().filter(row -> row.outcome() == Outcome.RAN).toList();
    }

    /** Returns the rows without those whose run was cancelled by a pause before it started. */
    static List<CronRun> started(List<CronRun> rows) {
        return rows.stream()
                .filter(row -> row.jobStatus() != JobStatus.CANCELLED)
                .toList();
    }

    static List<Instant> slots(List<CronRun> rows) {
        return rows.stream().map(CronRun::slot).toList();
    }

    static void assertConsecutive(List<CronRun> rows) {
        Instant first = rows.get(0).slot();
        assertThat(slots(rows))
                .isEqualTo(Stream.iterate(first, slot -> slot.plusSeconds(1))
                        .limit(rows.size())
                        .toList());
    }

    static Instant newYear(int year) {
        return OffsetDateTime.of(year, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC).toInstant();
    }

    static void refused(Runnable change, String message) {
        assertThatExceptionOfType(CronRejectedException.class)
                .isThrownBy(change::run)
                .withMessageStartingWith(message);
    }

    /** Has the leader reconcile definitions until the condition holds. */
    void reconcileUntil(BooleanSupplier condition) {
        await().until(() -> {
            cluster.members().forEach(member -> {
                member.cronEngine().removeOrphansAfter(Duration.ofMillis(200));
                member.cronEngine().heard(CronEngine.CRONS_CHANGED);
            });
            return condition.getAsBoolean();
        });
    }

    /** Has the leader reconcile definitions until it has removed all orphans. */
    void reconcile() {
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, declared) VALUES ('orphan', '-', true) ON CONFLICT DO NOTHING
                """).update();
        reconcileUntil(() -> !names().contains("orphan"));
    }

    List<String> names() {
        return jdbc.sql("SELECT name FROM forge_crons WHERE name <> 'signal' ORDER BY name")
                .query(String.class)
                .list();
    }

    TestJobs build(TestJobs.Cron... crons) {
        TestJobs build = jobs();
        for (TestJobs.Cron cron : crons) {
            build.on(cron, this::recordRun);
        }
        return build;
    }

    /** Returns the warnings that the cron package logs while an action runs. */
    static List<String> warnings(Runnable action) {
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class.getPackageName());
        logger.addAppender(log);
        try {
            action.run();
        } finally {
            logger.detachAppender(log);
        }
        return List.copyOf(log.list).stream()
                .filter(event -> event.getLevel() == Level.WARN)
                .map(ILoggingEvent::getFormattedMessage)
                .toList();
    }
}
