// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.actuate.ClusterEndpoint;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration;
import dev.forge.cluster.autoconfigure.ratelimit.RateLimitAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;

/** Operations without an adapter, in applications on a database. The tests of the endpoint cover most resources. */
@ClusterPostgres
class ClusterOperationsTests {

    private static final Caller OPERATOR = new Caller(true, "alice", "192.0.2.1", AuditSource.DASHBOARD);
    private static final Caller GUEST = new Caller(false, null, null, AuditSource.ENDPOINT);

    private final TestDatabase database;

    ClusterOperationsTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    static class Work {
        @ClusterJob
        void line() {}

        @ClusterJob
        void total() {}
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withPropertyValues("forge.cluster.node.name=first")
                .withConfiguration(AutoConfigurations.of(
                        RateLimitAutoConfiguration.class,
                        ClusterOperationsAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class))
                .withBean(Work.class);
    }

    private static ClusterOperations operations(ApplicationContext context) {
        return context.getBean(ClusterOperations.class);
    }

    private static JsonObject read(
            ApplicationContext context, Caller caller, Map<String, String> parameters, String... path) {
        OperationResult result = operations(context).read(caller, List.of(path), parameters);
        assertThat(result).isInstanceOf(OperationResult.Found.class);
        return body(result);
    }

    private static JsonObject body(OperationResult result) {
        return (JsonObject) ((OperationResult.Found) result).body();
    }

    @SuppressWarnings("unchecked")
    private static List<JsonObject> list(JsonObject body, String member) {
        return (List<JsonObject>) Objects.requireNonNull(body.get(member));
    }

    private static List<JsonObject> jobs(ApplicationContext context, Caller caller, Map<String, String> parameters) {
        return list(read(context, caller, parameters, "jobs"), "jobs");
    }

