// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.daemon.DaemonEngine;
import dev.forge.cluster.internal.daemon.DaemonHandlers;
import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.daemon.DefaultDaemons;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.node.ClusterNodes;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.startup.StartupCoordinator;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowOperations;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Each operation of the public API is recorded, or exempt for a reason. */
@ClusterPostgres
class AuditedOperationTests extends AuditFixture {

    private static final String READS = "reads";
    private static final String SUBMITS = "submits work, as applications do with each request";

    /** Interfaces whose methods serve code, not operators. */
    private static final Map<Class<?>, String> EXEMPT_TYPES = Map.of(
            ClusterLocks.class, "locks belong to the code that holds them",
            Leadership.class, "code stands for election",
            StartupCoordinator.class, "code runs its actions once",
            ClusterStateStore.class, "code keeps values",
            RateLimiter.class, "code asks for permits");

    private static final Map<String, String> EXEMPT = Map.ofEntries(
            Map.entry("Jobs.enqueue", SUBMITS),
            Map.entry("Jobs.enqueueNamed", SUBMITS),
            Map.entry("Jobs.enqueueAll", SUBMITS),
            Map.entry("Jobs.batch", SUBMITS),
            Map.entry("JobOperations.batches", READS),
            Map.entry("Jobs.find", READS),
            Map.entry("Jobs.result", READS),
            Map.entry("JobOperations.search", READS),
            Map.entry("JobOperations.count", READS),
            Map.entry("JobOperations.logs", READS),
            Map.entry("JobOperations.export", READS),
            Map.entry("JobOperations.limits", READS),
            Map.entry("JobOperations.paused", READS),
            Map.entry("JobOperations.demand", READS),
            Map.entry("JobOperations.explain", READS),
            Map.entry("JobOperations.history", READS),
            Map.entry("JobOperations.summaries", READS),
            Map.entry("JobBatch.id", READS),
            Map.entry("JobBatch.info", READS),
            Map.entry("Crons.find", READS),
            Map.entry("Crons.latestRuns", READS),
            Map.entry("Crons.list", READS),
            Map.entry("Crons.runs", READS),
            Map.entry("Crons.upcoming", READS),
            Map.entry("Daemons.list", READS),
            Map.entry("Daemons.find", READS),
            Map.entry("Workflows.start", SUBMITS),
            Map.entry("WorkflowOperations.export", READS),
            Map.entry("Workflows.find", READS),
            Map.entry("Workflows.result", READS),
            Map.entry("WorkflowOperations.search", READS),
            Map.entry("ClusterNodes.list", READS),
            Map.entry("ClusterNodes.find", READS),
            Map.entry("ClusterNodes.self", READS));

    AuditedOperationTests(TestDatabase database) {
        super(database);
    }

    /**
     * An operation to try.
     *
     * @param expected action, target and count of its entry
     * @param repeatable whether a second call changes something, too
     */
    private record Case(String expected, boolean repeatable, Supplier<?> operation) {}

    private static Case once(String expected, Supplier<?> operation) {
        return new Case(expected, false, operation);
    }

    private static Case each(String expected, Supplier<?> operation) {
        return new Case(expected, true, operation);
    }

    private static Supplier<?> calling(Runnable operation) {
        return () -> {
            operation.run();
            return true;
        };
    }

