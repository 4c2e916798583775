package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.job.TestJobs.cron;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.tuple;
import static dev.forge.cluster.internal.PatientAwaits.awaitOften;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipLostException;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.sql.Connection;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Crons from their definition to their runs, on nodes in this JVM. Most of them are due once a year: tests move their next
 * slot to where they want it.
 */
@ClusterPostgres
class CronTests {

    private static final String YEARLY = "@yearly";
    private static final String SECONDLY = "* * * * * *";

    record Order(String item, int quantity) {}

    /** A run as its handler saw it. */
    record Run(String cron, String node, Instant slot, long term) {}

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestJobs work;
    private final List<Run> runs = new CopyOnWriteArrayList<>();
    private final CountDownLatch release = new CountDownLatch(1);

    CronTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = jobs();
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (cron text, slot timestamptz)")
                .update();
        jdbc.sql("TRUNCATE effects").update();
    }

    @AfterEach
    void close() {
        release.countDown();
        cluster.close();
    }

    private TestJobs jobs() {
        return new TestJobs(database.dataSource());
    }

    private void note(CronContext context) {
        runs.add(new Run(context.name(), context.job().nodeName(), context.slot(), context.term()));
    }

    /** A handler that notes its run and does not end before it is told to. */
    private void hold(CronContext context) throws InterruptedException {
        note(context);
        assertThat(release.await(30, TimeUnit.SECONDS)).isTrue();
    }

    private Member start(String name, TestJobs its) {
        return cluster.start(name, its, UnaryOperator.identity());
    }

    private Member startLeader(String name, TestJobs its, UnaryOperator<NodeSettings> change) {
        Member member = cluster.start(name, its, change);
        awaitOften().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        return member;
    }

    private Member startLeader(TestJobs its) {
        return startLeader("one", its, UnaryOperator.identity());
    }

    private static UnaryOperator<NodeSettings> without(NodeRole... roles) {
        var left = EnumSet.allOf(NodeRole.class);
        left.removeAll(List.of(roles));
        return settings -> with(settings, left, List.of("general"));
    }

    private static UnaryOperator<NodeSettings> offering(String... capabilities) {
        return settings -> with(settings, settings.presence().roles(), List.of(capabilities));
    }

    private static NodeSettings with(NodeSettings settings, Set<NodeRole> roles, List<String> offered) {
        NodeSettings.Presence usual = settings.presence();
        return new NodeSettings(
                new NodeSettings.Presence(
                        usual.hostname(), usual.mode(), roles, offered, usual.version(), usual.info(), usual.load()),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    /** Lets a leadership be disputed for a second at most. */
    private static NodeSettings impatient(NodeSettings settings) {
        return new NodeSettings(
                settings.presence(),
                settings.heartbeat(),
                settings.detection(),
                new NodeSettings.Election(
                        settings.election().ground(),
                        Duration.ofMillis(100),
                        Duration.ofMillis(1_500),
                        Duration.ofMillis(200),
                        Duration.ofMillis(1_000)),
                settings.drainTimeout());
    }

    /** Makes a cron due, as if its next slot had been that long ago; answers the slot. */
    private Instant due(String cron, Duration ago) {
        Instant slot = now().minus(ago);
        slot = Instant.ofEpochSecond(slot.getEpochSecond());
        due(cron, slot);
        return slot;
    }

    private void due(String cron, Instant slot) {
        awaitOften().until(() -> jdbc.sql("UPDATE forge_crons SET next_fire_at = ? WHERE name = ?")
                        .params(slot.atOffset(ZoneOffset.UTC), cron)
                        .update()
                == 1);
        cluster.members().forEach(CronTests::hurry);
    }

    private Instant due(String cron) {
        return due(cron, Duration.ofSeconds(5));
    }

    /** The leader has gone through all that was due: it has decided what came after it. */
    private void awaitPass() {
        long before = count("forge_cron_runs WHERE cron = 'signal'");
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, paused, declared, next_fire_at)
                VALUES ('signal', '@yearly', true, false, clock_timestamp())
                ON CONFLICT (name) DO UPDATE SET next_fire_at = excluded.next_fire_at
                """).update();
        cluster.members().forEach(CronTests::hurry);
        awaitOften().until(() -> count("forge_cron_runs WHERE cron = 'signal'") > before);
    }

    private static void hurry(Member member) {
        member.cronEngine().fireSoon();
    }

    private Instant now() {
        return jdbc.sql("SELECT clock_timestamp()")
                .query(OffsetDateTime.class)
                .single()
                .toInstant();
    }

    /** What became of a cron's slots, the oldest first. */
    private List<CronRun> ledger(String cron) {
        var rows = new ArrayList<>(cluster.members().get(0).crons().runs(cron, 10_000));
        rows.sort(Comparator.comparing(CronRun::slot));
        return rows;
    }

    private List<CronRun> ledger(String cron, int size) {
        awaitOften().until(() -> ledger(cron).size() >= size);
        List<CronRun> rows = ledger(cron);
        assertThat(rows).hasSize(size);
        return rows;
    }

    private void awaitRuns(int size) {
        awaitOften().until(() -> runs.size() >= size);
        assertThat(runs).hasSize(size);
    }

    private CronInfo info(String cron) {
        return cluster.members().get(0).crons().find(cron).orElseThrow();
    }

    private void awaitCron(String name) {
        awaitOften().until(() -> cluster.members().get(0).crons().find(name).isPresent());
    }

    private long count(String from) {
        return jdbc.sql("SELECT count(*) FROM " + from).query(Long.class).single();
    }

    private void inTransactionThatRollsBack(Runnable changes) {
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            changes.run();
            status.setRollbackOnly();
        });
    }

    // Firing ------------------------------------------------------------------------------------------------

    @Test
    void every_slot_has_one_row_and_one_run_on_the_leader_of_three_nodes() {
        work.on(cron("tick", SECONDLY).overlapping(), this::note);
        Member leader = startLeader(work);
        start("two", work);
        start("three", work);
        awaitOften().until(() -> ledger("tick").size() >= 3);
        leader.crons().pause("tick");
        List<CronRun> rows = ran("tick");
        awaitOften().until(() -> runs.size() == rows.size());
        assertConsecutive(rows);
        assertThat(rows).allMatch(row -> row.term() == cluster.term(Leadership.SCHEDULER));
        assertThat(rows).allMatch(row -> row.job() != null && row.reason() == null);
        assertThat(runs.stream().map(Run::slot).sorted()).isEqualTo(slots(rows));
        assertThat(runs).allMatch(run -> run.node().equals("one"));
        awaitOften().until(() -> ran("tick").stream().allMatch(row -> row.jobStatus() == JobStatus.COMPLETED));
    }

    private List<CronRun> ran(String cron) {
        return ledger(cron).stream().filter(row -> row.outcome() == Outcome.RAN).toList();
    }

    private static List<Instant> slots(List<CronRun> rows) {
        return rows.stream().map(CronRun::slot).toList();
    }

    private static void assertConsecutive(List<CronRun> rows) {
        Instant first = rows.get(0).slot();
        assertThat(slots(rows))
                .isEqualTo(Stream.iterate(first, slot -> slot.plusSeconds(1))
                        .limit(rows.size())
                        .toList());
    }

    @Test
    void a_leader_runs_crons_even_if_it_is_no_worker() {
        work.on(cron("report", YEARLY), this::note);
        startLeader("one", work, without(NodeRole.WORKER));
        start("two", work);
        Instant slot = due("report");
        awaitRuns(1);
        assertThat(runs).containsExactly(new Run("report", "one", slot, cluster.term(Leadership.SCHEDULER)));
        assertThat(ledger("report", 1).get(0).outcome()).isEqualTo(Outcome.RAN);
    }

    @Test
    void what_the_leader_does_not_know_another_scheduler_runs() {
        startLeader(jobs());
        work.on(cron("report", YEARLY), this::note);
        cluster.start("worker", work, without(NodeRole.SCHEDULER));
        cluster.start("scheduler", work, without(NodeRole.WORKER));
        due("report");
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("scheduler");
    }

    @Test
    void what_no_scheduler_knows_a_worker_runs() {
        startLeader(jobs());
        work.on(cron("report", YEARLY), this::note);
        cluster.start("worker", work, without(NodeRole.SCHEDULER));
        due("report");
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("worker");
    }

    @Test
    void a_run_that_comes_back_from_a_former_leader_goes_to_a_scheduler_that_knows_it() {
        Member leader = startLeader(jobs());
        work.on(cron("report", YEARLY), this::note);
        start("two", work);
        awaitCron("report");
        leader.cronEngine().removeOrphansAfter(Duration.ofMillis(500));
        // As when a dead node's jobs return after its successor has looked.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, worker_capability, metadata)
                VALUES (gen_random_uuid(), 'report', '@leader', '{"cron": "report", "slot": "2026-01-01T00:00:00Z"}')
                """).update();
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("two");
    }

    @Test
    void any_worker_means_one_that_offers_the_capability() {
        work.on(cron("report", YEARLY).anyWorker("gpu"), this::note);
        startLeader(work);
        cluster.start("two", work, offering("gpu"));
        due("report");
        awaitRuns(1);
        assertThat(runs.get(0).node()).isEqualTo("two");
    }

    @Test
    void when_the_leader_leaves_the_next_one_goes_on_without_a_gap_or_a_double() {
        work.on(cron("tick", SECONDLY).overlapping().misfire(Misfire.CATCH_UP, 100), this::note);
        Member one = startLeader(work);
        Member two = start("two", work);
        awaitOften().until(() -> ran("tick").size() >= 2);
        long term = cluster.term(Leadership.SCHEDULER);
        one.stop();
        awaitOften().until(() ->
                ran("tick").stream().filter(row -> row.term() > term).count() >= 2);
        two.crons().pause("tick");
        List<CronRun> rows = ran("tick");
        awaitOften().until(() -> runs.size() >= rows.size());
        assertConsecutive(rows);
        assertThat(runs.stream().map(Run::slot).sorted()).isEqualTo(slots(rows));
        assertThat(runs.stream().map(Run::node).distinct()).containsExactly("one", "two");
    }

    @Test
    void a_new_leader_takes_what_the_former_one_left_at_once() {
        work.on(cron("report", YEARLY), this::note);
        work.poll = Duration.ofMinutes(10);
        Member one = startLeader(work);
        Member two = start("two", work);
        awaitCron("report");
        jdbc.sql("INSERT INTO forge_job_pauses VALUES ('report')").update();
        due("report");
        ledger("report", 1);
        // Nobody is told, and the next look is far away.
        jdbc.sql("DELETE FROM forge_job_pauses").update();
        one.stop();
        awaitOften().until(() -> two.leadership().isLeader(Leadership.SCHEDULER));
        awaitOften().until(() -> runs.size() == 1);
        assertThat(runs.get(0).node()).isEqualTo("two");
    }

    @Test
    void a_leader_whose_predecessor_may_still_be_at_it_fires_but_does_not_run() {
        var undisputed = new CopyOnWriteArrayList<Boolean>();
        var second = new AtomicReference<Member>();
        work.on(cron("report", YEARLY), context -> {
            undisputed.add(second.get().node().elector().isUndisputed(Leadership.SCHEDULER));
            note(context);
        });
        Member one = startLeader("one", work, CronTests::impatient);
        Member two = cluster.start("two", work, CronTests::impatient);
        second.set(two);
        awaitCron("report");
        // Again and again: its next heartbeat has it compete once more.
        awaitOften().until(() -> {
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
    void a_slot_that_is_in_the_ledger_already_runs_no_second_time() {
        work.on(cron("report", YEARLY), this::note);
        startLeader(work);
        awaitCron("report");
        Instant slot = Instant.ofEpochSecond(now().getEpochSecond() - 5);
        jdbc.sql("INSERT INTO forge_cron_runs (cron, slot, outcome, reason) VALUES ('report', ?, 'skipped', 'by hand')")
                .param(slot.atOffset(ZoneOffset.UTC))
                .update();
        due("report", slot);
        awaitOften().until(() -> info("report").next().isAfter(now()));
        assertThat(ledger("report", 1).get(0).reason()).isEqualTo("by hand");
        assertThat(count("forge_jobs")).isZero();
    }

    @Test
    void a_leader_of_a_former_term_fires_nothing() {
        work.on(cron("report", YEARLY), this::note);
        Member leader = startLeader(work);
        awaitCron("report");
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class);
        logger.setLevel(Level.INFO);
        logger.addAppender(log);
        try {
            // As if it had been frozen: it does not know.
            jdbc.sql("UPDATE forge_leaders SET current_term = current_term + 1 WHERE role = 'scheduler'")
                    .update();
            due("report");
            awaitOften().until(() -> List.copyOf(log.list).stream()
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

    @Test
    void a_broken_cron_does_not_stop_the_others() {
        work.on(cron("report", YEARLY), this::note);
        work.on(cron("expression", YEARLY), this::note);
        work.on(cron("zone", YEARLY), this::note);
        startLeader(work);
        awaitCron("report");
        jdbc.sql("UPDATE forge_crons SET expression = 'now and then' WHERE name = 'expression'")
                .update();
        jdbc.sql("UPDATE forge_crons SET zone = 'Mars/Olympus' WHERE name = 'zone'")
                .update();
        due("expression", Duration.ofSeconds(7));
        due("zone", Duration.ofSeconds(6));
        due("report");
        awaitRuns(1);
        awaitOften().until(() -> info("expression").next() == null && info("zone").next() == null);
        assertThat(count("forge_cron_runs")).isOne();
    }

    @Test
    void cron_named_by_sql_cannot_forge_a_log_line() {
        work.on(cron("report", YEARLY), this::note);
        startLeader(work);
        awaitCron("report");
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class);
        logger.addAppender(log);
        try {
            jdbc.sql("""
                    INSERT INTO forge_crons (name, handler, expression, next_fire_at)
                    VALUES (E'x\\n2026-01-01 ERROR forged', 'report', E'now\\nand then', now())
                    """).update();
            cluster.members().forEach(CronTests::hurry);
            awaitOften().until(() -> List.copyOf(log.list).stream()
                    .anyMatch(event -> event.getFormattedMessage().contains("forged")));
        } finally {
            logger.detachAppender(log);
        }
        assertThat(List.copyOf(log.list))
                .allSatisfy(event -> assertThat(event.getFormattedMessage()).doesNotContain("\n", "\r"));
    }

    @Test
    void one_that_cannot_be_fired_is_set_aside_and_taken_up_again() {
        work.on(cron("good", YEARLY), this::note);
        work.on(cron("bad", YEARLY), this::note);
        Member leader = startLeader(work);
        awaitCron("good");
        leader.cronEngine().tryAgainAfter(Duration.ofMillis(300));
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
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class);
        logger.addAppender(log);
        try {
            due("bad", Duration.ofSeconds(7));
            due("good", Duration.ofSeconds(6));
            awaitRuns(1);
            assertThat(runs.get(0).cron()).isEqualTo("good");
            assertThat(info("bad").problem()).isEqualTo("could not be fired: ERROR: not this one");
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
    void full_disk_is_no_fault_of_a_cron() {
        work.on(cron("good", YEARLY), this::note);
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
            awaitOften().until(() -> jdbc.sql("SELECT last_value FROM refusals")
                            .query(Long.class)
                            .single()
                    >= 3);
        } finally {
            jdbc.sql("DROP FUNCTION refuse() CASCADE").update();
            jdbc.sql("DROP SEQUENCE refusals").update();
        }
        // Not half a minute later, as after a fault of its own.
        awaitOften().atMost(Duration.ofSeconds(10)).until(() -> runs.size() == 1);
        assertThat(info("good").problem()).isNull();
    }

    /** A cron made at run time, due since so many slots, with a payload of a megabyte that cannot be compressed. */
    private void makeLargeAndDue(String name, int slots) {
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, handler, target, misfire, overlap, catch_up_limit, declared, payload,
                                         next_fire_at)
                SELECT :name, '* * * * * *', 'mail', 'any-worker', 'catch-up', 'allow', :slots, false,
                       jsonb_build_object('text', string_agg(md5(:name || i), '')),
                       date_trunc('second', clock_timestamp()) - (:slots - 1) * interval '1 second'
                FROM generate_series(1, 31250) AS i
                """).param("name", name).param("slots", slots).update();
    }

    @Test
    void runs_with_large_payloads_are_enqueued_a_few_megabytes_at_a_time() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        jdbc.sql("CREATE TABLE enqueued (bytes bigint)").update();
        jdbc.sql("""
                CREATE FUNCTION measure() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    INSERT INTO enqueued SELECT sum(pg_column_size(payload)) FROM added;
                    RETURN NULL;
                END $$
                """).update();
        jdbc.sql("""
                CREATE TRIGGER measure AFTER INSERT ON forge_jobs REFERENCING NEW TABLE AS added
                FOR EACH STATEMENT EXECUTE FUNCTION measure()
                """).update();
        try {
            new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
                makeLargeAndDue("catching-up", 7);
                for (int i = 0; i < 7; i++) {
                    makeLargeAndDue("large-" + i, 1);
                }
            });
            hurry(leader);
            awaitOften().until(() -> ran("catching-up").size() >= 7 && count("forge_crons WHERE last_job_id IS NULL") == 0);
        } finally {
            jdbc.sql("DROP FUNCTION measure() CASCADE").update();
        }
        assertConsecutive(ran("catching-up"));
        assertThat(jdbc.sql("SELECT max(bytes) FROM enqueued").query(Long.class).single())
                .as("bytes in one statement, which has five seconds")
                .isLessThan(5_000_000);
    }

    @Test
    void a_jitter_without_bounds_stops_nobody() {
        work.on(cron("good", YEARLY), this::note);
        work.on(cron("bad", YEARLY), this::note);
        startLeader(work);
        awaitCron("good");
        jdbc.sql("UPDATE forge_crons SET jitter_millis = 9223372036854775807 WHERE name = 'bad'")
                .update();
        due("bad", Duration.ofSeconds(7));
        due("good", Duration.ofSeconds(6));
        awaitRuns(1);
        ledger("bad", 1);
        assertThat(info("bad").problem()).isNull();
    }

    @Test
    void what_is_mended_by_hand_fires_again() {
        work.on(cron("declared", YEARLY), this::note);
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        leader.crons().create(CronDefinition.cron("made", YEARLY).withHandler("mail"));
        awaitCron("declared");
        jdbc.sql("UPDATE forge_crons SET expression = 'every full moon' WHERE name = 'declared'")
                .update();
        jdbc.sql("UPDATE forge_crons SET zone = 'Mars/Base' WHERE name = 'made'")
                .update();
        due("declared");
        due("made");
        awaitOften().until(() -> info("declared").next() == null && info("made").next() == null);
        assertThat(info("declared").problem()).startsWith("'every full moon' is no cron expression");
        assertThat(info("made").problem()).startsWith("'Mars/Base' is no time zone");
        jdbc.sql("UPDATE forge_crons SET zone = 'UTC', expression = '@yearly'").update();
        awaitOften().until(() -> info("declared").next() != null && info("made").next() != null);
        assertThat(info("declared").problem()).isNull();
        assertThat(info("made").problem()).isNull();
    }

    @Test
    void what_only_nodes_know_that_are_no_workers_waits_for_one() {
        work.on(cron("report", YEARLY).anyWorker(null), this::note);
        Member leader = startLeader("one", work, without(NodeRole.WORKER));
        due("report");
        awaitPass();
        assertThat(ledger("report")).isEmpty();
        assertThat(info("report").known()).isFalse();
        refused(() -> leader.crons().trigger("report"), "cron 'report': no live worker has its handler 'report'");
        start("two", work);
        awaitRuns(1);
        assertThat(info("report").known()).isTrue();
    }

    @Test
    void rows_that_wait_for_a_handler_are_left_alone() {
        startLeader(jobs());
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, declared, next_fire_at)
                VALUES ('nobodys', '@yearly', false, now() - interval '2 minutes')
                """).update();
        awaitPass();
        String touched = locker("nobodys");
        for (int i = 0; i < 5; i++) {
            awaitPass();
        }
        assertThat(locker("nobodys")).isEqualTo(touched);
    }

    /** The last transaction that has locked a row. */
    private String locker(String cron) {
        return jdbc.sql("SELECT xmax::text FROM forge_crons WHERE name = ?")
                .param(cron)
                .query(String.class)
                .single();
    }

    @Test
    void what_nobody_knows_waits_and_is_then_a_misfire() {
        Member leader = startLeader(jobs());
        work.on(cron("report", YEARLY).misfire(Misfire.SKIP, 1), this::note);
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, misfire, declared, next_fire_at)
                VALUES ('report', '@yearly', 'skip', false, now() - interval '2 minutes')
                """).update();
        awaitPass();
        assertThat(ledger("report")).isEmpty();
        assertThat(leader.crons().find("report").orElseThrow().known()).isFalse();
        start("two", work);
        List<CronRun> rows = ledger("report", 1);
        assertThat(rows.get(0).outcome()).isEqualTo(Outcome.MISSED);
        assertThat(rows.get(0).reason()).endsWith("s late; misfire skip");
        assertThat(runs).isEmpty();
    }

    @Test
    void an_outage_over_two_slots_means_none_one_or_two_runs() {
        work.ledger = Duration.ofDays(3 * 366);
        for (Misfire misfire : List.of(Misfire.SKIP, Misfire.FIRE_ONCE, Misfire.CATCH_UP)) {
            work.on(cron(misfire.name(), YEARLY).misfire(misfire, 10), this::note);
        }
        startLeader(work);
        int year = now().atOffset(ZoneOffset.UTC).getYear();
        List<Instant> slots = List.of(newYear(year - 1), newYear(year));
        Map.of(Misfire.SKIP, 0, Misfire.FIRE_ONCE, 1, Misfire.CATCH_UP, 2).forEach((misfire, expected) -> {
            String cron = misfire.name();
            due(cron, slots.get(0));
            assertThat(slots(ledger(cron, 2))).isEqualTo(slots);
            assertThat(info(cron).next()).isEqualTo(newYear(year + 1));
            // The latest ones.
            assertThat(slots(ran(cron))).isEqualTo(slots.subList(2 - expected, 2));
        });
        awaitRuns(3);
        // The oldest first.
        assertThat(runs.stream()
                        .filter(run -> run.cron().equals("CATCH_UP"))
                        .map(Run::slot)
                        .toList())
                .isEqualTo(slots);
    }

    @Test
    void a_slot_from_before_the_ledgers_time_runs() {
        work.ledger = Duration.ofMillis(1);
        work.on(cron("report", YEARLY), this::note);
        startLeader(work);
        Instant slot = due("report", Duration.ofDays(8));
        awaitRuns(1);
        assertThat(runs.get(0).slot()).isEqualTo(slot);
        assertThat(slots(ledger("report", 1))).containsExactly(slot);
    }

    private static Instant newYear(int year) {
        return OffsetDateTime.of(year, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC).toInstant();
    }

    @Test
    void a_thousand_crons_that_are_due_at_once_fire_in_a_few_batches() {
        Member leader = startLeader(work);
        jdbc.sql("INSERT INTO forge_job_pauses VALUES ('report')").update();
        work.on(cron("report", YEARLY).anyWorker(null), this::note);
        start("two", work);
        awaitCron("report");
        jdbc.sql("""
                INSERT INTO forge_crons (name, handler, expression, target, declared, next_fire_at)
                SELECT 'cron ' || n, 'report', '@yearly', 'any-worker', false, now() - interval '1 second'
                FROM generate_series(1, 1000) AS n
                """).update();
        long begin = System.nanoTime();
        hurry(leader);
        awaitOften().pollInterval(Duration.ofMillis(5)).until(() -> count("forge_cron_runs") == 1000);
        System.out.printf("1000 crons fired in %d ms%n", (System.nanoTime() - begin) / 1_000_000);
        assertThat(count("forge_jobs")).isEqualTo(1000);
        assertThat(jdbc.sql("SELECT count(DISTINCT xmin::text) FROM forge_cron_runs")
                        .query(Long.class)
                        .single())
                .isLessThanOrEqualTo(3);
        assertThat(count("forge_crons WHERE next_fire_at <= now()")).isZero();
    }

    @Test
    void by_chance_a_run_begins_later() {
        work.on(cron("report", YEARLY).jitter(Duration.ofHours(1)).overlapping(), this::note);
        startLeader(work);
        awaitCron("report");
        for (int i = 0; i < 5; i++) {
            due("report", Duration.ofSeconds(20 - i));
            ledger("report", i + 1);
        }
        List<Long> delays = jdbc.sql("""
                SELECT (extract(epoch FROM j.scheduled_at - r.fired_at) * 1000)::bigint
                FROM forge_cron_runs r JOIN forge_jobs j ON j.id = r.job_id
                """).query(Long.class).list();
        assertThat(delays).hasSize(5).allMatch(delay -> delay >= -1000 && delay <= 3_601_000);
        // The chance of five being this early is one in a billion.
        assertThat(delays).anyMatch(delay -> delay > 60_000).doesNotHaveDuplicates();
    }

    // Overlap, pause, trigger -------------------------------------------------------------------------------

    @Test
    void a_slot_whose_predecessor_still_runs_is_skipped() {
        work.on(cron("report", YEARLY), this::hold);
        startLeader(work);
        due("report", Duration.ofSeconds(10));
        awaitRuns(1);
        due("report");
        List<CronRun> rows = ledger("report", 2);
        assertThat(rows.get(1).outcome()).isEqualTo(Outcome.SKIPPED);
        assertThat(rows.get(1).reason())
                .startsWith(
                        "job " + rows.get(0).job() + " of slot " + rows.get(0).slot() + " runs since ")
                .matches(".*T..:..:..Z");
        release.countDown();
        awaitOften().until(() -> ledger("report").get(0).jobStatus() == JobStatus.COMPLETED);
        due("report", Duration.ZERO);
        awaitRuns(2);
    }

    @Test
    void unless_they_may_overlap() {
        work.on(cron("report", YEARLY).overlapping(), this::hold);
        startLeader(work);
        due("report", Duration.ofSeconds(10));
        awaitRuns(1);
        due("report");
        awaitRuns(2);
        assertThat(ledger("report", 2)).allMatch(row -> row.outcome() == Outcome.RAN);
    }

    @Test
    void what_is_caught_up_with_waits_for_its_predecessor() {
        work.on(cron("report", YEARLY).misfire(Misfire.CATCH_UP, 10), this::hold);
        startLeader(work);
        due("report", Duration.ofSeconds(10));
        awaitRuns(1);
        Instant second = due("report");
        awaitPass();
        ledger("report", 1);
        assertThat(info("report").next()).isEqualTo(second);
        release.countDown();
        awaitRuns(2);
        assertThat(runs.get(1).slot()).isEqualTo(second);
    }

    @Test
    void while_it_is_paused_its_slots_are_skipped() {
        work.on(cron("report", YEARLY), this::note);
        Member leader = startLeader(work);
        awaitCron("report");
        Member two = start("two", work);
        assertThat(two.crons().pause("report")).isTrue();
        assertThat(two.crons().pause("report")).isTrue();
        assertThat(info("report").paused()).isTrue();
        due("report", Duration.ofHours(1));
        CronRun skipped = ledger("report", 1).get(0);
        assertThat(skipped.outcome()).isEqualTo(Outcome.SKIPPED);
        assertThat(skipped.reason()).isEqualTo("paused");
        assertThat(leader.crons().resume("report")).isTrue();
        assertThat(leader.crons().resume("report")).isFalse();
        due("report");
        awaitRuns(1);
        assertThat(leader.crons().pause("none")).isFalse();
        assertThat(leader.crons().resume("none")).isFalse();
    }

    @Test
    void a_trigger_runs_it_now_from_any_node_paused_or_not() {
        work.on(cron("report", YEARLY), this::note);
        startLeader(work);
        Member two = start("two", work);
        awaitCron("report");
        two.crons().pause("report");
        Instant next = info("report").next();
        UUID job = two.crons().trigger("report").orElseThrow();
        awaitRuns(1);
        CronRun row = ledger("report", 1).get(0);
        assertThat(row.outcome()).isEqualTo(Outcome.RAN);
        assertThat(row.reason()).isEqualTo("triggered");
        assertThat(row.job()).isEqualTo(job);
        assertThat(row.term()).isNull();
        assertThat(runs.get(0).slot()).isEqualTo(row.slot());
        assertThat(info("report").next()).isEqualTo(next);
    }

    @Test
    void a_trigger_respects_overlap() {
        work.on(cron("report", YEARLY), this::hold);
        work.on(cron("beside", YEARLY).overlapping(), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        UUID first = leader.crons().trigger("report").orElseThrow();
        assertThat(leader.crons().trigger("report")).isEmpty();
        CronRun skipped = ledger("report", 2).get(1);
        assertThat(skipped.outcome()).isEqualTo(Outcome.SKIPPED);
        assertThat(skipped.reason()).startsWith("triggered, but job " + first);
        due("report");
        awaitOften().until(() -> ledger("report").size() == 3);
        assertThat(ran("report")).hasSize(1);
        assertThat(leader.crons().trigger("beside")).isPresent();
        assertThat(leader.crons().trigger("beside")).isPresent();
        awaitRuns(3);
    }

    @Test
    void who_waited_for_a_trigger_sees_its_run() throws Exception {
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        var second = new AtomicReference<Optional<UUID>>();
        var thread = new Thread(() -> second.set(leader.crons().trigger("report")));
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            assertThat(leader.crons().trigger("report")).isPresent();
            thread.start();
            awaitOften().until(() ->
                    count("pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%forge_crons%'") > 0);
        });
        thread.join();
        assertThat(second.get()).isEmpty();
        awaitRuns(1);
    }

    @Test
    void a_trigger_that_waited_for_the_leader_sees_its_run() throws Exception {
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        jdbc.sql("""
                CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN IF NEW.term IS NOT NULL THEN PERFORM pg_sleep(1); END IF; RETURN NEW; END $$
                """).update();
        jdbc.sql("CREATE TRIGGER slow BEFORE INSERT ON forge_cron_runs FOR EACH ROW EXECUTE FUNCTION slow()")
                .update();
        try {
            due("report");
            awaitOften().until(() -> count("pg_stat_activity WHERE wait_event = 'PgSleep'") > 0);
            assertThat(leader.crons().trigger("report")).isEmpty();
        } finally {
            jdbc.sql("DROP FUNCTION slow() CASCADE").update();
        }
        awaitRuns(1);
    }

    @Test
    void a_run_that_fails_does_not_silence_the_slots_after_it() {
        work.backoff = (attempts, failure) -> Duration.ofHours(1);
        work.on(cron("report", YEARLY), context -> {
            note(context);
            throw new IllegalStateException("no paper");
        });
        Member leader = startLeader(work);
        due("report", Duration.ofSeconds(9));
        awaitOften().until(() -> count("forge_jobs WHERE status = 'pending' AND attempts = 1") == 1);
        Instant second = due("report", Duration.ofSeconds(6));
        awaitRuns(2);
        assertThat(runs.get(1).slot()).isEqualTo(second);
        CronRun first = ledger("report", 2).get(0);
        assertThat(first.jobStatus()).isEqualTo(JobStatus.CANCELLED);
        assertThat(first.error())
                .startsWith("the run of a later slot took its place; ")
                .contains("no paper");
        awaitOften().until(() -> count("forge_jobs WHERE status = 'pending' AND attempts = 1") == 1);
        assertThat(leader.crons().trigger("report")).isPresent();
        awaitRuns(3);
        assertThat(count("forge_jobs WHERE status = 'cancelled'")).isEqualTo(2);
    }

    @Test
    void what_is_to_be_caught_up_with_is_tried_until_it_has_failed() {
        work.backoff = (attempts, failure) -> Duration.ofHours(1);
        work.on(cron("report", YEARLY).misfire(Misfire.CATCH_UP, 10), context -> {
            note(context);
            throw new IllegalStateException("no paper");
        });
        Member leader = startLeader(work);
        due("report", Duration.ofSeconds(9));
        awaitOften().until(() -> count("forge_jobs WHERE status = 'pending' AND attempts = 1") == 1);
        due("report", Duration.ofSeconds(6));
        awaitPass();
        assertThat(leader.crons().trigger("report")).isEmpty();
        assertThat(ledger("report", 2).get(1).reason()).contains(" retries at ");
        awaitRuns(1);
    }

    @Test
    void the_last_run_is_seen_behind_slots_that_did_not_run() {
        work.on(cron("report", YEARLY), context -> {
            throw new PermanentJobFailure("no paper");
        });
        Member leader = startLeader(work);
        Instant ran = due("report", Duration.ofSeconds(9));
        awaitOften().until(() -> ledger("report").stream().anyMatch(row -> row.jobStatus() == JobStatus.FAILED));
        leader.crons().pause("report");
        Instant skipped = due("report");
        ledger("report", 2);
        CronRun last = info("report").lastRun();
        assertThat(last.slot()).isEqualTo(ran);
        assertThat(last.jobStatus()).isEqualTo(JobStatus.FAILED);
        assertThat(last.error()).contains("no paper");
        assertThat(last.attempts()).isOne();
        assertThat(last.finishedAt()).isNotNull();
        assertThat(info("report").latest().slot()).isEqualTo(skipped);
    }

    @Test
    void what_became_of_a_run_is_known_when_its_job_is_gone() {
        work.on(cron("report", YEARLY), context -> {
            throw new PermanentJobFailure("no paper");
        });
        Member leader = startLeader(work);
        due("report", Duration.ofSeconds(9));
        awaitOften().until(() -> ledger("report").stream().anyMatch(row -> row.jobStatus() == JobStatus.FAILED));
        CronRun before = info("report").lastRun();
        // Nor does a job of the application's get in the way that looks a little like one of a cron's.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, metadata)
                VALUES (gen_random_uuid(), 'other', 'failed', '{"cron": "report", "slot": "at noon"}')
                """).update();
        assertThat(jdbc.sql("DELETE FROM forge_jobs WHERE status = 'failed'").update())
                .isEqualTo(2);
        assertThat(leader.jobs().find(before.job())).isEmpty();
        assertThat(info("report").lastRun()).isEqualTo(before);
    }

    @Test
    void a_run_that_was_put_off_by_chance_does_not_outlive_its_cron_or_a_pause() {
        work.on(cron("report", YEARLY), this::note);
        Member leader = startLeader(work);
        awaitCron("report");
        for (String name : List.of("paused", "deleted")) {
            leader.crons()
                    .create(CronDefinition.cron(name, YEARLY)
                            .withHandler("report")
                            .withJitter(Duration.ofDays(1)));
            due(name);
            ledger(name, 1);
        }
        leader.crons().pause("paused");
        leader.crons().delete("deleted");
        assertThat(count("forge_jobs WHERE status = 'cancelled' AND last_error LIKE 'its cron was % before it began'"))
                .isEqualTo(2);
    }

    @Test
    void a_trigger_shares_the_fate_of_the_callers_transaction() {
        work.on(cron("report", YEARLY), this::note);
        Member leader = startLeader(work);
        awaitCron("report");
        inTransactionThatRollsBack(
                () -> assertThat(leader.crons().trigger("report")).isPresent());
        assertThat(count("forge_jobs")).isZero();
        assertThat(count("forge_cron_runs")).isZero();
        // A slot that was due meanwhile is only late.
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            assertThat(leader.crons().trigger("report")).isPresent();
            assertThat(runs).isEmpty();
        });
        awaitRuns(1);
    }

    @Test
    void changes_share_the_fate_of_the_callers_transaction() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        inTransactionThatRollsBack(
                () -> leader.crons().create(CronDefinition.cron("c", YEARLY).withHandler("mail")));
        assertThat(leader.crons().find("c")).isEmpty();
        leader.crons().create(CronDefinition.cron("c", YEARLY).withHandler("mail"));
        inTransactionThatRollsBack(() -> {
            leader.crons().pause("c");
            leader.crons().change(CronDefinition.cron("c", "@daily").withHandler("mail"));
        });
        assertThat(info("c").expression()).isEqualTo(YEARLY);
        assertThat(info("c").paused()).isFalse();
        inTransactionThatRollsBack(() -> leader.crons().delete("c"));
        assertThat(leader.crons().find("c")).isPresent();
    }

    // Made at run time --------------------------------------------------------------------------------------

    @Test
    void a_cron_made_at_run_time_brings_its_payload_to_a_job() {
        var got = new CopyOnWriteArrayList<Object>();
        work.on(job("mail").taking(Order.class), (payload, context) -> {
            got.add(payload);
            got.add(context.metadata().get("cron"));
            got.add(context.maxAttempts());
            return null;
        });
        startLeader(jobs());
        Member two = cluster.start("two", work, without(NodeRole.SCHEDULER));
        two.crons()
                .create(CronDefinition.cron("mail-berlin", "0 6 * * MON-FRI")
                        .withZone(ZoneId.of("Europe/Berlin"))
                        .withHandler("mail")
                        .withMaxAttempts(7)
                        .withPayload(new Order("anvil", 2)));
        CronInfo made = info("mail-berlin");
        assertThat(made.declared()).isFalse();
        assertThat(made.known()).isTrue();
        assertThat(made.handler()).isEqualTo("mail");
        assertThat(made.zone()).isEqualTo("Europe/Berlin");
        assertThat(made.target()).isEqualTo(CronTarget.ANY_WORKER);
        assertThat(made.misfire()).isEqualTo(Misfire.FIRE_ONCE);
        assertThat(made.catchUpLimit()).isEqualTo(10);
        assertThat(made.next())
                .isEqualTo(CronSchedule.of("0 6 * * MON-FRI", "Europe/Berlin").next(now()));
        due("mail-berlin");
        awaitOften().until(() -> got.size() == 3);
        assertThat(got).containsExactly(new Order("anvil", 2), "mail-berlin", 7);
        assertThat(two.crons().delete("mail-berlin")).isTrue();
        assertThat(two.crons().delete("mail-berlin")).isFalse();
        assertThat(two.crons().find("mail-berlin")).isEmpty();
        assertThat(two.crons().list()).isEmpty();
    }

    @Test
    void a_cron_method_reads_the_payload_of_a_cron_made_at_run_time() {
        var got = new CopyOnWriteArrayList<Optional<Order>>();
        work.on(cron("report", YEARLY), context -> got.add(context.payload(Order.class)));
        Member leader = startLeader(work);
        awaitCron("report");
        leader.crons()
                .create(CronDefinition.cron("berlin", YEARLY)
                        .withHandler("report")
                        .withPayload(new Order("anvil", 2)));
        leader.crons().trigger("berlin");
        awaitOften().until(() -> got.size() == 1);
        leader.crons().trigger("report");
        awaitOften().until(() -> got.size() == 2);
        assertThat(got).containsExactly(Optional.of(new Order("anvil", 2)), Optional.empty());
    }

    @Test
    void an_interval_is_stored_in_one_form() {
        work.on("mail", context -> {});
        Member leader = startLeader(work);
        leader.crons().create(CronDefinition.cron("c", " @every 90s ").withHandler("mail"));
        assertThat(info("c").expression()).isEqualTo("@every PT1M30S");
    }

    @Test
    void who_is_made_again_does_not_overlap_with_who_was_deleted() {
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        awaitCron("report");
        CronDefinition mine = CronDefinition.cron("mine", YEARLY).withHandler("report");
        leader.crons().create(mine);
        Instant ran = due("mine");
        awaitRuns(1);
        leader.crons().delete("mine");
        leader.crons().create(mine);
        assertThat(leader.crons().trigger("mine")).isEmpty();
        // Deleting was somebody's will: it begins anew.
        assertThat(info("mine").next()).isAfter(now());
        assertThat(jdbc.sql("SELECT last_fire_at FROM forge_crons WHERE name = 'mine'")
                        .query(OffsetDateTime.class)
                        .single()
                        .toInstant())
                .isEqualTo(ran);
    }

    @Test
    void a_new_cron_is_fired_in_time_whoever_makes_it() {
        work.on(job("mail"), (payload, context) -> {
            runs.add(new Run(context.metadata().get("cron"), context.nodeName(), context.scheduledAt(), 0));
            return null;
        });
        startLeader(work);
        Member two = start("two", work);
        two.crons().create(CronDefinition.every("tick", Duration.ofSeconds(1)).withHandler("mail"));
        awaitOften().until(() -> !runs.isEmpty());
        assertThat(two.crons().delete("tick")).isTrue();
    }

    @Test
    void a_changed_cron_counts_its_slots_from_now_on_and_leaves_none_out() {
        work.ledger = Duration.ofDays(3 * 366);
        work.on(cron("report", YEARLY), this::hold);
        Member leader = startLeader(work);
        CronDefinition definition = CronDefinition.cron("mine", YEARLY)
                .withHandler("report")
                .withTarget(CronTarget.LEADER)
                .withMisfire(Misfire.CATCH_UP)
                .withPayload(Map.of("version", 1));
        awaitCron("report");
        leader.crons().create(definition);
        int year = now().atOffset(ZoneOffset.UTC).getYear();
        due("mine", newYear(year - 2));
        awaitRuns(1);
        // Two slots wait for the first. The schedule stays: they go on waiting.
        leader.crons().change(definition.withPayload(Map.of("version", 2)));
        assertThat(info("mine").next()).isEqualTo(newYear(year - 1));
        leader.crons().change(CronDefinition.cron("mine", "@monthly").withHandler("report"));
        assertThat(info("mine").next())
                .isEqualTo(CronSchedule.of("@monthly", "UTC").next(now()));
        List<CronRun> rows = ledger("mine", 3);
        assertThat(slots(rows)).containsExactly(newYear(year - 2), newYear(year - 1), newYear(year));
        assertThat(rows.subList(1, 3))
                .allMatch(row -> row.outcome() == Outcome.MISSED && "its schedule was changed".equals(row.reason()));
        assertThat(info("mine").target()).isEqualTo(CronTarget.ANY_WORKER);
    }

    static Stream<Arguments> nonsense() {
        CronDefinition good = CronDefinition.cron("c", YEARLY).withHandler("mail");
        return Stream.of(
                Arguments.of(CronDefinition.cron(" ", YEARLY).withHandler("mail"), "cron ' ': its name ' ' is empty"),
                Arguments.of(
                        CronDefinition.cron("a\0b", YEARLY).withHandler("mail"),
                        "cron 'a?b': its name 'a?b' holds a control character (NUL"),
                Arguments.of(good.withHandler(""), "cron 'c': its handler '' is empty"),
                Arguments.of(CronDefinition.cron(null, YEARLY).withHandler("mail"), "cron '': its name is null"),
                Arguments.of(CronDefinition.cron("c", null).withHandler("mail"), "cron 'c': its expression is null"),
                Arguments.of(good.withHandler(null), "cron 'c': its handler is null"),
                Arguments.of(good.withTarget(null), "cron 'c': its target is null"),
                Arguments.of(good.withMisfire(null), "cron 'c': its misfire is null"),
                Arguments.of(good.withOverlap(null), "cron 'c': its overlap is null"),
                Arguments.of(good.withJitter(null), "cron 'c': its jitter is null"),
                Arguments.of(
                        good.withJitter(Duration.ofSeconds(Long.MAX_VALUE)),
                        "cron 'c': jitter PT2562047788015215H30M7S does not lie between"),
                Arguments.of(
                        CronDefinition.cron("x".repeat(201), YEARLY).withHandler("mail"),
                        "the name 'xxxxxxxxxxxxxxxxxxxx...' of a cron has 201 characters, more than 200"),
                Arguments.of(
                        CronDefinition.cron("n/../x y", YEARLY).withHandler("mail"),
                        "the name 'n/../x y' of a cron is no path by which the endpoint could find it"),
                Arguments.of(
                        good.withCapability("a\0b"), "cron 'c': its capability 'a?b' holds a control character (NUL"),
                Arguments.of(
                        good.withHandler("fax"),
                        "cron 'c': no live node has a handler 'fax'; known are [mail, report]"),
                Arguments.of(
                        good.withTarget(CronTarget.LEADER),
                        "cron 'c': the leader runs methods with @ClusterCron only, and 'mail' is none; use ANY_WORKER"),
                Arguments.of(
                        CronDefinition.cron("c", "at noon").withHandler("mail"),
                        "cron 'c': 'at noon' is no cron expression: "),
                Arguments.of(
                        CronDefinition.cron("c", "0 0 30 2 *").withHandler("mail"),
                        "cron 'c': '0 0 30 2 *' never fires"),
                Arguments.of(
                        CronDefinition.every("c", Duration.ofMillis(10)).withHandler("mail"),
                        "cron 'c': 'PT0.01S' is not a number of whole seconds"),
                Arguments.of(good.withCatchUpLimit(0), "cron 'c': catch-up limit 0 does not lie between 1 and 1000"),
                Arguments.of(
                        good.withCatchUpLimit(1001), "cron 'c': catch-up limit 1001 does not lie between 1 and 1000"),
                Arguments.of(good.withMaxAttempts(0), "cron 'c': max attempts 0 does not lie between 1 and"),
                Arguments.of(
                        good.withJitter(Duration.ofMillis(-1)),
                        "cron 'c': jitter PT-0.001S does not lie between 0 and"),
                Arguments.of(
                        good.withJitter(Duration.ofDays(2)), "cron 'c': jitter PT48H does not lie between 0 and PT24H"),
                Arguments.of(good.withPayload("x".repeat(2_000)), "the payload of cron 'c' "),
                Arguments.of(good.withPayload("a\0b"), "the payload of cron 'c' holds a NUL character"));
    }

    @Test
    void nonsense_is_refused_with_a_reason() {
        work.maxPayload = 1_000;
        work.on("mail", context -> {});
        work.on(cron("report", YEARLY), this::note);
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
                "there is a cron 'good' already");
        refused(
                () -> leader.crons().create(CronDefinition.cron("report", "@daily")),
                "there is a cron 'report' already");
        refused(
                () -> leader.crons().change(CronDefinition.cron("none", YEARLY).withHandler("mail")),
                "there is no cron 'none'");
        refused(
                () -> leader.crons()
                        .change(CronDefinition.cron("good", "at noon").withHandler("mail")),
                "cron 'good': 'at noon' is no cron expression: ");
        refused(
                () -> leader.crons().change(CronDefinition.cron("report", "@daily")),
                "cron 'report' is declared in code: change it there, or pause it");
        refused(
                () -> leader.crons().delete("report"),
                "cron 'report' is declared in code: change it there, or pause it");
        refused(() -> leader.crons().trigger("none"), "there is no cron 'none'");
        refused(() -> leader.crons().runs("good", -1), "-1 runs of cron 'good' cannot be listed");
        jdbc.sql("UPDATE forge_crons SET handler = 'fax' WHERE name = 'good'").update();
        refused(() -> leader.crons().trigger("good"), "cron 'good': no live node has its handler 'fax'");
        assertThat(leader.crons().list()).extracting(CronInfo::name).containsExactly("good", "report");
        assertThat(info("good").expression()).isEqualTo(YEARLY);
        assertThat(count("forge_jobs")).isZero();
    }

    private static void refused(Runnable change, String message) {
        assertThatExceptionOfType(CronRejectedException.class)
                .isThrownBy(change::run)
                .withMessageStartingWith(message);
    }

    @Test
    void a_node_that_may_not_change_the_cluster_changes_no_cron() {
        work.on(cron("report", YEARLY), this::note);
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
        assertThat(gateway.crons().list()).hasSize(1);
    }

    // Builds ------------------------------------------------------------------------------------------------

    /** Lets a leader look at what lives until that is so. */
    private void reconcileUntil(BooleanSupplier condition) {
        awaitOften().until(() -> {
            cluster.members().forEach(member -> {
                member.cronEngine().removeOrphansAfter(Duration.ofMillis(200));
                member.cronEngine().heard(CronEngine.NEWS);
            });
            return condition.getAsBoolean();
        });
    }

    /** Looks often enough for everything to have been removed that is an orphan. */
    private void reconcile() {
        jdbc.sql("""
                INSERT INTO forge_crons (name, expression, declared) VALUES ('orphan', '-', true) ON CONFLICT DO NOTHING
                """).update();
        reconcileUntil(() -> !names().contains("orphan"));
    }

    private List<String> names() {
        return jdbc.sql("SELECT name FROM forge_crons WHERE name <> 'signal' ORDER BY name")
                .query(String.class)
                .list();
    }

    private TestJobs build(TestJobs.Cron... crons) {
        TestJobs build = jobs();
        for (TestJobs.Cron cron : crons) {
            build.on(cron, this::note);
        }
        return build;
    }

    @ParameterizedTest
    @CsvSource({"true", "false"})
    void a_rolling_deploy_adds_changes_and_removes_crons(boolean oldLeads) {
        TestJobs old = build(cron("kept", YEARLY), cron("changed", YEARLY), cron("removed", YEARLY));
        TestJobs recent = build(cron("kept", YEARLY), cron("changed", "@daily"), cron("added", YEARLY));
        Member one = startLeader(old);
        Member witness = start("witness", jobs());
        awaitOften().until(() -> names().equals(List.of("changed", "kept", "removed")));
        Member two = start("two", recent);
        awaitOften().until(() -> names().contains("added"));
        if (!oldLeads) {
            one.leadership().leave(Leadership.SCHEDULER);
            witness.leadership().leave(Leadership.SCHEDULER);
            awaitOften().until(() -> two.leadership().isLeader(Leadership.SCHEDULER));
        }
        reconcile();
        assertThat(names()).containsExactly("added", "changed", "kept", "removed");
        assertThat(info("changed").expression()).isEqualTo("@daily");
        // An old one restarts beside the new one: it changes nothing.
        Member again = start("one again", old);
        one.stop();
        reconcile();
        assertThat(names()).containsExactly("added", "changed", "kept", "removed");
        assertThat(info("changed").expression()).isEqualTo("@daily");
        // The last old one goes.
        again.stop();
        witness.leadership().join(Leadership.SCHEDULER);
        reconcileUntil(() -> !names().contains("removed"));
        assertThat(names()).containsExactly("added", "changed", "kept");
        two.stop();
        reconcileUntil(() -> names().isEmpty());
    }

    @Test
    void two_services_in_one_schema_each_run_their_own_crons() {
        startLeader("orders", build(cron("orders-report", YEARLY)), UnaryOperator.identity());
        start("billing", build(cron("billing-report", YEARLY)));
        awaitCron("billing-report");
        reconcile();
        assertThat(names()).containsExactly("billing-report", "orders-report");
        due("orders-report");
        due("billing-report");
        awaitRuns(2);
        assertThat(runs)
                .extracting(Run::cron, Run::node)
                .containsExactlyInAnyOrder(tuple("orders-report", "orders"), tuple("billing-report", "billing"));
    }

    /** What the engine warns of meanwhile. */
    private static List<String> warnings(Runnable what) {
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(CronEngine.class);
        logger.addAppender(log);
        try {
            what.run();
        } finally {
            logger.detachAppender(log);
        }
        return List.copyOf(log.list).stream()
                .filter(event -> event.getLevel() == Level.WARN)
                .map(ILoggingEvent::getFormattedMessage)
                .toList();
    }

    @Test
    void builds_that_go_on_to_differ_are_told_of_once() {
        Member leader = startLeader("orders", build(cron("clean-up", "@hourly")), UnaryOperator.identity());
        leader.cronEngine().warnAfter(Duration.ofMillis(1));
        awaitCron("clean-up");
        assertThat(warnings(() -> {
                    start("billing", build(cron("clean-up", "@daily"), cron("other", YEARLY)));
                    awaitOften().until(() -> info("clean-up").expression().equals("@daily"));
                    reconcile();
                    reconcile();
                }))
                .containsOnlyOnce(
                        "crons [clean-up]: live builds have declared them differently for 0 s, and the newest one"
                                + " counts. If these are different applications, give the crons different names");
    }

    @Test
    void a_leader_whose_slots_are_all_taken_says_so_once() {
        for (int i = 0; i < 4; i++) {
            work.on(cron("long-" + i, YEARLY), this::hold);
        }
        Member leader = startLeader(work);
        leader.cronEngine().warnAfter(Duration.ofMillis(1));
        assertThat(warnings(() -> {
                    for (int i = 0; i < 4; i++) {
                        due("long-" + i);
                    }
                    awaitRuns(4);
                    reconcile();
                    reconcile();
                }))
                .hasSize(1)
                .allMatch(text -> text.startsWith("crons [long-0, long-1, long-2, long-3] have taken all slots"));
    }

    @Test
    void a_jitter_that_reaches_the_next_slot_is_told_of() {
        assertThat(warnings(() -> {
                    startLeader(build(
                            cron("wide", "@hourly").jitter(Duration.ofHours(2)),
                            cron("narrow", "@hourly").jitter(Duration.ofMinutes(1))));
                    awaitCron("wide");
                }))
                .hasSize(1)
                .allMatch(text -> text.startsWith("cron wide: its jitter of 7200000 ms reaches the next slot"));
    }

    @Test
    void an_orphan_that_is_paused_stays_until_it_is_resumed() {
        Member one = startLeader(jobs());
        Member two = start("two", build(cron("report", YEARLY)));
        awaitCron("report");
        one.crons().pause("report");
        two.stop();
        reconcile();
        assertThat(names()).containsExactly("report");
        one.crons().resume("report");
        // Nobody has to tell it twice.
        awaitOften().until(() -> names().isEmpty());
    }

    @Test
    void while_a_node_has_not_said_what_it_declares_nothing_is_removed() {
        Member one = startLeader(jobs());
        Member two = start("two", build(cron("report", YEARLY)));
        awaitCron("report");
        jdbc.sql("UPDATE forge_nodes SET info = info || '{\"crons\": \"unheard of\"}' WHERE name = 'two'")
                .update();
        for (int i = 0; i < 4; i++) {
            one.cronEngine().removeOrphansAfter(Duration.ofMillis(1));
            one.cronEngine().heard(CronEngine.NEWS);
            awaitPass();
        }
        assertThat(names()).containsExactly("report");
        two.stop();
        reconcileUntil(() -> names().isEmpty());
    }

    @Test
    void a_cron_that_comes_back_goes_on_after_the_last_slot_that_was_decided() {
        jdbc.sql("""
                INSERT INTO forge_cron_memories (name, expression, zone, next_fire_at)
                VALUES ('hourly', '@hourly', 'UTC', date_trunc('hour', now(), 'UTC') - interval '2 hours')
                """).update();
        startLeader(build(cron("hourly", "@hourly").misfire(Misfire.CATCH_UP, 10)));
        awaitOften().until(() -> runs.size() >= 3);
        Instant hour = Instant.ofEpochSecond(now().getEpochSecond() / 3600 * 3600);
        assertThat(runs.stream().map(Run::slot).toList())
                .containsSubsequence(hour.minusSeconds(7200), hour.minusSeconds(3600));
    }

    @Test
    void with_another_schedule_it_counts_from_its_return_on() {
        startLeader(jobs());
        Member two = start("two", build(cron("report", YEARLY)));
        due("report");
        awaitRuns(1);
        jdbc.sql(
                        "UPDATE forge_crons SET next_fire_at = now() - interval '3 hours', handler = 'none' WHERE name = 'report'")
                .update();
        two.stop();
        reconcileUntil(() -> !names().contains("report"));
        start("three", build(cron("report", "@hourly").misfire(Misfire.CATCH_UP, 10)));
        awaitCron("report");
        assertThat(info("report").next()).isAfter(now());
        awaitPass();
        assertThat(runs).hasSize(1);
    }

    @Test
    void a_cron_that_comes_back_knows_the_run_before() {
        startLeader(jobs());
        var previous = new CopyOnWriteArrayList<Optional<Instant>>();
        TestJobs service = jobs();
        service.on(cron("report", YEARLY), context -> previous.add(context.previousSlot()));
        Member two = start("two", service);
        jdbc.sql("INSERT INTO forge_job_pauses VALUES ('report')").update();
        Instant first = due("report");
        ledger("report", 1);
        // Its node goes, its run does not.
        two.stop();
        reconcileUntil(() -> !names().contains("report"));
        start("three", service);
        awaitCron("report");
        due("report", Duration.ofSeconds(1));
        assertThat(ledger("report", 2).get(1).outcome()).isEqualTo(Outcome.SKIPPED);
        jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now()")
                .update();
        jdbc.sql("DELETE FROM forge_job_pauses").update();
        due("report", Duration.ZERO);
        awaitOften().until(() -> !previous.isEmpty());
        assertThat(previous).containsExactly(Optional.of(first));
    }

    @Test
    void an_old_build_that_returns_after_months_is_still_the_older_one() {
        Member witness = startLeader(jobs());
        Member old = start("old", build(cron("report", YEARLY)));
        awaitCron("report");
        start("recent", build(cron("report", "@daily")));
        awaitOften().until(() -> info("report").expression().equals("@daily"));
        old.stop();
        jdbc.sql("""
                UPDATE forge_cron_sets
                SET first_seen_at = first_seen_at - interval '200 days', last_seen_at = last_seen_at - interval '199 days'
                """).update();
        awaitOften().until(() -> witness.leadership().isLeader(Leadership.LOG_COMPACTOR));
        witness.cronEngine().cleanUp();
        start("old again", build(cron("report", YEARLY)));
        reconcile();
        assertThat(info("report").expression()).isEqualTo("@daily");
    }

    @Test
    void a_schedule_that_changes_while_slots_are_due_leaves_none_out() {
        TestJobs old = build(cron("report", YEARLY), cron("broken", YEARLY));
        old.ledger = Duration.ofDays(3 * 366);
        Member leader = startLeader(old);
        awaitCron("report");
        jdbc.sql("UPDATE forge_crons SET handler = 'unknown', expression = '@yearly' WHERE name = 'report'")
                .update();
        jdbc.sql("UPDATE forge_crons SET handler = 'unknown', expression = 'broken' WHERE name = 'broken'")
                .update();
        int year = now().atOffset(ZoneOffset.UTC).getYear();
        due("report", newYear(year - 1));
        due("broken", newYear(year));
        start("two", build(cron("report", "@monthly"), cron("broken", "@monthly")));
        awaitOften().until(() -> info("report").expression().equals("@monthly"));
        assertThat(info("broken").expression()).isEqualTo("@monthly");
        List<CronRun> rows = ledger("report", 2);
        assertThat(slots(rows)).containsExactly(newYear(year - 1), newYear(year));
        assertThat(rows)
                .allMatch(row -> row.outcome() == Outcome.MISSED && "its schedule was changed".equals(row.reason()));
        assertThat(info("report").next())
                .isEqualTo(CronSchedule.of("@monthly", "UTC").next(now()));
        assertThat(leader.crons().find("broken").orElseThrow().next()).isAfter(now());
    }

    @Test
    void what_the_leader_cannot_read_does_not_keep_it_from_the_others() {
        startLeader(build(cron("odd", YEARLY), cron("report", YEARLY)));
        awaitCron("report");
        // As a build with newer time zones would declare it.
        jdbc.sql("UPDATE forge_cron_sets SET definitions = jsonb_set(definitions, '{0,zone}', '\"Mars/Olympus\"')")
                .update();
        start("two", build(cron("other", YEARLY)));
        awaitCron("other");
        due("report");
        awaitRuns(1);
        assertThat(info("odd").zone()).isEqualTo("UTC");
    }

    @Test
    void what_no_leader_could_read_fires_again_once_one_can() {
        startLeader(build(cron("report", YEARLY), cron("never", "-")));
        awaitCron("report");
        jdbc.sql("UPDATE forge_crons SET next_fire_at = NULL").update();
        reconcileUntil(() -> info("report").next() != null);
        assertThat(info("never").next()).isNull();
    }

    @Test
    void somebodys_long_transaction_holds_up_one_cron_only() throws Exception {
        work.on(cron("held", YEARLY), this::note).on(cron("free", YEARLY), this::note);
        Member one = startLeader(work);
        awaitCron("free");
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("SELECT 1 FROM forge_crons WHERE name = 'held' FOR UPDATE");
            Member two = start("two", build(cron("held", "@daily"), cron("free", YEARLY)));
            one.leadership().leave(Leadership.SCHEDULER);
            awaitOften().until(() -> two.leadership().isLeader(Leadership.SCHEDULER));
            due("free");
            awaitOften().until(() -> runs.size() == 1);
            connection.rollback();
        }
        reconcileUntil(() -> info("held").expression().equals("@daily"));
    }

    @Test
    void nor_does_it_keep_others_out_of_the_table() throws Exception {
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
        awaitOften().until(() -> info("held").expression().equals("@daily"));
    }

    @Test
    void a_cron_made_at_run_time_keeps_its_name_from_one_that_is_declared() {
        work.on("mail", context -> {});
        Member one = startLeader(work);
        one.crons().create(CronDefinition.cron("report", "@daily").withHandler("mail"));
        start("two", build(cron("report", YEARLY), cron("other", YEARLY)));
        awaitCron("other");
        assertThat(info("report").declared()).isFalse();
        assertThat(info("report").expression()).isEqualTo("@daily");
        one.crons().delete("report");
        reconcileUntil(
                () -> one.crons().find("report").filter(CronInfo::declared).isPresent());
    }

    // House-keeping -----------------------------------------------------------------------------------------

    @Test
    void the_ledger_and_the_sets_are_kept_as_long_as_they_should() {
        work.ledger = Duration.ofDays(2);
        work.on(cron("report", YEARLY), this::note);
        Member leader = startLeader(work);
        awaitOften().until(() -> leader.leadership().isLeader(Leadership.LOG_COMPACTOR));
        awaitCron("report");
        jdbc.sql("""
                INSERT INTO forge_cron_runs (cron, slot, outcome, fired_at)
                SELECT 'report', now() - n * interval '1 second', 'ran', now() - interval '49 hours'
                FROM generate_series(1, 6000) AS n
                UNION ALL SELECT 'report', now(), 'ran', now() - interval '47 hours'
                """).update();
        jdbc.sql("UPDATE forge_cron_sets SET last_seen_at = now() - interval '366 days'")
                .update();
        jdbc.sql("INSERT INTO forge_cron_memories SELECT n, '-', 'UTC', NULL, NULL, NULL, now() - n * interval '1 day'"
                        + " FROM generate_series(364, 366) AS n")
                .update();
        jdbc.sql("""
                INSERT INTO forge_cron_sets (digest, definitions, last_seen_at)
                VALUES ('old', '[]', now() - interval '366 days'), ('recent', '[]', now() - interval '364 days')
                """).update();
        leader.cronEngine().cleanUp();
        assertThat(count("forge_cron_runs")).isOne();
        assertThat(count("forge_cron_memories")).isOne();
        assertThat(jdbc.sql("SELECT digest FROM forge_cron_sets ORDER BY last_seen_at")
                        .query(String.class)
                        .list())
                .hasSize(2)
                .startsWith("recent");
    }

    // What a run knows --------------------------------------------------------------------------------------

    @Test
    void a_run_knows_its_slot_and_the_one_before() {
        var seen = new CopyOnWriteArrayList<List<Object>>();
        work.on(cron("report", YEARLY), context -> {
            seen.add(List.of(
                    context.name(),
                    context.slot(),
                    context.previousSlot(),
                    context.attempt(),
                    context.term(),
                    MDC.get("forge.cron.name"),
                    MDC.get("forge.cron.slot"),
                    context.firedAt()));
            if (context.attempt() == 1) {
                throw new IllegalStateException("once more");
            }
        });
        startLeader(work);
        Instant first = due("report", Duration.ofSeconds(9));
        awaitOften().until(() -> seen.size() == 2);
        awaitOften().until(() -> ledger("report").get(0).jobStatus() == JobStatus.COMPLETED);
        Instant second = due("report", Duration.ofSeconds(3));
        awaitOften().until(() -> seen.size() == 4);
        long term = cluster.term(Leadership.SCHEDULER);
        Object none = Optional.empty();
        assertThat(seen.stream().map(values -> values.subList(0, 7)))
                .containsExactly(
                        List.of("report", first, none, 1, term, "report", first.toString()),
                        List.of("report", first, none, 2, term, "report", first.toString()),
                        List.of("report", second, Optional.of(first), 1, term, "report", second.toString()),
                        List.of("report", second, Optional.of(first), 2, term, "report", second.toString()));
        List<Instant> fired =
                ledger("report", 2).stream().map(CronRun::decidedAt).toList();
        // The ledger row and the job are written in one transaction, a moment apart.
        assertThat((Instant) seen.get(0).get(7))
                .isBetween(fired.get(0), fired.get(0).plusSeconds(60));
        assertThat(seen.get(1).get(7)).isEqualTo(seen.get(0).get(7));
        assertThat((Instant) seen.get(2).get(7))
                .isBetween(fired.get(1), fired.get(1).plusSeconds(60));
    }

    private void write(CronContext context) {
        jdbc.sql("INSERT INTO effects VALUES (?, ?)")
                .params(context.name(), context.slot().atOffset(ZoneOffset.UTC))
                .update();
    }

    /** In a transaction of its own, whatever the caller's thread is in. */
    private void elsewhere(String sql) {
        var thread = new Thread(() -> database.jdbc().sql(sql).update());
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void fencedWhile(TestJobs.Cron cron, Runnable meanwhile, AtomicReference<Throwable> failure) {
        work.on(cron, context -> {
            try {
                context.fenced(() -> {
                    write(context);
                    meanwhile.run();
                });
                runs.add(new Run(context.name(), context.job().nodeName(), context.slot(), context.term()));
            } catch (RuntimeException e) {
                failure.set(e);
                throw new PermanentJobFailure("over", e);
            }
        });
        startLeader(work);
        due(cron.definition().name());
        awaitOften().until(() -> failure.get() != null || !runs.isEmpty());
    }

    @Test
    void a_fenced_write_of_a_run_commits() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(cron("report", YEARLY), () -> {}, failure);
        assertThat(failure.get()).isNull();
        assertThat(count("effects")).isOne();
    }

    @Test
    void a_fenced_write_is_refused_when_another_node_has_the_run() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(
                cron("report", YEARLY),
                () -> elsewhere("UPDATE forge_jobs SET claim_epoch = claim_epoch + 1"),
                failure);
        assertThat(failure.get())
                .isInstanceOf(ClaimLostException.class)
                .hasMessageContaining("another node has the run by now");
        assertThat(count("effects")).isZero();
    }

    @Test
    void a_fenced_write_is_refused_when_the_term_is_over() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(
                cron("report", YEARLY),
                () -> elsewhere("UPDATE forge_leaders SET current_term = current_term + 1"),
                failure);
        assertThat(failure.get()).isInstanceOf(LeadershipLostException.class);
        assertThat(count("effects")).isZero();
    }

    @Test
    void a_worker_does_not_care_whose_term_it_is() {
        var failure = new AtomicReference<Throwable>();
        fencedWhile(
                cron("report", YEARLY).anyWorker(null),
                () -> elsewhere("UPDATE forge_leaders SET current_term = current_term + 1"),
                failure);
        assertThat(failure.get()).isNull();
        assertThat(count("effects")).isOne();
    }

    @Test
    void a_fenced_write_is_refused_when_leadership_was_lost_before_the_run_began() {
        var failure = new AtomicReference<Throwable>();
        var leader = new AtomicReference<Member>();
        work.on(
                cron("report", YEARLY),
                job -> {
                    leader.get().leadership().leave(Leadership.SCHEDULER);
                    awaitOften().until(() -> !leader.get().leadership().isLeader(Leadership.SCHEDULER));
                },
                context -> {
                    try {
                        context.fenced(() -> write(context));
                        note(context);
                    } catch (RuntimeException e) {
                        failure.set(e);
                        throw new PermanentJobFailure("over", e);
                    }
                });
        leader.set(startLeader(work));
        due("report");
        awaitOften().until(() -> failure.get() != null || !runs.isEmpty());
        assertThat(failure.get()).isInstanceOf(LeadershipLostException.class);
        assertThat(count("effects")).isZero();
    }

    @Test
    void a_transactional_run_and_its_fenced_write_are_one() {
        work.on(cron("report", YEARLY).in(work.transaction()), context -> {
            context.fenced(() -> write(context));
            if (context.attempt() == 1) {
                throw new IllegalStateException("rolled back");
            }
            note(context);
        });
        startLeader(work);
        due("report");
        awaitRuns(1);
        awaitOften().until(() -> ledger("report").get(0).jobStatus() == JobStatus.COMPLETED);
        assertThat(count("effects")).isOne();
    }

    @Test
    void a_rows_overlap_and_target_are_what_was_declared() {
        Member leader = startLeader(build(cron("report", "0 6 * * *")
                .anyWorker("gpu")
                .misfire(Misfire.CATCH_UP, 7)
                .jitter(Duration.ofSeconds(3))));
        awaitCron("report");
        CronInfo info = leader.crons().find("report").orElseThrow();
        assertThat(info)
                .isEqualTo(new CronInfo(
                        "report",
                        true,
                        "report",
                        "0 6 * * *",
                        "UTC",
                        CronTarget.ANY_WORKER,
                        "gpu",
                        Misfire.CATCH_UP,
                        7,
                        Overlap.SKIP,
                        Duration.ofSeconds(3),
                        false,
                        CronSchedule.of("0 6 * * *", "UTC").next(now()),
                        true,
                        null,
                        null,
                        null));
    }
}
