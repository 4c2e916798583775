// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.Page;
import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.OperationAudited;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Transactions, operators, texts and reports of the audit trail. */
@ClusterPostgres
class AuditTrailTests extends AuditFixture {

    private volatile UUID toCancel = UUID.randomUUID();

    AuditTrailTests(TestDatabase database) {
        super(database);
    }

    @Override
    void handle(JobContext context) {
        jobs.cancel(toCancel);
    }

    @ParameterizedTest
    @ValueSource(
            ints = {
                TransactionDefinition.ISOLATION_READ_COMMITTED,
                TransactionDefinition.ISOLATION_REPEATABLE_READ,
                TransactionDefinition.ISOLATION_SERIALIZABLE
            })
    void entry_belongs_to_the_callers_transaction(int isolation) {
        UUID job = order();
        transaction(isolation).executeWithoutResult(status -> {
            assertThat(trail.as(ALICE, null, () -> jobs.cancel(job))).isTrue();
            assertThat(jdbc.sql("SELECT count(*) FROM forge_audit")
                            .query(Long.class)
                            .single())
                    .isOne();
            assertThat(events()).as("events before the commit").isEmpty();
            status.setRollbackOnly();
        });
        assertThat(entries()).isEmpty();
        assertThat(events()).isEmpty();
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        transaction(isolation)
                .executeWithoutResult(status -> trail.as(ALICE, null, () -> {
                    jobs.cancel(job);
                    jobs.cancel(job);
                    return one.member().crons().pause("unknown");
                }));
        assertThat(texts()).containsExactly("job.cancel %s 1".formatted(job));
        assertThat(events()).hasSize(1);
    }

    @Test
    void operation_that_is_rolled_back_to_a_savepoint_has_neither_entry_nor_event() {
        UUID before = order();
        UUID undone = order();
        UUID kept = order();
        TransactionTemplate outer = transaction(TransactionDefinition.ISOLATION_DEFAULT);
        TransactionTemplate nested = transaction(TransactionDefinition.ISOLATION_DEFAULT);
        nested.setPropagationBehavior(TransactionDefinition.PROPAGATION_NESTED);
        outer.executeWithoutResult(all -> {
            trail.as(ALICE, null, () -> jobs.cancel(before));
            nested.executeWithoutResult(part -> {
                trail.as(ALICE, null, () -> jobs.cancel(undone));
                // Ends well, but inside of what is rolled back.
                nested.executeWithoutResult(inner -> trail.as(ALICE, null, () -> jobs.cancel(kept)));
                part.setRollbackOnly();
            });
            nested.executeWithoutResult(part -> trail.as(ALICE, null, () -> jobs.cancel(kept)));
        });
        assertThat(texts()).containsExactly("job.cancel %s 1".formatted(kept), "job.cancel %s 1".formatted(before));
        assertThat(events()).extracting(OperationAudited::target).containsExactly(before.toString(), kept.toString());
    }

    @Test
    void change_is_rolled_back_if_it_cannot_be_recorded() {
        UUID job = order();
        UUID run = one.workflows().start("checkout", null);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql("ALTER TABLE forge_audit ADD CONSTRAINT broken CHECK (who <> 'alice') NOT VALID")
                .update();
        try {
            List<Runnable> changes = List.of(
                    () -> jobs.cancel(job),
                    () -> jobs.pause("free"),
                    () -> operations.cancelAll(
                            JobFilter.all(), BulkOptions.defaults().withEverything()),
                    () -> one.workflows().cancel(run, "mistake"));
            changes.forEach(operation -> assertThatExceptionOfType(DataAccessException.class)
                    .isThrownBy(() -> trail.as(ALICE, null, () -> {
                        operation.run();
                        return true;
                    }))
                    .withStackTraceContaining("broken"));
        } finally {
            jdbc.sql("ALTER TABLE forge_audit DROP CONSTRAINT broken").update();
        }
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        assertThat(operations.paused()).doesNotContain("free");
        assertThat(one.workflows().find(run).orElseThrow().status()).isEqualTo(WorkflowStatus.WAITING);
        assertThat(events()).isEmpty();
    }

    @Test
    void pause_is_recorded_even_if_the_callers_transaction_rolls_back() {
        transaction(TransactionDefinition.ISOLATION_DEFAULT).executeWithoutResult(status -> {
            trail.as(ALICE, null, () -> jobs.pause("free"));
            status.setRollbackOnly();
        });
        // A pause does not join a transaction.
        assertThat(operations.paused()).contains("free");
        assertThat(texts()).containsExactly("name.pause free 1");
        assertThat(events()).hasSize(1);
    }

