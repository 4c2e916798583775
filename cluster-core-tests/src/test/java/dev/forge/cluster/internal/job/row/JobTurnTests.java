// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static dev.forge.cluster.internal.job.row.Mark.UNMARKED;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turn;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turns;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.transaction.TransactionDefinition;

/** Claims from queues with groups: turns, limits and order. */
class JobTurnTests extends JobStoreFixture {

    private static final Queue GROUPED = new Queue("job", "", 50, true);

    private final JobLimitStore limits;
    private Turn next = new Turn("job", List.of("job"), "", 0, List.of());

    JobTurnTests(TestDatabase database) {
        super(database);
        this.limits = new JobLimitStore(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    private void groups(int count, String group) {
        rows(
                count,
                "name, job_group, scheduled_at",
                "'job', %s, now() - interval '1 hour' + n * interval '1 ms'".formatted(group));
    }

    private static Claiming upTo(UUID node, int limit) {
        return new Claiming(node, limit, limit, 10, LEASE);
    }

    /** Claims and remembers whose turn is next. */
    private Turns take(int limit) {
        Turns turns = claims.claimInTurns(GROUPED, UNMARKED, next, upTo(one, limit));
        next = new Turn("job", List.of("job"), turns.group(), turns.credit(), List.of());
        return turns;
    }

    private static String groupsOf(Turns turns) {
        return turns.jobs().stream().map(Claimed::group).sorted().collect(Collectors.joining());
    }

    private String takeGroups(int limit) {
        return groupsOf(take(limit));
    }

    private void complete(List<Claimed> jobs) {
        jobs.forEach(job -> finishes.finish(one, List.of(completed(job, null))));
    }

    // Turns -------------------------------------------------------------------------------------------------

    @Test
    void groups_take_turns_however_many_jobs_they_have() {
        groups(100, "'a'");
        groups(3, "'b'");
        groups(3, "'c'");

        assertThat(takeGroups(3)).isEqualTo("abc");
        assertThat(takeGroups(1)).isEqualTo("a");
        assertThat(takeGroups(1)).isEqualTo("b");
        assertThat(takeGroups(2)).isEqualTo("ac");
        assertThat(takeGroups(3)).isEqualTo("abc");
        assertThat(takeGroups(3)).isEqualTo("aaa");
    }

    @Test
    void few_groups_fill_all_slots() {
        groups(10, "'a'");
        groups(10, "'b'");

        assertThat(takeGroups(7)).matches("a{3,4}b{3,4}").hasSize(7);
    }

    @Test
    void jobs_of_a_group_start_in_the_order_of_their_times() {
        groups(3, "'a'");
        List<UUID> inOrder = jdbc.sql("SELECT id FROM forge_jobs ORDER BY scheduled_at")
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();

        assertThat(IntStream.range(0, 3)
                        .mapToObj(i -> take(1).jobs().get(0).id())
                        .toList())
                .isEqualTo(inOrder);
    }

    @Test
    void weight_multiplies_the_jobs_of_a_turn() {
        groups(20, "'a'");
        groups(20, "'b'");
        limits.weigh("job", "a", 3);

        StringBuilder turns = new StringBuilder();
        for (int i = 0; i < 12; i++) {
            turns.append(takeGroups(1));
        }
        assertThat(turns).hasToString("aaabaaabaaab");
        limits.weigh("job", "a", null);
        assertThat(takeGroups(1) + takeGroups(1) + takeGroups(1)).isEqualTo("aba");
    }

    @Test
    void jobs_without_a_group_and_jobs_with_one_are_in_different_queues() {
        groups(2, "'a'");
        UUID ungrouped = insert();

        assertThat(queues.queues(List.of("job"), List.of("")).due())
                .extracting(JobQueueStore.Head::queue)
                .containsExactlyInAnyOrder(GROUPED, QUEUE);
        assertThat(claim(one, 10)).extracting(Claimed::id).containsExactly(ungrouped);
        assertThat(takeGroups(10)).isEqualTo("aa");
    }

    @Test
    void jobs_that_are_paused_not_due_waiting_or_of_a_node_that_leaves_are_not_taken() {
        rows(1, "name, job_group, scheduled_at", "'job', 'later', now() + interval '1 hour'");
        rows(1, "name, job_group, waits_for", "'job', 'waiting', gen_random_uuid()");
        assertThat(take(5).jobs()).isEmpty();

        groups(1, "'a'");
        names.pause("job");
        assertThat(take(5).jobs()).isEmpty();
        names.resume("job");
        assertThat(claims.claimInTurns(GROUPED, UNMARKED, next, upTo(UUID.randomUUID(), 5))
                        .jobs())
                .isEmpty();
        assertThat(takeGroups(5)).isEqualTo("a");
    }

    // Limits ------------------------------------------------------------------------------------------------

    @Test
    void group_has_no_more_jobs_at_a_time_than_its_limit() {
        groups(10, "'a'");
        groups(10, "'b'");
        limits.declare("job", JobLimits.none().withGroupConcurrency(2), false);

        Turns first = take(10);
        assertThat(groupsOf(first)).isEqualTo("aabb");
        Turns blocked = take(10);
        assertThat(blocked.jobs()).isEmpty();
        assertThat(blocked.blocked()).isEqualTo(2);
        assertThat(blocked.complete()).isTrue();

        complete(List.of(first.jobs().get(0)));
        assertThat(takeGroups(10)).isEqualTo(first.jobs().get(0).group());
    }

    @Test
    void former_names_of_a_handler_count_too() {
        groups(2, "'a'");
        rows(2, "name, job_group", "'former', 'a'");
        limits.declare("job", JobLimits.none().withGroupConcurrency(1), false);
        next = new Turn("job", List.of("job", "former"), "", 0, List.of());

        assertThat(claims.claimInTurns(new Queue("former", "", 50, true), UNMARKED, next, upTo(one, 5))
                        .jobs())
                .hasSize(1);
        assertThat(claims.claimInTurns(GROUPED, UNMARKED, next, upTo(one, 5)).jobs())
                .isEmpty();
    }

    @Test
    void limit_can_be_changed_at_run_time_and_returns_to_the_declared_one() {
        groups(20, "'a'");
        limits.declare("job", JobLimits.none().withGroupConcurrency(1), false);
        assertThat(take(10).jobs()).hasSize(1);

        limits.override("job", JobLimits.none().withGroupConcurrency(3));
        limits.declare("job", JobLimits.none().withGroupConcurrency(2), false);
        assertThat(limits.find("job")).contains(JobLimits.none().withGroupConcurrency(3));
        assertThat(take(10).jobs()).hasSize(2);

        assertThat(limits.reset("job")).isTrue();
        assertThat(limits.reset("job")).isFalse();
        assertThat(limits.find("job")).contains(JobLimits.none().withGroupConcurrency(2));
        assertThat(take(10).jobs()).isEmpty();

        limits.declareNone(List.of("job"));
        assertThat(limits.find("job")).isEmpty();
        assertThat(take(10).jobs()).hasSize(10);
    }

    @Test
    void concurrent_claims_never_exceed_the_limit() {
        groups(300, "'g' || n % 3");
        limits.declare("job", JobLimits.none().withGroupConcurrency(2), false);

        List<CompletableFuture<Integer>> workers = IntStream.range(0, 4)
                .mapToObj(worker -> CompletableFuture.supplyAsync(this::claimAndComplete))
                .toList();
        assertThat(workers.stream().mapToInt(CompletableFuture::join).sum()).isEqualTo(300);
        assertThat(mostAtATime()).isEqualTo(2);
    }

    private int claimAndComplete() {
        var turn = new Turn("job", List.of("job"), "", 0, List.of());
        int done = 0;
        while (jdbc.sql("SELECT EXISTS (SELECT FROM forge_jobs WHERE status <> 'completed')")
                .query(Boolean.class)
                .single()) {
            Turns turns = claims.claimInTurns(
                    GROUPED,
                    UNMARKED,
                    turn,
                    upTo(one, 1 + ThreadLocalRandom.current().nextInt(4)));
            turn = new Turn("job", List.of("job"), turns.group(), turns.credit(), List.of());
            complete(turns.jobs());
            done += turns.jobs().size();
        }
        return done;
    }

    /** Returns how many jobs of one group were held at the same time, according to the times in their rows. */
    private int mostAtATime() {
        return jdbc.sql("""
                SELECT max(held) FROM (
                    SELECT sum(change) OVER (PARTITION BY job_group ORDER BY at, change) AS held
                    FROM (SELECT job_group, claimed_at AS at, 1 AS change FROM forge_jobs
                          UNION ALL SELECT job_group, finished_at, -1 FROM forge_jobs) AS changes) AS counts
                """).query(Integer.class).single();
    }

    @Test
    void rate_spreads_the_starts_of_a_group() {
        groups(10, "'a'");
        groups(10, "'b'");
        limits.declare("job", JobLimits.none().withGroupRate(new RateLimit(1, Duration.ofHours(1), 2)), false);

        Turns first = take(10);
        assertThat(groupsOf(first)).isEqualTo("aabb");
        complete(first.jobs());
        Turns later = take(10);
        assertThat(later.jobs()).isEmpty();
        assertThat(later.blocked()).isEqualTo(2);
        assertThat(later.waitMillis()).isBetween(3_500_000L, 3_600_000L);

        jdbc.sql("UPDATE forge_job_rates SET next_at = next_at - interval '1 hour' WHERE job_group = 'b'")
                .update();
        assertThat(takeGroups(10)).isEqualTo("b");
    }

    @Test
    void rate_recovers_when_the_clock_of_the_server_was_set_back() {
        groups(10, "'a'");
        limits.declare("job", JobLimits.none().withGroupRate(new RateLimit(1, Duration.ofSeconds(10), 1)), false);
        jdbc.sql("INSERT INTO forge_job_rates VALUES ('job', 'a', now() + interval '3 days')")
                .update();

        assertThat(take(1).waitMillis()).isLessThanOrEqualTo(10_000);
    }

    @Test
    void only_rates_of_the_past_are_purged() {
        jdbc.sql("INSERT INTO forge_job_rates VALUES ('job', 'a', now() - interval '1 hour'), ('job', 'b', now())")
                .update();

        assertThat(limits.purgeRates(10)).isEqualTo(1);
        assertThat(jdbc.sql("SELECT job_group FROM forge_job_rates")
                        .query(String.class)
                        .list())
                .containsExactly("b");
    }

    @Test
    void name_has_no_more_jobs_at_a_time_than_its_limit() {
        groups(5, "'a'");
        rows(5, "name", "'job'");
        limits.declare("job", JobLimits.none().withConcurrency(3), false);

        List<Claimed> grouped = take(2).jobs();
        assertThat(grouped).hasSize(2);
        Turns ungrouped = claims.claimInTurns(QUEUE, UNMARKED, next, upTo(one, 5));
        assertThat(ungrouped.jobs()).hasSize(1);
        assertThat(take(5).blocked()).isOne();
        complete(grouped);
        assertThat(claims.claimInTurns(QUEUE, UNMARKED, next, upTo(one, 5)).jobs())
                .hasSize(2);
    }

    @Test
    void new_limit_of_a_name_waits_until_all_nodes_with_its_handler_obey_it() {
        rows(5, "name", "'job'");
        jdbc.sql("INSERT INTO forge_job_names VALUES ('job') ON CONFLICT DO NOTHING")
                .update();
        jdbc.sql("UPDATE forge_nodes SET handlers = '{job}'").update();
        assertThat(limits.obey(one)).isEmpty();
        assertThat(limits.obey(two)).isEmpty();
        limits.declare("job", JobLimits.none().withConcurrency(3), false);

        assertThat(limits.obey(one)).containsExactly("job");
        Turns waiting = claims.claimInTurns(QUEUE, UNMARKED, next, upTo(one, 5));
        assertThat(waiting.jobs()).isEmpty();
        assertThat(waiting.blocked()).isOne();

        limits.obey(two);
        assertThat(claims.claimInTurns(QUEUE, UNMARKED, next, upTo(one, 5)).jobs())
                .hasSize(3);
    }

    @Test
    void dead_nodes_and_nodes_without_the_handler_need_not_obey() {
        rows(5, "name", "'job'");
        jdbc.sql("INSERT INTO forge_job_names VALUES ('job') ON CONFLICT DO NOTHING")
                .update();
        limits.obey(two);
        limits.declare("job", JobLimits.none().withConcurrency(3), false);
        limits.obey(one);
        jdbc.sql("UPDATE forge_nodes SET handlers = '{job}' WHERE id = ?")
                .param(one)
                .update();

        assertThat(claims.claimInTurns(QUEUE, UNMARKED, next, upTo(one, 1)).jobs())
                .hasSize(1);
        jdbc.sql("UPDATE forge_nodes SET handlers = '{job}', status = 'dead' WHERE id = ?")
                .param(two)
                .update();
        assertThat(claims.claimInTurns(QUEUE, UNMARKED, next, upTo(one, 1)).jobs())
                .hasSize(1);
    }

    // Order -------------------------------------------------------------------------------------------------

    @Test
    void ordered_group_runs_one_job_at_a_time_in_the_order_of_enqueueing() {
        rows(
                3,
                "name, job_group, created_at, scheduled_at",
                "'job', 'a', now() + n * interval '1 s', now() - n * interval '1 s'");
        List<UUID> enqueued = jdbc.sql("SELECT id FROM forge_jobs ORDER BY created_at")
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
        limits.declare("job", JobLimits.none(), true);

        var ran = new ArrayList<UUID>();
        for (int i = 0; i < 3; i++) {
            List<Claimed> jobs = take(10).jobs();
            assertThat(jobs).hasSize(1);
            assertThat(take(10).jobs()).isEmpty();
            ran.add(jobs.get(0).id());
            complete(jobs);
        }
        assertThat(ran).isEqualTo(enqueued);
    }

    @Test
    void job_that_waits_for_its_next_attempt_holds_up_its_ordered_group_only() {
        groups(3, "'a'");
        groups(1, "'b'");
        limits.declare("job", JobLimits.none(), true);
        Turns first = take(1);
        finishes.finish(one, List.of(again(first.jobs().get(0), 3_600_000)));

        assertThat(takeGroups(10)).isEqualTo("b");
        assertThat(take(10).blocked()).isEqualTo(1);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE id = ?")
                .param(first.jobs().get(0).id())
                .update();
        assertThat(take(10).jobs())
                .extracting(Claimed::id)
                .containsExactly(first.jobs().get(0).id());
    }

    @Test
    void urgent_job_does_not_overtake_in_an_ordered_group() {
        rows(1, "name, job_group, priority", "'job', 'a', 50");
        rows(1, "name, job_group, priority", "'job', 'a', 75");
        limits.declare("job", JobLimits.none(), true);

        assertThat(claims.claimInTurns(new Queue("job", "", 75, true), UNMARKED, next, upTo(one, 5))
                        .jobs())
                .isEmpty();
        complete(take(5).jobs());
        assertThat(claims.claimInTurns(new Queue("job", "", 75, true), UNMARKED, next, upTo(one, 5))
                        .jobs())
                .hasSize(1);
    }

    // Locks and costs ---------------------------------------------------------------------------------------

    @Test
    void group_that_another_session_has_locked_holds_up_nobody_else() throws SQLException {
        groups(5, "'a'");
        groups(5, "'b'");
        try (Connection other = database.dataSource().getConnection()) {
            other.setAutoCommit(false);
            other.createStatement()
                    .execute("SELECT FROM forge_job_group_locks"
                            + " WHERE number = (hashtextextended(E'job\\na', 0) & 4095)::int FOR UPDATE");

            Turns turns = take(2);
            assertThat(groupsOf(turns)).isEqualTo("bb");
            assertThat(turns.contended()).isTrue();
            other.rollback();
        }
        assertThat(takeGroups(2)).isEqualTo("ab");
    }

    @Test
    void row_that_another_session_has_locked_is_passed_over() throws SQLException {
        groups(3, "'a'");
        UUID oldest = jdbc.sql("SELECT id FROM forge_jobs ORDER BY scheduled_at LIMIT 1")
                .query((row, n) -> row.getObject(1, UUID.class))
                .single();
        try (Connection other = database.dataSource().getConnection()) {
            other.setAutoCommit(false);
            other.createStatement().execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(oldest));

            assertThat(take(3).jobs()).hasSize(2).extracting(Claimed::id).doesNotContain(oldest);
        }
        assertThat(take(3).jobs()).extracting(Claimed::id).containsExactly(oldest);
    }

    @Test
    void long_queue_of_one_group_is_not_read_for_the_others() {
        groups(20_000, "'hot'");
        groups(1, "'cold'");
        limits.declare("job", JobLimits.none().withGroupConcurrency(1), false);
        jdbc.sql("ANALYZE forge_jobs").update();
        take(1);

        assertThat(reads(() -> assertThat(takeGroups(5)).isEqualTo("hot"))).isLessThan(100);
    }

    @Test
    void walk_ends_after_a_thousand_groups_and_continues_there() {
        groups(1_500, "'g' || lpad(n::text, 5, '0')");
        groups(1, "'z'");
        limits.declare("job", JobLimits.none().withGroupRate(new RateLimit(1, Duration.ofDays(1), 1)), false);
        jdbc.sql("""
                INSERT INTO forge_job_rates
                SELECT 'job', job_group, now() + interval '1 day' FROM forge_jobs WHERE job_group <> 'z'
                """).update();

        Turns first = take(5);
        assertThat(first.jobs()).isEmpty();
        assertThat(first.complete()).isFalse();
        assertThat(takeGroups(5)).isEqualTo("z");
    }

    @Test
    void group_whose_job_has_ended_is_found_beyond_the_walk() {
        groups(1_500, "'g' || lpad(n::text, 5, '0')");
        groups(1, "'z'");
        limits.declare("job", JobLimits.none().withGroupRate(new RateLimit(1, Duration.ofDays(1), 1)), false);
        jdbc.sql("""
                INSERT INTO forge_job_rates
                SELECT 'job', job_group, now() + interval '1 day' FROM forge_jobs WHERE job_group <> 'z'
                """).update();

        next = new Turn("job", List.of("job"), "", 0, List.of("g00001", "z"));
        assertThat(takeGroups(5)).isEqualTo("z");
    }

    @Test
    void table_of_locks_that_was_emptied_is_filled_again() {
        groups(2, "'a'");
        jdbc.sql("DELETE FROM forge_job_group_locks").update();
        try {
            assertThat(take(1).contended()).isTrue();
            assertThat(takeGroups(1)).isEqualTo("a");
        } finally {
            jdbc.sql("INSERT INTO forge_job_group_locks SELECT generate_series(0, 4095) ON CONFLICT DO NOTHING")
                    .update();
        }
    }

    @Test
    void claims_that_could_count_wrongly_are_refused() {
        groups(1, "'a'");
        var repeatable = transactions();
        repeatable.setIsolationLevel(TransactionDefinition.ISOLATION_REPEATABLE_READ);

        assertThatThrownBy(() -> repeatable.execute(status -> take(1)))
                .rootCause()
                .hasMessageContaining("read committed");
    }

    @Test
    void share_of_a_group_does_not_depend_on_its_length() {
        groups(5_000, "'g0'");
        groups(2_000, "'g' || 1 + n % 9");

        var shares = new TreeMap<String, Integer>();
        for (int i = 0; i < 70; i++) {
            take(1 + i % 7).jobs().forEach(job -> shares.merge(job.group(), 1, Integer::sum));
        }
        int jobs = shares.values().stream().mapToInt(Integer::intValue).sum();
        assertThat(shares).hasSize(10);
        assertThat(shares.entrySet())
                .allSatisfy((Map.Entry<String, Integer> share) ->
                        assertThat(share.getValue()).isBetween(jobs / 10 - 1, jobs / 10 + 1));
    }

    @Test
    void mark_spares_claims_the_rows_of_ended_jobs_that_a_snapshot_keeps() throws SQLException {
        groups(5_000, "'g' || n % 10");
        try (Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs LIMIT 1");
            jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now()")
                    .update();
            rows(10, "name, job_group", "'job', 'g' || n % 10");

            int complete = buffersOfClaim("-infinity");
            int marked = buffersOfClaim(queues.queues(List.of("job"), List.of(""))
                    .due()
                    .get(0)
                    .mark()
                    .scheduledAt()
                    .toString());
            assertThat(marked).as("buffers, of %s without a mark", complete).isLessThan(complete / 5);
            holder.rollback();
        }
    }

    /** Returns how many buffers a claim of all groups reads. */
    private int buffersOfClaim(String since) {
        String plan = String.join(
                "\n", jdbc.sql("""
                EXPLAIN (ANALYZE, BUFFERS)
                SELECT * FROM forge_pick_jobs('%s', 'job', '{job}', 'job', '', 50, true, 10, '%s', '', 0, '{}')
                """.formatted(one, since)).query(String.class).list());
        Matcher hits = Pattern.compile("Buffers: shared hit=(\\d+)").matcher(plan);
        assertThat(hits.find()).as(plan).isTrue();
        return Integer.parseInt(hits.group(1));
    }
}
