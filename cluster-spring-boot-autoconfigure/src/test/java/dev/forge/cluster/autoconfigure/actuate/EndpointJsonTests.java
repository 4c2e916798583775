// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.web.ApiClient;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;
import org.springframework.boot.actuate.endpoint.jackson.EndpointJsonMapper;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import tools.jackson.core.json.JsonReadFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * Pins the JSON of the endpoint: each name, and whether a member without a value is absent. Ids, times and other values that vary
 * are replaced by a word in parentheses.
 */
@ClusterPostgres
class EndpointJsonTests {

    private static final JsonMapper JSON =
            JsonMapper.builder().enable(JsonReadFeature.ALLOW_SINGLE_QUOTES).build();

    private static final Set<String> VARYING_NUMBERS =
            Set.of("connections", "cpu", "durationMillis", "memory", "oldestDueSeconds", "term", "token");

    private final TestDatabase database;

    EndpointJsonTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        return EndpointClient.expose(TestApplications.on(database)
                .withPropertyValues(
                        "forge.cluster.node.id=key-1",
                        "forge.cluster.node.name=first",
                        "management.endpoint.forgecluster.show-values=always")
                .withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class)));
    }

    private static void assertGet(ApplicationContext context, String expected, String... path) {
        assertThat(normalized("", EndpointClient.of(context).get(path).body())).isEqualTo(parsed(expected));
    }

    private static void assertPost(ApplicationContext context, String expected, String state, String... path) {
        assertThat(normalized("", EndpointClient.of(context).post(state, path).body()))
                .isEqualTo(parsed(expected));
    }

    private static Object parsed(String json) {
        return JSON.readValue(json, Object.class);
    }

    private static @Nullable Object normalized(String key, @Nullable Object value) {
        if (value instanceof Map<?, ?> map) {
            var members = new TreeMap<String, @Nullable Object>();
            map.forEach((name, member) -> members.put(String.valueOf(name), normalized(String.valueOf(name), member)));
            return members;
        }
        if (value instanceof List<?> list) {
            List<@Nullable Object> members = new ArrayList<>();
            list.forEach(member -> members.add(normalized(key, member)));
            return members;
        }
        if (value instanceof Number && VARYING_NUMBERS.contains(key)) {
            return "(number)";
        }
        if (value instanceof String text) {
            return text.replaceAll("(?s)dev.forge.cluster.workflow.StepFailedException.*", "(error of the run)")
                    .replaceAll("[0-9a-f]{8}-[0-9a-f-]{27}", "(id)")
                    .replaceAll("20\\d\\d-\\d\\d-\\d\\dT[0-9:.]+(Z|[+-][0-9:]+)", "(time)")
                    .replaceAll("(?s)\n.*", "");
        }
        return value;
    }

    @Test
    void overview_and_nodes_have_the_documented_json() {
        runner().run(context -> {
            Leadership leadership = context.getBean(Leadership.class);
            await().until(() -> Stream.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                    .allMatch(leadership::isLeader));
            leadership.leave(Leadership.LOG_COMPACTOR);
            await().ignoreExceptions().untilAsserted(() -> assertGet(context, """
                    {
                      'cluster': 'orders',
                      'node': {'id': '(id)', 'name': 'first', 'state': 'running',
                               'leads': ['metrics_aggregator', 'scheduler']},
                      'leaders': [
                        {'role': 'log_compactor', 'term': '(number)', 'acquiredAt': '(time)'},
                        {'role': 'metrics_aggregator', 'node': '(id)', 'term': '(number)', 'acquiredAt': '(time)'},
                        {'role': 'scheduler', 'node': '(id)', 'term': '(number)', 'acquiredAt': '(time)'}
                      ],
                      'nodes': {'active': 1},
                      'jobs': {},
                      'daemons': {}
                    }
                    """));
            // A heartbeat in between writes the real load again.
            await().untilAsserted(() -> {
                database.jdbc()
                        .sql(
                                "UPDATE forge_nodes SET hostname = 'host', version = '1', cpu_usage = 0.5, memory_usage = NULL")
                        .update();
                assertGet(context, """
                        {
                          'nodes': [{
                            'id': '(id)', 'key': 'key-1', 'name': 'first', 'hostname': 'host', 'mode': 'auto',
                            'roles': ['gateway', 'function', 'worker', 'scheduler'], 'capabilities': ['general'],
                            'status': 'active', 'version': '1', 'startedAt': '(time)', 'lastHeartbeat': '(time)',
                            'connections': '(number)', 'jobs': 0, 'slots': 10, 'cpu': '(number)'
                          }]
                        }
                        """, "nodes");
            });
            String id = String.valueOf(context.getBean(NodeRuntime.class).node().id());
            assertPost(context, "{'id': '(id)', 'state': 'draining'}", "draining", "nodes", id);
            assertPost(
                    context,
                    "{'error': \"Unsupported state 'flying' for a node: use 'draining'\"}",
                    "flying",
                    "nodes",
                    id);
        });
    }

    @Test
    void locks_have_the_documented_json() {
        runner().run(context -> {
            assertThat(context.getBean(ClusterLocks.class).tryLock("import")).isPresent();
            assertGet(context, """
                    {'locks': [{'name': 'import', 'owner': '(id)', 'token': '(number)',
                                'lockedAt': '(time)', 'expiresAt': '(time)'}]}
                    """, "locks");
        });
    }

    record Letter(String to, @Nullable String copyTo) {}

    static class Handlers {
        @ClusterJob
        Map<String, String> send(Letter letter) {
            return Map.of("sentTo", letter.to());
        }

        @ClusterJob(maxAttempts = 1)
        void burn() {
            throw new IllegalStateException("ashes");
        }
    }

    @Test
    void jobs_have_the_documented_json() {
        runner().withBean(Handlers.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            UUID burnt = jobs.enqueueNamed("burn", null).id();
            await().until(() -> jobs.find(burnt).orElseThrow().status() == JobStatus.FAILED);
            UUID sent = jobs.enqueue(
                            new Letter("Alice", null),
                            JobOptions.defaults()
                                    .withUniqueKey("alice")
                                    .withMetadata("tenant", "acme")
                                    .withTags("spring"))
                    .id();
            await().until(() -> jobs.find(sent).orElseThrow().status() == JobStatus.COMPLETED);
            assertPost(context, "{'name': 'send', 'state': 'paused'}", "paused", "jobs", "send");
            UUID waiting = jobs.enqueue(new Letter("Bob", "Carol")).id();
            assertGet(context, """
                    {
                      'paused': ['send'],
                      'jobs': [
                        {'id': '(id)', 'name': 'send', 'status': 'pending', 'priority': 50, 'createdAt': '(time)',
                         'scheduledAt': '(time)', 'attempts': 0, 'recoveries': 0, 'epoch': 0},
                        {'id': '(id)', 'name': 'send', 'status': 'completed', 'priority': 50, 'createdAt': '(time)',
                         'scheduledAt': '(time)', 'startedAt': '(time)', 'finishedAt': '(time)', 'attempts': 1,
                         'maxAttempts': 10, 'recoveries': 0, 'epoch': 1, 'node': '(id)', 'nodeName': 'first', 'tags': ['spring']},
                        {'id': '(id)', 'name': 'burn', 'status': 'failed', 'priority': 50, 'createdAt': '(time)',
                         'scheduledAt': '(time)', 'startedAt': '(time)', 'finishedAt': '(time)', 'attempts': 1,
                         'maxAttempts': 1, 'recoveries': 0, 'epoch': 1, 'node': '(id)', 'nodeName': 'first'}
                      ],
                      'cutOff': false
                    }
                    """, "jobs");
            assertJob(context, sent, """
                    {
                      'id': '(id)', 'name': 'send', 'status': 'completed', 'priority': 50, 'createdAt': '(time)',
                      'scheduledAt': '(time)', 'startedAt': '(time)', 'finishedAt': '(time)', 'attempts': 1,
                      'maxAttempts': 10, 'recoveries': 0, 'epoch': 1, 'node': '(id)', 'nodeName': 'first',
                      'metadata': {'tenant': 'acme'}, 'uniqueKey': 'alice', 'tags': ['spring'],
                      'payload': {'to': 'Alice'}, 'payloadText': '(JSON)',
                      'result': {'sentTo': 'Alice'}, 'explanation': '(reason and text)'
                    }
                    """);
            assertJob(context, burnt, """
                    {
                      'id': '(id)', 'name': 'burn', 'status': 'failed', 'priority': 50, 'createdAt': '(time)',
                      'scheduledAt': '(time)', 'startedAt': '(time)', 'finishedAt': '(time)', 'attempts': 1,
                      'maxAttempts': 1, 'recoveries': 0, 'epoch': 1, 'node': '(id)', 'nodeName': 'first', 'metadata': {},
                      'payload': {}, 'payloadText': '(JSON)',
                      'error': 'java.lang.IllegalStateException: ashes',
                      'attemptHistory': [
                        {'attempt': 1, 'epoch': 1, 'node': '(id)', 'nodeName': 'first', 'startedAt': '(time)', 'durationMillis': '(number)',
                         'result': 'failed', 'error': 'java.lang.IllegalStateException: ashes'}
                      ],
                      'explanation': '(reason and text)'
                    }
                    """);
            assertJob(context, waiting, """
                    {
                      'id': '(id)', 'name': 'send', 'status': 'pending', 'priority': 50, 'createdAt': '(time)',
                      'scheduledAt': '(time)', 'attempts': 0, 'recoveries': 0, 'epoch': 0, 'metadata': {},
                      'payload': {'to': 'Bob', 'copyTo': 'Carol'}, 'payloadText': '(JSON)', 'explanation': '(reason and text)'
                    }
                    """);
            assertPost(context, "{'id': '(id)', 'status': 'cancelled'}", "cancelled", "jobs", waiting.toString());
            jobs.resume("send");
        });
    }

    @Test
    void demand_has_the_documented_json() {
        runner().withPropertyValues(
                        "forge.cluster.worker.executors.mail.max-concurrent-jobs=3",
                        "forge.cluster.worker.routing[0].pattern=send",
                        "forge.cluster.worker.routing[0].executor=mail",
                        "forge.cluster.worker.drain-target=90s")
                .withBean(Handlers.class)
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    jobs.pause("send");
                    jobs.enqueue(new Letter("Bob", null));
                    assertGet(context, """
                            {
                              'drainTargetSeconds': 90.0,
                              'total': {'due': 1, 'dueIsExact': true, 'oldestDueSeconds': '(number)', 'startable': 0,
                                        'running': 0, 'slots': 13, 'neededSlots': 0, 'drainSeconds': 0.0},
                              'executors': {
                                'default': {'due': 0, 'dueIsExact': true, 'oldestDueSeconds': '(number)', 'startable': 0,
                                            'running': 0, 'slots': 10, 'neededSlots': 0, 'drainSeconds': 0.0},
                                'mail': {'due': 1, 'dueIsExact': true, 'oldestDueSeconds': '(number)', 'startable': 0,
                                         'running': 0, 'slots': 3, 'neededSlots': 0, 'drainSeconds': 0.0}
                              },
                              'capabilities': {
                                'general': {'due': 0, 'dueIsExact': true, 'oldestDueSeconds': '(number)', 'startable': 0,
                                            'running': 0, 'slots': 13, 'neededSlots': 0, 'drainSeconds': 0.0}
                              },
                              'jobs': {
                                'burn': {'executor': 'default', 'paused': false, 'due': 0, 'dueIsExact': true,
                                         'oldestDueSeconds': '(number)', 'startable': 0, 'running': 0, 'slots': 10,
                                         'neededSlots': 0, 'drainSeconds': 0.0},
                                'send': {'executor': 'mail', 'paused': true, 'due': 1, 'dueIsExact': true,
                                         'oldestDueSeconds': '(number)', 'startable': 0, 'running': 0, 'slots': 3,
                                         'neededSlots': 0}
                              }
                            }
                            """, "demand");
                    jobs.resume("send");
                });
    }

    /** Asserts the JSON of a job, except for the values of its explanation. */
    private static void assertJob(ApplicationContext context, UUID job, String expected) {
        var body = new HashMap<Object, @Nullable Object>((Map<?, ?>) Objects.requireNonNull(normalized(
                "", EndpointClient.of(context).get("jobs", job.toString()).body())));
        assertThat(body.replace("payloadText", "(JSON)"))
                .asString()
                .isEqualTo(context.getBean(Jobs.class).find(job).orElseThrow().payload());
        assertThat(body.replace("explanation", "(reason and text)"))
                .asInstanceOf(InstanceOfAssertFactories.MAP)
                .containsOnlyKeys("reason", "text");
        assertThat(body).isEqualTo(parsed(expected));
    }

    static class Ticks {
        @ClusterCron(every = "1s", name = "tick")
        void tick() {}

        @ClusterCron(
                value = "0 0 3 * * *",
                zone = "UTC",
                name = "nightly",
                target = CronTarget.ANY_WORKER,
                capability = "gpu")
        void nightly() {}
    }

    @Test
    void crons_have_the_documented_json() {
        runner().withBean(Ticks.class).run(context -> {
            Crons crons = context.getBean(Crons.class);
            await().until(() -> crons.find("nightly").isPresent()
                    && crons.find("tick")
                            .map(cron -> cron.lastRun())
                            .map(CronRun::finishedAt)
                            .isPresent());
            assertPost(context, "{'name': 'tick', 'state': 'paused'}", "paused", "crons", "tick");
            await().until(() ->
                    "paused".equals(crons.runs("tick", 1).items().get(0).reason())
                            && crons.find("tick").orElseThrow().lastRun().finishedAt() != null);
            String ran = """
                    {'time': '(time)', 'outcome': 'ran', 'status': 'SUCCESS', 'job': '(id)', 'attempt': 1,
                     'startedAt': '(time)', 'finishedAt': '(time)', 'term': '(number)', 'decidedAt': '(time)'}""";
            String skipped = """
                    {'time': '(time)', 'outcome': 'skipped', 'reason': 'paused', 'term': '(number)',
                     'decidedAt': '(time)'}""";
            assertGet(context, """
                    {
                      'cron': [
                        {'name': 'nightly', 'runnable': {'target': 'nightly'}, 'expression': '0 0 3 * * *', 'zone': 'UTC',
                         'declared': true, 'target': 'any-worker', 'capability': 'gpu', 'misfire': 'fire-once',
                         'overlap': 'skip', 'state': 'running',
                         'nextExecution': {'time': '(time)'}}
                      ],
                      'fixedRate': [
                        {'name': 'tick', 'runnable': {'target': 'tick'}, 'interval': 1000, 'declared': true,
                         'target': 'leader', 'misfire': 'fire-once', 'overlap': 'skip', 'state': 'paused',
                         'lastExecution': %s, 'lastSlot': %s, 'nextExecution': {'time': '(time)'}}
                      ]
                    }
                    """.formatted(ran, skipped), "crons");
            Object next = EndpointClient.of(context)
                    .get(Map.of("limit", "1"), "crons")
                    .at("next");
            Map<?, ?> rest = (Map<?, ?>) EndpointClient.of(context)
                    .get(Map.of("after", next, "limit", "1"), "crons")
                    .body();
            assertThat((List<?>) rest.get("cron")).isEmpty();
            assertThat((List<?>) rest.get("fixedRate")).hasSize(1);
            assertThat(((Map<?, ?>) EndpointClient.of(context)
                                    .get("crons", "nightly")
                                    .body())
                            .get("runs"))
                    .isEqualTo(List.of());
            assertThat(normalized(
                            "",
                            EndpointClient.of(context)
                                    .get(Map.of("limit", "1"), "crons", "tick")
                                    .at("runs")))
                    .isEqualTo(parsed("[%s]".formatted(skipped)));
            assertPost(context, "{'name': 'tick', 'state': 'triggered', 'job': '(id)'}", "triggered", "crons", "tick");
        });
    }

    static class Feeds {
        @ClusterDaemon
        void feed(DaemonContext context) throws InterruptedException {
            context.note("fed");
            context.awaitStop(Duration.ofMinutes(1));
        }

        @ClusterDaemon(maxRestarts = 0)
        void broken() {
            throw new IllegalStateException("broken");
        }
    }

    @Test
    void daemons_have_the_documented_json() {
        runner().withBean(Feeds.class).run(context -> {
            String feed = """
                    {'name': 'feed', 'scope': 'cluster', 'paused': false, 'candidates': ['first'],
                     'instances': [{'instance': 0, 'status': 'running', 'node': '(id)', 'nodeName': 'first',
                                    'term': '(number)', 'startedAt': '(time)', 'restarts': 0, 'note': 'fed'}]}""";
            await().ignoreExceptions().untilAsserted(() -> assertGet(context, """
                    {'daemons': [
                      {'name': 'broken', 'scope': 'cluster', 'paused': false, 'candidates': ['first'],
                       'instances': [{'instance': 0, 'status': 'failed', 'term': '(number)', 'startedAt': '(time)',
                                      'restarts': 0, 'error': 'java.lang.IllegalStateException: broken'}]},
                      %s
                    ]}
                    """.formatted(feed), "daemons"));
            await().ignoreExceptions().untilAsserted(() -> assertGet(context, feed, "daemons", "feed"));
            assertPost(context, "{'name': 'feed', 'state': 'paused'}", "paused", "daemons", "feed");
        });
    }

    static class Flows {
        private final CountDownLatch released = new CountDownLatch(1);

        @ClusterWorkflow
        String approval(WorkflowContext wf, String item) {
            wf.progress(40, "half-way");
            wf.step(
                    "place",
                    String.class,
                    () -> "placed " + item,
                    step -> step.withCompensation(placed -> released.await()));
            return wf.awaitSignal("approved", String.class);
        }

        @ClusterWorkflow
        String failing(WorkflowContext wf) {
            return wf.step(
                    "break",
                    String.class,
                    () -> {
                        throw new IllegalStateException("broken");
                    },
                    step -> step.withMaxAttempts(1));
        }
    }

    @Test
    void names_of_signals_are_hidden_like_values() {
        runner().withPropertyValues("management.endpoint.forgecluster.show-values=never")
                .withBean(Flows.class)
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("approval", "anvil", "order 7");
                    await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.WAITING);
                    assertThat(JSON.writeValueAsString(EndpointClient.of(context)
                                    .get("workflows", run.toString())
                                    .body()))
                            .contains("\"place\"", "\"signal\"")
                            .doesNotContain("approved", "anvil", "order 7");
                });
    }

    @Test
    void exported_history_has_the_documented_json() {
        runner().withBean(Flows.class).run(context -> {
            Workflows workflows = context.getBean(Workflows.class);
            UUID run = workflows.start("approval", "anvil", "order 7");
            await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.WAITING);
            String exported = """
                    {
                      'id': '(id)', 'name': 'approval', 'version': '1', 'status': 'waiting', 'input': '%s',
                      'steps': [
                        {'position': 0, 'name': 'place', 'kind': 'step', 'status': 'completed', 'attempts': 1,
                         'result': '%s'},
                        {'position': 1, 'name': 'approved', 'kind': 'signal', 'status': 'waiting', 'attempts': 0}
                      ]
                    }
                    """;
            assertGet(context, exported.formatted("x", "x"), "workflows", run.toString(), "history");
            assertThat(normalized(
                            "",
                            ApiClient.of(context)
                                    .get(Map.of("values", "full"), "workflows", run.toString(), "history")
                                    .body()))
                    .isEqualTo(parsed(exported.formatted("anvil", "placed anvil")));
            UUID failing = workflows.start("failing", null);
            await().until(() -> workflows.find(failing).orElseThrow().status().isFinal());
            assertGet(context, """
                    {
                      'id': '(id)', 'name': 'failing', 'version': '1', 'status': 'failed',
                      'steps': [{'position': 0, 'name': 'break', 'kind': 'step', 'status': 'failed', 'attempts': 1,
                                 'lastError': 'x'}]
                    }
                    """, "workflows", failing.toString(), "history");
        });
    }

    @Test
    void history_is_exported_only_for_users_who_may_see_values() {
        runner().withPropertyValues(
                        "management.endpoint.forgecluster.show-values=when-authorized",
                        "management.endpoint.forgecluster.roles=operator")
                .withBean(Flows.class)
                .run(context -> {
                    String run = waitingForApproval(context).toString();
                    String refusal = "Histories cannot be exported, not even masked: they contain values that are"
                            + " hidden from this user (%s)";
                    EndpointClient anonymous = EndpointClient.of(context);
                    // The same for each run and value: the response does not tell whether there is such a run.
                    for (String asked : List.of(run, UUID.randomUUID().toString(), "seven")) {
                        for (EndpointClient client : List.of(anonymous, anonymous.inRole("guest"))) {
                            assertThat(client.get("workflows", asked, "history").error(400))
                                    .isEqualTo(refusal, "management.endpoint.forgecluster.show-values");
                        }
                        for (String values : List.of("masked", "full", "some")) {
                            assertThat(ApiClient.of(context)
                                            .blind()
                                            .get(Map.of("values", values), "workflows", asked, "history")
                                            .error(400))
                                    .isEqualTo(refusal, "forge.cluster.operations.authorities.values");
                        }
                    }
                    assertThat(anonymous
                                    .inRole("operator")
                                    .get("workflows", run, "history")
                                    .at("input"))
                            .isEqualTo("x");
                    assertThat(ApiClient.of(context)
                                    .get(Map.of("values", "full"), "workflows", run, "history")
                                    .at("input"))
                            .isEqualTo("anvil");
                });
    }

    private static UUID waitingForApproval(ApplicationContext context) {
        Workflows workflows = context.getBean(Workflows.class);
        UUID run = workflows.start("approval", "anvil", "order 7");
        await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.WAITING);
        return run;
    }

    /** Stores an input as the application might have done. */
    private void storeInput(UUID run, String sql) {
        database.jdbc()
                .sql("UPDATE forge_workflow_runs SET input = (%s)::jsonb WHERE id = ?".formatted(sql))
                .param(run)
                .update();
    }

    /** Returns the text of a response. */
    private static String exported(ApplicationContext context, UUID run, String values) {
        OperationResult result = context.getBean(ClusterOperations.class)
                .read(
                        new Caller(true, null, null, AuditSource.ENDPOINT),
                        List.of("workflows", run.toString(), "history"),
                        Map.of("values", values));
        return context.getBean(EndpointJsonMapper.class)
                .get()
                .writeValueAsString(((OperationResult.Found) result).body());
    }

    @Test
    void exported_values_are_those_of_the_table() {
        runner().withBean(Flows.class).run(context -> {
            UUID run = waitingForApproval(context);
            String numbers = "{\"a\": [1.50, 0.1234567890123456789012345678901234567890], \"n\": null}";
            storeInput(run, "'%s'".formatted(numbers));
            assertThat(exported(context, run, "full")).contains("\"input\":" + numbers + ",");
            assertThat(exported(context, run, "masked")).contains("\"input\":{\"a\": [0, 0], \"n\": null},");
            storeInput(run, "'[1e1200]'");
            assertThat(exported(context, run, "full")).contains("\"input\":[1%s],".formatted("0".repeat(1200)));
            storeInput(run, "repeat('[', 3000) || repeat(']', 3000)");
            assertThat(exported(context, run, "full"))
                    .contains("\"input\":%s%s,".formatted("[".repeat(3000), "]".repeat(3000)));
            storeInput(run, "'{\"' || repeat('n', 60000) || '\": [7]}'");
            assertThat(exported(context, run, "full")).contains("n\": [7]}");
            storeInput(run, "'[' || repeat('0,', 200000) || '1]'");
            EndpointClient client = EndpointClient.of(context);
            assertThat(client.get("workflows", run.toString(), "history").list("input"))
                    .hasSize(200_001);
            storeInput(run, "'null'");
            assertThat(exported(context, run, "full")).doesNotContain("input");
        });
    }

    @Test
    void export_is_refused_if_the_sanitizing_functions_cannot_check_all_of_a_value() {
        runner().withBean(Flows.class)
                .withBean(
                        SanitizingFunction.class,
                        () -> data -> data.getKey().endsWith("card") ? data.withSanitizedValue() : data)
                .run(context -> {
                    UUID run = waitingForApproval(context);
                    storeInput(run, "'{\"a\": 1.50}'");
                    assertThat(exported(context, run, "full"))
                            .as("a value that no function changes")
                            .contains("\"input\":{\"a\": 1.50},");
                    storeInput(run, "'{\"a\": 1.5, \"card\": 4711}'");
                    assertThat(exported(context, run, "full")).contains("\"card\":\"******\"", "\"a\":1.5");
                    var refused = Map.of(
                            "'[' || repeat('0,', 100000) || '1]'", "at most 100000 are possible",
                            "'{\"' || repeat('n', 1000) || '\": [7]}'", "longer than 1000 characters",
                            "'[1e1200]'", "it cannot be read",
                            "repeat('[', 3000) || repeat(']', 3000)", "it cannot be read");
                    refused.forEach((sql, reason) -> {
                        storeInput(run, sql);
                        assertThat(ApiClient.of(context)
                                        .get(Map.of("values", "full"), "workflows", run.toString(), "history")
                                        .error(400))
                                .contains(
                                        "Run %s cannot be exported".formatted(run),
                                        "sanitizing functions of the application cannot check 'input'",
                                        reason,
                                        "WorkflowOperations.export",
                                        "docs/reference/workflows.md");
                    });
                });
    }

    @Test
    void export_is_refused_if_a_function_hides_the_name_of_a_signal() {
        runner().withBean(Flows.class)
                .withBean(
                        SanitizingFunction.class,
                        () -> data -> data.getKey().equals("awaits") ? data.withSanitizedValue() : data)
                .run(context -> {
                    String run = waitingForApproval(context).toString();
                    for (String values : List.of("masked", "full")) {
                        assertThat(ApiClient.of(context)
                                        .get(Map.of("values", values), "workflows", run, "history")
                                        .error(400))
                                .contains(run, "hides the name of a signal")
                                .doesNotContain("approved");
                    }
                });
    }

    @Test
    void sanitizing_functions_apply_to_exports() {
        runner().withBean(Flows.class)
                .withBean(
                        SanitizingFunction.class,
                        () -> data -> data.getKey().equals("steps.place") ? data.withSanitizedValue() : data)
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("approval", "anvil", "order 7");
                    await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.WAITING);
                    for (String values : List.of("masked", "full")) {
                        assertThat(ApiClient.of(context)
                                        .get(Map.of("values", values), "workflows", run.toString(), "history")
                                        .at("steps", 0, "result"))
                                .isEqualTo("******");
                    }
                });
    }

    @Test
    void invalid_requests_for_a_history_are_refused() {
        runner().withBean(Flows.class).run(context -> {
            ApiClient client = ApiClient.of(context);
            String unknown = UUID.randomUUID().toString();
            assertThat(client.get("workflows", unknown, "history").status()).isEqualTo(404);
            assertThat(client.get("workflows", unknown, "past").status()).isEqualTo(404);
            assertThat(client.get(Map.of("values", "some"), "workflows", unknown, "history")
                            .error(400))
                    .isEqualTo("Unknown values 'some'. Use one of [masked, full].");
            assertThat(client.get(Map.of("values", "full"), "workflows", unknown)
                            .error(400))
                    .isEqualTo("Unknown parameters [values]. Known: []");
            assertThat(client.get("workflows", "seven", "history").error(400)).isEqualTo("'seven' is not a run id");
            String endless = "9".repeat(5_000);
            assertThat(client.get("workflows", endless, "history").error(400)).hasSizeLessThan(300);
            assertThat(client.get(Map.of("values", endless), "workflows", unknown, "history")
                            .error(400))
                    .hasSizeLessThan(300);
        });
    }

    @Test
    void workflows_have_the_documented_json() {
        runner().withBean(Flows.class).run(context -> {
            Workflows workflows = context.getBean(Workflows.class);
            UUID run = workflows.start("approval", "anvil", "order 7");
            await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.WAITING);
            assertGet(context, """
                    {'runs': [{'id': '(id)', 'name': 'approval', 'version': '1', 'status': 'waiting',
                               'createdAt': '(time)', 'awaits': 'approved'}],
                     'cutOff': false}
                    """, "workflows");
            workflows.signal(run, "unexpected", null);
            assertGet(context, """
                    {
                      'id': '(id)', 'name': 'approval', 'version': '1', 'status': 'waiting', 'createdAt': '(time)',
                      'awaits': 'approved', 'signals': [{'name': 'unexpected', 'sentAt': '(time)'}], 'progress': {'percent': 40, 'message': 'half-way'}, 'key': 'order 7',
                      'input': 'anvil',
                      'steps': [
                        {'position': 0, 'name': 'place', 'kind': 'step', 'status': 'completed', 'attempts': 1,
                         'startedAt': '(time)', 'finishedAt': '(time)', 'result': 'placed anvil'},
                        {'position': 1, 'name': 'approved', 'kind': 'signal', 'status': 'waiting', 'attempts': 0,
                         'startedAt': '(time)'}
                      ]
                    }
                    """, "workflows", run.toString());
            // The compensation waits, so that the response cannot show the run as compensated.
            assertPost(context, "{'id': '(id)', 'status': 'compensating'}", "cancelled", "workflows", run.toString());
            context.getBean(Flows.class).released.countDown();
            UUID failing = workflows.start("failing", null);
            await().until(() -> workflows.find(failing).orElseThrow().status().isFinal());
            assertGet(context, """
                    {
                      'id': '(id)', 'name': 'failing', 'version': '1', 'status': 'failed', 'createdAt': '(time)',
                      'finishedAt': '(time)',
                      'error': '(error of the run)',
                      'steps': [
                        {'position': 0, 'name': 'break', 'kind': 'step', 'status': 'failed', 'attempts': 1,
                         'startedAt': '(time)', 'finishedAt': '(time)',
                         'error': 'java.lang.IllegalStateException: broken',
                         'attemptHistory': [{'attempt': 1, 'endedAt': '(time)', 'durationMillis': '(number)',
                                             'error': 'java.lang.IllegalStateException: broken'}]}
                      ]
                    }
                    """, "workflows", failing.toString());
        });
    }
}