    @Test
    void bulk_operation_has_an_entry_for_each_committed_batch_and_one_event() {
        jdbc.sql("INSERT INTO forge_jobs (id, name) SELECT gen_random_uuid(), 'order' FROM generate_series(1, 1200)")
                .update();
        JobFilter orders = JobFilter.all().withName("order");
        trail.as(ALICE, "sale over", () -> operations.cancelAll(orders));
        List<AuditEntry> entries = entries();
        assertThat(entries).extracting(AuditEntry::count).containsExactlyInAnyOrder(500L, 500L, 200L);
        assertThat(entries)
                .extracting(AuditEntry::call)
                .doesNotContainNull()
                .containsOnly(entries.get(0).call());
        assertThat(entries).extracting(AuditEntry::target).containsOnly(orders.toString());
        assertThat(events())
                .containsExactly(
                        new OperationAudited(ALICE, "jobs.cancel-all", orders.toString(), null, 1_200, "sale over"));
    }

    @Test
    void details_are_plain_text() {
        trail.as(ALICE, null, () -> {
            operations.setLimits("order", JobLimits.none().withConcurrency(3).withGroupConcurrency(2));
            operations.setLimits("order", JobLimits.none().withGroupRate(10, Duration.ofMinutes(1)));
            operations.setLimits("order", JobLimits.none());
            return null;
        });
        UUID other = cluster.insertNode("other", null, "1 hour", "1 hour");
        var nodes = new NodeStore(cluster.schema, one.member().control().shared());
        trail.as(
                ALICE,
                null,
                () -> nodes.requestDrain(other, one.member().node().resources().audit()));
        assertThat(entries())
                .extracting(AuditEntry::detail)
                .containsExactly("other", "no limits", "group rate 10 per 1 min", "concurrency 3, group concurrency 2");
    }