    @Test
    void operations_exist_without_an_exposed_endpoint_but_not_without_actuator() {
        runner().run(context -> {
            assertThat(context).hasSingleBean(ClusterOperations.class).doesNotHaveBean(ClusterEndpoint.class);
            assertThat(read(context, GUEST, Map.of(), "overview").get("cluster"))
                    .isEqualTo("orders");
            assertThat(operations(context).resources())
                    .contains("jobs", "rate-limits")
                    .doesNotContain("workflows");
        });
        runner().withClassLoader(new FilteredClassLoader("org.springframework.boot.actuate"))
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean("clusterOperations"));
    }

    @Test
    void unknown_resources_and_entries_are_values() {
        runner().run(context -> {
            ClusterOperations operations = operations(context);
            for (List<String> path : List.of(
                    List.<String>of(),
                    List.of("nothing"),
                    List.of("locks", "any"),
                    List.of("jobs", new UUID(0, 0).toString()),
                    List.of("jobs", new UUID(0, 0).toString(), "logs"),
                    List.of("crons", "no", "such"))) {
                assertThat(operations.read(OPERATOR, path, Map.of()))
                        .isEqualTo(new OperationResult.NotFound("Not found: '%s'".formatted(String.join("/", path))));
            }
            assertThat(operations.change(OPERATOR, List.of("locks", "any"), "paused", Map.of()))
                    .isInstanceOf(OperationResult.NotFound.class);
            assertThat(operations.change(OPERATOR, List.of("jobs", "nobody"), "paused", Map.of()))
                    .isInstanceOfSatisfying(
                            OperationResult.NotFound.class,
                            missing -> assertThat(missing.message()).contains("Unknown job 'nobody'"));
        });
    }

    @Test
    void each_resource_refuses_parameters_that_it_does_not_have() {
        runner().run(context -> {
            Map<List<String>, String> known = Map.of(
                    List.of("nodes"), "[]",
                    List.of("locks"), "[limit]",
                    List.of("batches"), "[after, limit]",
                    List.of("demand"), "[]",
                    List.of("daemons", "any"), "[]",
                    List.of("limits", "line"), "[limit]");
            known.forEach((path, parameters) -> assertThatExceptionOfType(InvalidOperationException.class)
                    .as(path.toString())
                    .isThrownBy(() -> operations(context).read(OPERATOR, path, Map.of("name", "line")))
                    .withMessage("Unknown parameters [name]. Known: " + parameters));
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("line");
            UUID job = jobs.enqueueNamed("line", null).id();
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> operations(context)
                            .change(OPERATOR, List.of("jobs", job.toString()), "cancelled", Map.of("preview", "true")))
                    .withMessageContaining("[preview]");
            assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            jobs.resume("line");
        });
    }

    @Test
    void invalid_parameter_is_named_with_its_value() {
        runner().run(context -> {
            Map<Map<String, String>, String> messages = Map.of(
                    Map.of("limit", "many"), "limit 'many' must be a whole number",
                    Map.of("limit", "0"), "limit (0) must be between 1 and 1000",
                    Map.of("createdFrom", "now"), "createdFrom 'now' must be a time",
                    Map.of("batch", "7"), "'7' is not a batch id",
                    Map.of("status", "lost"), "Unknown status 'lost'",
                    Map.of("after", "x"), "cursor");
            messages.forEach((parameters, message) -> assertThatExceptionOfType(InvalidOperationException.class)
                    .as(parameters.toString())
                    .isThrownBy(() -> operations(context).read(OPERATOR, List.of("jobs"), parameters))
                    .withMessageContaining(message));
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() ->
                            operations(context).change(OPERATOR, List.of("jobs"), "retry", Map.of("everyJob", "yes")))
                    .withMessage("everyJob 'yes' must be true or false");
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> operations(context).read(OPERATOR, List.of("batches"), Map.of("after", "7")))
                    .withMessageContaining("cursor '7' is damaged");
        });
    }

    @Test
    void jobs_show_their_group_tags_batch_and_relations() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("line");
            JobBatch batch = jobs.batch(JobBatchOptions.named("import"));
            UUID line = jobs.enqueueNamed(
                            "line",
                            null,
                            JobOptions.defaults()
                                    .withGroup("acme")
                                    .withTags("spring")
                                    .withBatch(batch.id()))
                    .id();
            UUID total = jobs.enqueueNamed("total", null, JobOptions.defaults().withStartAfterSuccessOf(line))
                    .id();
            assertThat(jobs(context, OPERATOR, Map.of("name", "line")))
                    .singleElement()
                    .satisfies(job -> {
                        assertThat(job.get("group")).isEqualTo("acme");
                        assertThat(job.get("tags")).isEqualTo(List.of("spring"));
                        assertThat(job.get("batch")).isEqualTo(batch.id());
                        assertThat(job.get("awaitedBy")).isEqualTo(List.of(total));
                        assertThat(job).doesNotContainKey("waitsFor");
                    });
            assertThat(jobs(context, GUEST, Map.of("batch", batch.id().toString())))
                    .singleElement()
                    .satisfies(job -> {
                        assertThat(job.get("id")).isEqualTo(line);
                        assertThat(job.get("group")).isEqualTo("******");
                    });
            assertThat(jobs(context, GUEST, Map.of("name", "total")))
                    .singleElement()
                    .extracting(job -> job.get("waitsFor"))
                    .isEqualTo(List.of(line));
            jobs.resume("line");
            await().until(() -> jobs.find(line).orElseThrow().status().isFinal());
            assertThat(read(context, GUEST, Map.of(), "jobs", line.toString())).satisfies(job -> {
                assertThat(job.get("batch")).isEqualTo(batch.id());
                assertThat(job.get("nodeName")).isEqualTo("first");
            });
            await().until(() -> jobs.find(total).orElseThrow().status().isFinal());
            batch.close();
        });
    }

    @Test
    void batches_are_listed_page_by_page() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            List<UUID> newestFirst = IntStream.range(0, 3)
                    .mapToObj(n ->
                            jobs.batch(JobBatchOptions.named("import " + n)).id())
                    .sorted((one, other) -> other.toString().compareTo(one.toString()))
                    .toList();
            assertThat(batches(context, Map.of("limit", "2"))).isEqualTo(newestFirst.subList(0, 2));
            String next = String.valueOf(
                    read(context, GUEST, Map.of("limit", "2"), "batches").get("next"));
            assertThat(batches(context, Map.of("after", next))).isEqualTo(newestFirst.subList(2, 3));
        });
    }

    static class Schedules {
        @ClusterCron(value = "0 * * * *", name = "hourly")
        void hourly() {}

        @ClusterCron(every = "365d", name = "yearly")
        void yearly() {}
    }

    private static JsonObject cron(ApplicationContext context, String name, Map<String, String> parameters) {
        JsonObject crons = read(context, GUEST, parameters, "crons");
        return Stream.concat(list(crons, "cron").stream(), list(crons, "fixedRate").stream())
                .filter(cron -> name.equals(cron.get("name")))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void crons_are_listed_with_their_latest_slots_if_asked_for() {
        runner().withBean(Schedules.class).run(context -> {
            Crons crons = context.getBean(Crons.class);
            await().until(() ->
                    crons.find("hourly").isPresent() && crons.find("yearly").isPresent());
            // A time after those that the leader decides in the meantime.
            database.jdbc().sql("""
                    INSERT INTO forge_cron_runs (cron, slot, outcome, reason, job_id, job_status, last_error)
                    SELECT 'hourly', now() + n * interval '1 hour', 'ran', NULL, gen_random_uuid(), 'completed', 'long'
                    FROM generate_series(1, 30) n
                    UNION ALL SELECT 'hourly', now() + interval '31 hours', 'missed', 'no leader', NULL, NULL, NULL
                    UNION ALL SELECT 'hourly', now() + interval '32 hours', 'ran', NULL, gen_random_uuid(), 'failed', 'long'
                    """).update();
            assertThat(cron(context, "hourly", Map.of())).doesNotContainKey("recent");
            assertThat(list(cron(context, "hourly", Map.of("recent", "20")), "recent"))
                    .hasSize(20)
                    .isSortedAccordingTo(Comparator.comparing(
                                    (JsonObject slot) -> (Instant) Objects.requireNonNull(slot.get("time")))
                            .reversed())
                    .satisfies(slots -> {
                        assertThat(slots.get(0).get("outcome")).isEqualTo("ran");
                        assertThat(slots.get(0).get("status")).isEqualTo("ERROR");
                        assertThat(slots.get(0).get("job")).isNotNull();
                        assertThat(slots.get(1).get("outcome")).isEqualTo("missed");
                        assertThat(slots.get(1).get("reason")).isEqualTo("no leader");
                        assertThat(slots.get(1).get("status")).isNull();
                        assertThat(slots.get(2).get("status")).isEqualTo("SUCCESS");
                    });
            assertThat(list(cron(context, "hourly", Map.of("recent", "1")), "recent"))
                    .hasSize(1);
            assertThat(list(cron(context, "yearly", Map.of("recent", "20")), "recent"))
                    .isEmpty();
            for (String slots : List.of("0", "21")) {
                assertThatExceptionOfType(InvalidOperationException.class)
                        .isThrownBy(() -> read(context, GUEST, Map.of("recent", slots), "crons"))
                        .withMessage("Parameter 'recent' (%s) must be between 1 and 20".formatted(slots));
            }
        });
    }

    private static List<Object> batches(ApplicationContext context, Map<String, String> parameters) {
        return list(read(context, GUEST, parameters, "batches"), "batches").stream()
                .map(batch -> batch.get("id"))
                .toList();
    }

    @Test
    void rate_limits_are_listed_by_key_and_their_keys_are_masked() {
        runner().run(context -> {
            RateLimiter limiter = context.getBean(RateLimiter.class);
            for (String name : List.of("sms", "mail", "fax")) {
                assertThat(limiter.tryAcquire(name, RateLimit.of(10, Duration.ofHours(1)))
                                .allowed())
                        .isTrue();
            }
            assertThat(rateLimits(context, OPERATOR, Map.of()))
                    .extracting(bucket -> bucket.get("key"))
                    .containsExactly("fax", "mail", "sms");
            assertThat(rateLimits(context, OPERATOR, Map.of("after", "fax", "limit", "1")))
                    .singleElement()
                    .satisfies(bucket -> {
                        assertThat(bucket.get("key")).isEqualTo("mail");
                        assertThat(bucket.get("capacity")).isEqualTo(10.0);
                        assertThat((Double) bucket.get("available")).isBetween(9.0, 10.0);
                    });
            assertThat(rateLimits(context, GUEST, Map.of()))
                    .hasSize(3)
                    .allSatisfy(bucket -> assertThat(bucket.get("key")).isEqualTo("******"));
            assertThatExceptionOfType(HiddenValuesException.class)
                    .isThrownBy(() -> rateLimits(context, GUEST, Map.of("after", "fax")))
                    .withMessage("The parameters [after] select by values that are hidden from this user");
        });
    }

    private static List<JsonObject> rateLimits(
            ApplicationContext context, Caller caller, Map<String, String> parameters) {
        return list(read(context, caller, parameters, "rate-limits"), "rateLimits");
    }

    private static OperationResult change(
            ApplicationContext context, String state, Map<String, String> parameters, String... path) {
        return operations(context).change(OPERATOR, List.of(path), state, parameters);
    }

    static class Payments {
        @ClusterJob(name = "pay", maxAttempts = 1, group = "#payload.customer")
        void pay(Map<String, Object> payload) {
            if (payload.get("amount") == null) {
                throw new NonRetryableJobException("no amount");
            }
        }
    }

    @Test
    void failed_job_is_retried_with_another_payload() {
        runner().withBean(Payments.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            UUID job = jobs.enqueueNamed("pay", Map.of("customer", "acme")).id();
            await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.FAILED);
            String path = job.toString();
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> change(context, "retry", Map.of("payload", "{'no': json}"), "jobs", path))
                    .withMessageContaining("is not JSON");
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> change(context, "retry", Map.of("payload", "[1]"), "jobs", path))
                    .withMessageContaining("cannot be read");
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() ->
                            operations(context).change(GUEST, List.of("jobs", path), "retry", Map.of("payload", "{}")))
                    .withMessageContaining("may see payloads");
            assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.FAILED);
            // A number that a double cannot hold.
            String payload = "{\"customer\": \"other\", \"amount\": 12345678901234567890.10}";
            assertThat(change(context, "retry", Map.of("payload", payload), "jobs", path))
                    .isInstanceOf(OperationResult.Found.class);
            await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
            JobInfo done = jobs.find(job).orElseThrow();
            assertThat(done.payload()).contains("12345678901234567890.10");
            assertThat(done.group()).isEqualTo("other");
        });
    }

    @Test
    void job_is_duplicated_with_its_properties() {
        runner().withBean(Payments.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("pay");
            UUID job = jobs.enqueueNamed(
                            "pay",
                            Map.of("customer", "acme", "amount", 1),
                            JobOptions.defaults().withTags("sale").withGroup("own"))
                    .id();
            UUID copy = duplicate(context, job, Map.of());
            assertThat(copy).isNotEqualTo(job);
            assertThat(jobs.find(copy).orElseThrow()).satisfies(copied -> {
                assertThat(copied.payload())
                        .isEqualTo(jobs.find(job).orElseThrow().payload());
                assertThat(copied.tags()).containsExactly("sale");
                assertThat(copied.group()).isEqualTo("own");
            });
            UUID edited = duplicate(context, job, Map.of("payload", "{\"customer\": \"other\"}"));
            assertThat(jobs.find(edited).orElseThrow()).satisfies(copied -> {
                assertThat(copied.payload()).contains("other");
                // It was given by the enqueuer, not by the payload.
                assertThat(copied.group()).isEqualTo("own");
            });
            UUID unique = jobs.enqueueNamed(
                            "line",
                            null,
                            JobOptions.defaults().withUniqueKey("one").withDelay(Duration.ofDays(1)))
                    .id();
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> duplicate(context, unique, Map.of()))
                    .withMessageContaining("has its unique key");
            assertThat(change(context, "duplicated", Map.of(), "jobs", new UUID(0, 1).toString()))
                    .isInstanceOf(OperationResult.NotFound.class);
            assertThat(list(read(context, OPERATOR, Map.of("action", "job.copy"), "audit"), "entries"))
                    .hasSize(2)
                    .allSatisfy(entry -> {
                        assertThat(entry.get("who")).isEqualTo("alice");
                        assertThat(entry.get("address")).isEqualTo("192.0.2.1");
                        assertThat(entry.get("source")).isEqualTo("dashboard");
                        assertThat(entry.get("target")).isEqualTo(job.toString());
                    });
        });
    }

    private static UUID duplicate(ApplicationContext context, UUID job, Map<String, String> parameters) {
        OperationResult result = change(context, "duplicated", parameters, "jobs", job.toString());
        assertThat(result).isInstanceOf(OperationResult.Found.class);
        return (UUID) Objects.requireNonNull(body(result).get("id"));
    }

    @Test
    void selected_jobs_are_changed_together() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("line");
            List<UUID> ids = IntStream.range(0, 3)
                    .mapToObj(n -> jobs.enqueueNamed("line", null).id())
                    .toList();
            String selected = ids.get(0) + "," + ids.get(2);
            assertThat(jobs(context, GUEST, Map.of("ids", selected)))
                    .extracting(job -> job.get("id"))
                    .containsExactlyInAnyOrder(ids.get(0), ids.get(2));
            OperationResult result = change(context, "cancelled", Map.of("ids", selected, "reason", "mistake"), "jobs");
            assertThat(body(result).get("changed")).isEqualTo(2L);
            assertThat(jobs.find(ids.get(1)).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            JsonObject seen = read(context, OPERATOR, Map.of(), "audit");
            assertThat(list(seen, "entries").get(0)).satisfies(entry -> {
                assertThat(entry.get("action")).isEqualTo("jobs.cancel-all");
                assertThat(entry.get("reason")).isEqualTo("mistake");
                assertThat(String.valueOf(entry.get("target")))
                        .contains(ids.get(0).toString());
            });
            JsonObject hidden = read(context, GUEST, Map.of(), "audit");
            assertThat(list(hidden, "entries").get(0).get("target")).isEqualTo("******");
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> jobs(context, GUEST, Map.of("ids", "7")))
                    .withMessage("'7' is not a job id");
        });
    }

    @Test
    void change_of_one_selected_job_is_recorded_with_its_id() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("line");
            UUID job = jobs.enqueueNamed("line", null).id();
            change(context, "rescheduled", Map.of("ids", job.toString(), "at", "2041-02-03T04:05:06Z"), "jobs");
            change(context, "cancelled", Map.of("ids", job.toString(), "name", "line", "reason", "mistake"), "jobs");
            JsonObject seen = read(context, GUEST, Map.of("target", job.toString()), "audit");
            assertThat(list(seen, "entries")).singleElement().satisfies(entry -> {
                assertThat(entry.get("action")).isEqualTo("jobs.reschedule-all");
                assertThat(entry.get("target")).isEqualTo(job.toString());
            });
            JsonObject other = read(context, OPERATOR, Map.of("action", "jobs.cancel-all"), "audit");
            assertThat(String.valueOf(list(other, "entries").get(0).get("target")))
                    .as("a filter with a further condition")
                    .isEqualTo("name=line, ids=" + job);
        });
    }

    /** The demand, which names are read with, is some seconds old. */
    @Test
    void job_name_is_paused_and_resumed_at_once() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            for (boolean paused : new boolean[] {false, true, false}) {
                if (paused) {
                    jobs.pause("line");
                } else {
                    jobs.resume("line");
                }
                JsonObject names = read(context, GUEST, Map.of(), "job-names");
                assertThat(list(names, "names"))
                        .filteredOn(name -> "line".equals(name.get("name")))
                        .singleElement()
                        .satisfies(name -> assertThat(name.get("paused")).isEqualTo(paused));
            }
        });
    }

    @Test
    void history_names_attention_and_versions_are_read() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("total");
            jobs.enqueueNamed("total", null);
            JsonObject history = read(context, GUEST, Map.of("range", "1h"), "history");
            assertThat(history.get("stepSeconds")).isEqualTo(60L);
            assertThat(list(history, "points")).hasSizeBetween(60, 61);
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> read(context, GUEST, Map.of("range", "soon"), "history"))
                    .withMessageContaining("range 'soon'");
            assertThatExceptionOfType(InvalidOperationException.class)
                    .isThrownBy(() -> read(context, GUEST, Map.of("range", "P91D"), "history"))
                    .withMessageContaining("PT2184H");
            JsonObject names = read(context, GUEST, Map.of(), "job-names");
            assertThat(list(names, "names"))
                    .extracting(name -> name.get("name"))
                    .contains("line", "total");
            assertThat(list(names, "names"))
                    .filteredOn(name -> "total".equals(name.get("name")))
                    .singleElement()
                    .satisfies(name -> {
                        assertThat(name.get("paused")).isEqualTo(true);
                        assertThat(name.get("due")).isEqualTo(1L);
                    });
            JsonObject attention = read(context, GUEST, Map.of(), "attention");
            assertThat(list(attention, "items")).anySatisfy(item -> {
                assertThat(item.get("kind")).isEqualTo("paused-jobs");
                assertThat(item.get("target")).isEqualTo("total");
            });
        });
    }
}