    /** Returns operations by interface and method. Each entry prepares its case without an operator. */
    private Map<String, Supplier<Case>> cases() {
        Crons crons = one.member().crons();
        Workflows workflows = one.workflows();
        Daemons daemons = daemons();
        var cases = new LinkedHashMap<String, Supplier<Case>>();
        cases.put("Jobs.cancel", () -> {
            UUID job = order();
            return once("job.cancel %s 1".formatted(job), () -> jobs.cancel(job));
        });
        cases.put("Jobs.retry", () -> {
            UUID job = failed(order());
            return once("job.retry %s 1".formatted(job), () -> jobs.retry(job));
        });
        cases.put("JobOperations.retryWithPayload", () -> {
            UUID job = failed(order());
            return once("job.retry %s 1".formatted(job), () -> operations.retryWithPayload(job, "{}"));
        });
        cases.put("JobOperations.enqueueCopy", () -> {
            UUID job = order();
            return each("job.copy %s 1".formatted(job), () -> operations.enqueueCopy(job, null));
        });
        cases.put("JobOperations.enqueueExported", () -> {
            UUID job = failed(order(JobOptions.defaults().withTags("exported")));
            String line = operations
                    .export(JobFilter.all().withTags("exported"), 10, null)
                    .items()
                    .get(0);
            assertThat(line).contains(job.toString());
            return each("job.enqueue-exported NEW 1", () -> operations.enqueueExported(line));
        });
        cases.put(
                "JobOperations.cancelAll", () -> bulk("jobs.cancel-all", "c", filter -> operations.cancelAll(filter)));
        cases.put("JobOperations.rescheduleAll", () -> {
            Instant later = Instant.parse("2040-01-01T00:00:00Z");
            return bulk("jobs.reschedule-all", "s", filter -> operations.rescheduleAll(filter, later));
        });
        cases.put("JobOperations.retryAll", () -> {
            failed(order(JobOptions.defaults().withTags("r")));
            failed(order(JobOptions.defaults().withTags("r")));
            return ended("jobs.retry-all", "r", filter -> operations.retryAll(filter));
        });
        cases.put("JobOperations.deleteAll", () -> {
            failed(order(JobOptions.defaults().withTags("d")));
            failed(order(JobOptions.defaults().withTags("d")));
            return ended("jobs.delete-all", "d", filter -> operations.deleteAll(filter));
        });
        cases.put("Jobs.pause", () -> once("name.pause free 1", () -> jobs.pause("free")));
        cases.put("Jobs.resume", () -> once("name.resume free 1", () -> jobs.resume("free")));
        cases.put(
                "JobOperations.setLimits",
                () -> once(
                        "limit.change order 1",
                        calling(() ->
                                operations.setLimits("order", JobLimits.none().withConcurrency(5)))));
        cases.put(
                "JobOperations.resetLimits", () -> once("limit.reset order 1", () -> operations.resetLimits("order")));
        cases.put(
                "JobOperations.setGroupWeight",
                () -> once("weight.change order 1", calling(() -> operations.setGroupWeight("order", "acme", 3))));
        cases.put("JobBatch.close", () -> {
            JobBatch batch = jobs.batch(JobBatchOptions.named("nightly"));
            return once("batch.close %s 1".formatted(batch.id()), batch::close);
        });
        cases.put("JobBatch.cancel", () -> {
            JobBatch batch = jobs.batch(JobBatchOptions.named("nightly"));
            order(JobOptions.defaults().withBatch(batch.id()));
            return once("batch.cancel %s 1".formatted(batch.id()), batch::cancel);
        });
        cases.put("JobBatch.retryFailed", () -> {
            JobBatch batch = jobs.batch(JobBatchOptions.named("nightly"));
            failed(order(JobOptions.defaults().withBatch(batch.id())));
            return each("batch.retry %s 1".formatted(batch.id()), batch::retryFailed);
        });
        CronDefinition yearly = CronDefinition.cron("yearly", "0 0 0 1 1 *").withHandler("order");
        cases.put("Crons.create", () -> new Case("cron.create yearly 1", true, calling(() -> crons.create(yearly))));
        cases.put("Crons.change", () -> each("cron.change yearly 1", calling(() -> crons.change(yearly))));
        cases.put("Crons.pause", () -> once("cron.pause yearly 1", () -> crons.pause("yearly")));
        cases.put("Crons.resume", () -> once("cron.resume yearly 1", () -> crons.resume("yearly")));
        // The second one is skipped, because the first one waits.
        cases.put("Crons.trigger", () -> once("cron.trigger yearly 1", () -> crons.trigger("yearly")));
        cases.put("Crons.delete", () -> once("cron.delete yearly 1", () -> crons.delete("yearly")));
        cases.put("Daemons.pause", () -> once("daemon.pause feed 1", () -> daemons.pause("feed")));
        cases.put("Daemons.resume", () -> once("daemon.resume feed 1", () -> daemons.resume("feed")));
        cases.put("Workflows.signal", () -> {
            UUID run = waitingRun();
            return once("workflow.signal %s 1".formatted(run), () -> {
                boolean sent = workflows.signal(run, "go", "!");
                one.ended(run);
                return sent;
            });
        });
        cases.put("Workflows.cancel", () -> {
            UUID run = waitingRun();
            return once("workflow.cancel %s 1".formatted(run), () -> workflows.cancel(run, "wrong order"));
        });
        cases.put("Workflows.retry", () -> {
            UUID run = waitingRun();
            jdbc.sql("UPDATE forge_jobs SET status = 'failed', finished_at = now() WHERE id = ?")
                    .param(run)
                    .update();
            one.await(run, WorkflowStatus.FAILED);
            return once("workflow.retry %s 1".formatted(run), () -> workflows.retry(run));
        });
        cases.put("endpoint nodes", () -> {
            UUID other = cluster.insertNode("other", null, "1 hour", "1 hour");
            var nodes = new NodeStore(cluster.schema, one.member().control().shared());
            return once(
                    "node.drain %s 1".formatted(other),
                    () -> nodes.requestDrain(
                            other, one.member().node().resources().audit()));
        });
        return cases;
    }