    @Test
    void bulk_operation_that_is_interrupted_has_entries_for_what_it_has_committed() {
        jdbc.sql("INSERT INTO forge_jobs (id, name) SELECT gen_random_uuid(), 'order' FROM generate_series(1, 700)")
                .update();
        var batches = new AtomicInteger();
        assertThatExceptionOfType(IllegalStateException.class)
                .isThrownBy(() -> trail.as(
                        ALICE,
                        null,
                        () -> operations.cancelAll(
                                JobFilter.all().withName("order"),
                                BulkOptions.defaults().withProgress(result -> {
                                    batches.incrementAndGet();
                                    throw new IllegalStateException("crash");
                                }))));
        assertThat(batches).hasValue(1);
        assertThat(entries()).extracting(AuditEntry::count).containsExactly(500L);
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'cancelled'")
                        .query(Long.class)
                        .single())
                .isEqualTo(500);
        assertThat(events()).extracting(OperationAudited::count).containsExactly(500L);
    }

    @Test
    void jobs_with_a_unique_key_are_counted_when_they_are_retried_together() {
        failed(order(JobOptions.defaults().withTags("t").withUniqueKey("a")));
        failed(order(JobOptions.defaults().withTags("t").withUniqueKey("b")));
        failed(order(JobOptions.defaults().withTags("t")));
        trail.as(ALICE, null, () -> operations.retryAll(JobFilter.all().withTags("t")));
        assertThat(entries().stream().mapToLong(AuditEntry::count).sum()).isEqualTo(3);
        assertThat(events()).extracting(OperationAudited::count).containsExactly(3L);
    }

    @Test
    void operator_is_known_on_the_calling_thread_only_and_only_inside()
            throws ExecutionException, InterruptedException {
        UUID first = order();
        UUID second = order();
        ExecutorService other = Executors.newSingleThreadExecutor();
        try {
            trail.as(ALICE, null, () -> {
                try {
                    // A thread that is created inside.
                    return other.submit(() -> jobs.cancel(first)).get();
                } catch (InterruptedException | ExecutionException e) {
                    throw new IllegalStateException(e);
                }
            });
        } finally {
            other.shutdownNow();
        }
        assertThat(jobs.cancel(second)).isTrue();
        assertThat(entries()).isEmpty();
    }

    @Test
    void handler_does_not_inherit_the_operator_who_enqueued_its_job() {
        toCancel = order();
        UUID job = trail.as(ALICE, null, () -> jobs.enqueueNamed("free", null)).id();
        assertThat(one.member().ended(job).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(jobs.find(toCancel).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
        assertThat(entries()).isEmpty();
    }

    @Test
    void innermost_operator_counts_and_the_outer_one_returns_even_after_a_failure() {
        Operator bob = Operator.named("bob");
        List<UUID> ids = List.of(order(), order(), order());
        trail.as(ALICE, "outer", () -> {
            jobs.cancel(ids.get(0));
            assertThatExceptionOfType(IllegalStateException.class)
                    .isThrownBy(() -> trail.as(bob, null, () -> {
                        jobs.cancel(ids.get(1));
                        throw new IllegalStateException("failed after the change");
                    }));
            return jobs.cancel(ids.get(2));
        });
        assertThat(entries()).extracting(AuditEntry::who).containsExactly("alice", "bob", "alice");
        assertThat(entries()).extracting(AuditEntry::reason).containsExactly("outer", null, "outer");
    }

    @Test
    void operator_source_is_asked_by_operations_outside_of_a_call_for_an_operator() {
        var asked = new AtomicInteger();
        cluster.operators = () -> {
            asked.incrementAndGet();
            return Optional.of(Operator.named("carol"));
        };
        UUID first = order();
        UUID second = order();
        jobs.find(first);
        assertThat(asked).as("questions by enqueueing and reading").hasValue(0);
        jobs.cancel(first);
        trail.as(ALICE, null, () -> jobs.cancel(second));
        assertThat(asked).hasValue(1);
        assertThat(entries()).extracting(AuditEntry::who).containsExactly("alice", "carol");
        assertThat(entries().get(1).source()).isEqualTo(AuditSource.JAVA);
    }

    @Test
    void list_is_filtered_and_continues_before_an_entry() {
        List<UUID> ids = List.of(order(), order(), order());
        ids.forEach(id -> trail.as(ALICE, null, () -> jobs.cancel(id)));
        trail.as(Operator.named("bob"), null, () -> jobs.retry(ids.get(1)));
        assertThat(trail.list(AuditFilter.all().withTarget(ids.get(1).toString()), 10)
                        .items())
                .extracting(AuditEntry::action)
                .containsExactly("job.retry", "job.cancel");
        assertThat(trail.list(AuditFilter.all().withWho("bob"), 10).items()).hasSize(1);
        assertThat(trail.list(AuditFilter.all().withSource(AuditSource.JAVA), 10)
                        .items())
                .hasSize(1);
        assertThat(trail.list(AuditFilter.all().withAction("job.cancel").withWho("bob"), 10)
                        .items())
                .isEmpty();
        var pages = new ArrayList<AuditEntry>();
        String cursor = null;
        for (int i = 0; i < 4; i++) {
            Page<AuditEntry> page = trail.list(AuditFilter.all(), 1, cursor);
            pages.addAll(page.items());
            cursor = page.next();
        }
        assertThat(trail.list(AuditFilter.all(), 1, cursor)).isEqualTo(new Page<>(List.of(), null));
        assertThat(pages).isEqualTo(entries());
        assertThatIllegalArgumentException()
                .isThrownBy(() -> trail.list(AuditFilter.all(), 0, null))
                .withMessage("AuditTrail.list: limit (0) must be between 1 and 1000");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> trail.list(AuditFilter.all().withTarget("a\0b"), 1, null));
    }

    @Test
    void texts_are_bounded_and_printable_in_the_table_and_in_the_log() {
        ListAppender<ILoggingEvent> lines = new ListAppender<>();
        Logger logger = (Logger) LoggerFactory.getLogger(Audit.class);
        lines.start();
        logger.addAppender(lines);
        logger.setLevel(Level.INFO);
        UUID job = order();
        try {
            trail.as(
                    new Operator(
                            "mallory\n2030-01-01 ERROR forged" + "x".repeat(10_000),
                            "1.2.3.4\r\n",
                            AuditSource.ENDPOINT),
                    "reason \ud800 \0 " + "y".repeat(10_000),
                    () -> jobs.cancel(job));
        } finally {
            logger.setLevel(null);
            logger.detachAppender(lines);
        }
        AuditEntry entry = entries().get(0);
        assertThat(entry.who())
                .startsWith("mallory?2030-01-01 ERROR forgedxxx")
                .hasSize(500)
                .endsWith("...");
        assertThat(entry.address()).isEqualTo("1.2.3.4??");
        assertThat(entry.reason()).startsWith("reason ? ? yyy").hasSize(1_000);
        assertThat(lines.list).hasSize(1);
        String line = lines.list.get(0).getFormattedMessage();
        assertThat(line)
                .startsWith("Operation job.cancel on %s: 1 changed, by mallory?2030".formatted(job))
                .contains("(endpoint, 1.2.3.4??)")
                .doesNotContain("\n", "\r");
        assertThat(line.length()).isLessThan(1_000);
    }

    @Test
    void event_names_operator_action_and_target() {
        UUID job = order();
        trail.as(ALICE, "duplicate", () -> jobs.cancel(job));
        assertThat(events())
                .containsExactly(new OperationAudited(ALICE, "job.cancel", job.toString(), null, 1, "duplicate"));
    }

    @Test
    void operator_without_a_name_or_with_the_source_of_the_database_is_rejected() {
        assertThatIllegalArgumentException().isThrownBy(() -> Operator.named(" "));
        assertThatIllegalArgumentException().isThrownBy(() -> new Operator("alice", null, AuditSource.SQL));
    }
}