    private interface Bulk {
        Object run(JobFilter filter);
    }

    private Case bulk(String action, String tag, Bulk operation) {
        order(JobOptions.defaults().withTags(tag));
        order(JobOptions.defaults().withTags(tag));
        return ended(action, tag, operation);
    }

    private static Case ended(String action, String tag, Bulk operation) {
        JobFilter filter = JobFilter.all().withTags(tag);
        return once("%s %s 2".formatted(action, filter), () -> operation.run(filter));
    }

    private UUID waitingRun() {
        UUID run = one.workflows().start("checkout", null);
        one.await(run, WorkflowStatus.WAITING);
        return run;
    }

    private Daemons daemons() {
        jdbc.sql("INSERT INTO forge_daemons (name) VALUES ('feed')").update();
        var node = one.member().node();
        return new DefaultDaemons(
                node,
                new DaemonEngine(node, new DaemonHandlers(), one.member().leadership()),
                new DaemonStore(cluster.schema, one.member().control().shared()));
    }

    @Test
    void operation_of_an_operator_is_recorded_once_and_one_that_changes_nothing_is_not() {
        cases().forEach((name, prepared) -> {
            Case prepare = prepared.get();
            int before = entries().size();
            trail.as(ALICE, "ticket 7", prepare.operation);
            List<AuditEntry> added = entries().subList(0, entries().size() - before);
            assertThat(added).as(name).hasSize(1);
            AuditEntry entry = added.get(0);
            assertThat("%s %s %d"
                            .formatted(
                                    entry.action(),
                                    prepare.expected.contains("NEW") ? "NEW" : entry.target(),
                                    entry.count()))
                    .as(name)
                    .isEqualTo(prepare.expected);
            assertThat(List.<Object>of(entry.who(), entry.address(), entry.source(), entry.reason()))
                    .as(name)
                    .containsExactly("alice", "192.0.2.7", ALICE.source(), "ticket 7");
            if (!prepare.repeatable) {
                trail.as(ALICE, "again", prepare.operation);
                assertThat(entries()).as(name + " again").hasSize(before + 1);
            }
            assertThat(events()).as("events after " + name).hasSize(before + 1);
        });
    }

    @Test
    void operation_without_an_operator_is_not_recorded() {
        cases().forEach((name, prepared) ->
                assertThat(prepared.get().operation.get()).as(name).isNotNull());
        assertThat(entries()).isEmpty();
        assertThat(events()).isEmpty();
    }

    @Test
    void operation_of_a_public_interface_is_recorded_or_exempt_for_a_reason() {
        Set<String> unknown = new TreeSet<>();
        Set<String> recorded = cases().keySet();
        Stream.of(
                        Jobs.class,
                        JobOperations.class,
                        JobBatch.class,
                        Crons.class,
                        Daemons.class,
                        Workflows.class,
                        WorkflowOperations.class,
                        ClusterNodes.class)
                .flatMap(type -> Stream.of(type.getMethods()))
                .map(AuditedOperationTests::name)
                .filter(name -> !recorded.contains(name) && !EXEMPT.containsKey(name))
                .forEach(unknown::add);
        assertThat(unknown).as("operations to record, or to exempt").isEmpty();
        assertThat(recorded).as("both recorded and exempt").doesNotContainAnyElementsOf(EXEMPT.keySet());
        assertThat(EXEMPT_TYPES.values())
                .allSatisfy(reason -> assertThat(reason).isNotBlank());
    }

    private static String name(Method method) {
        return method.getDeclaringClass().getSimpleName() + "." + method.getName();
    }

    @Test
    void guide_lists_every_action() throws IOException {
        Path path = Path.of("docs/reference/audit.md");
        String guide =
                Files.readString(Files.exists(path) ? path : Path.of("..").resolve(path));
        cases().values().stream()
                .map(prepared -> prepared.get().expected)
                .map(expected -> expected.substring(0, expected.indexOf(' ')))
                .forEach(action -> assertThat(guide).contains("`%s`".formatted(action)));
    }

    @Test
    void cancelled_job_counts_as_cancelled() {
        UUID job = order();
        trail.as(ALICE, null, () -> jobs.cancel(job));
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
        assertThat(entries().get(0).reason()).isNull();
    }
}
