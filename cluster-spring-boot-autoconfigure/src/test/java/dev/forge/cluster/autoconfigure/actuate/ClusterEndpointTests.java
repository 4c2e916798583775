// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.web.ApiClient;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;
import org.springframework.boot.actuate.endpoint.web.WebEndpointHttpMethod;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** The endpoint, in applications on a database. {@link EndpointJsonTests} pins the JSON of its responses. */
@ClusterPostgres
class ClusterEndpointTests {

    private final TestDatabase database;

    ClusterEndpointTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        return EndpointClient.expose(TestApplications.on(database).withPropertyValues("forge.cluster.node.name=first"));
    }

    private ApplicationContextRunner runnerThatShowsValuesToOperators() {
        return runner().withPropertyValues(
                        "management.endpoint.forgecluster.show-values=when-authorized",
                        "management.endpoint.forgecluster.roles=operator");
    }

    @Test
    void overview_names_the_node_its_leaderships_and_counts() {
        runner().run(context -> {
            // The node is elected some time after its start, and a paused machine may lose a term.
            await().untilAsserted(() -> {
                EndpointClient.Response overview = EndpointClient.of(context).get();
                assertThat(overview.at("cluster")).isEqualTo("orders");
                assertThat(overview.at("nodes")).isEqualTo(Map.of("active", 1));
                assertThat(overview.at("node", "name")).isEqualTo("first");
                assertThat(overview.at("node", "state")).isEqualTo("running");
                assertThat(overview.list("node", "leads")).asString().contains("scheduler");
                assertThat(overview.list("leaders"))
                        .extracting(leader -> ((Map<?, ?>) leader).get("role"))
                        .asString()
                        .isEqualTo("[log_compactor, metrics_aggregator, scheduler]");
                assertThat(overview.list("leaders"))
                        .allSatisfy(leader -> assertThat((Integer) ((Map<?, ?>) leader).get("term"))
                                .isPositive());
            });
            EndpointClient client = EndpointClient.of(context);
            assertThat(client.get("nodes").at("nodes", 0, "name")).isEqualTo("first");
            assertThat(client.get("nodes").at("nodes", 0, "status")).isEqualTo("active");
            assertThat(client.get("nothing").status()).isEqualTo(404);
        });
    }

    @Test
    void draining_a_node_is_idempotent_and_needs_the_id_of_a_live_node() {
        runner().run(context -> {
            EndpointClient client = EndpointClient.of(context);
            var node = context.getBean(NodeRuntime.class).node();
            String id = String.valueOf(node.id());
            assertThat(client.post("flying", "nodes", id).error(400)).contains("'flying'", "'draining'");
            Map<String, String> draining = Map.of("id", id, "state", "draining");
            assertThat(client.post("draining", "nodes", id).body()).isEqualTo(draining);
            await().until(() -> client.get().at("node", "state").equals("draining"));
            assertThat(client.post("draining", "nodes", id).body()).isEqualTo(draining);
            assertThat(client.post("draining", "nodes", new UUID(0, 0).toString())
                            .status())
                    .isEqualTo(404);
            assertThat(client.post("draining", "nodes", "first").error(400)).isEqualTo("'first' is not a node id");
        });
    }

    @Test
    void locks_are_limited_and_their_names_masked_unless_values_are_shown() {
        runnerThatShowsValuesToOperators()
                .withBean(
                        SanitizingFunction.class,
                        () -> data ->
                                data.getKey().equals("lock") && data.getValue().equals("customer 7")
                                        ? data.withSanitizedValue()
                                        : data)
                .run(context -> {
                    ClusterLocks locks = context.getBean(ClusterLocks.class);
                    for (int i = 0; i < 60; i++) {
                        assertThat(locks.tryLock("customer " + i)).isPresent();
                    }
                    EndpointClient anonymous = EndpointClient.of(context);
                    assertThat(anonymous.get("locks").list("locks"))
                            .hasSize(50)
                            .allSatisfy(lock ->
                                    assertThat(((Map<?, ?>) lock).get("name")).isEqualTo("******"));
                    assertThat(anonymous
                                    .inRole("operator")
                                    .get(Map.of("limit", "1000"), "locks")
                                    .list("locks"))
                            .hasSize(60)
                            .extracting(lock -> String.valueOf(((Map<?, ?>) lock).get("name")))
                            .contains("customer 8", "******")
                            .doesNotContain("customer 7");
                    for (String limit : List.of("0", "-1", "1001")) {
                        assertThat(anonymous
                                        .get(Map.of("limit", limit), "locks")
                                        .error(400))
                                .isEqualTo("limit (%s) must be between 1 and 1000", limit);
                    }
                });
    }

    @Test
    void parameter_with_a_control_character_is_a_bad_request() {
        runner().withBean(Post.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            for (String bad : List.of("\0", "a\0b", "a\nb")) {
                for (String resource : List.of("jobs", "nodes", "locks", "crons", "daemons", "workflows")) {
                    assertThat(List.of(
                                    client.get(Map.of("name", bad), resource),
                                    client.get(Map.of("status", bad), resource),
                                    client.get(resource, bad),
                                    client.post("paused", resource, bad),
                                    client.post(bad, resource, "any")))
                            .allSatisfy(
                                    response -> assertThat(response.error(400)).contains("control character"));
                }
            }
        });
    }

    @Test
    void readers_that_wait_for_the_database_leave_connections_to_the_application() {
        runner().withBean(Post.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            var threads = Executors.newCachedThreadPool();
            try (Connection other = database.dataSource().getConnection();
                    Statement lock = other.createStatement()) {
                other.setAutoCommit(false);
                lock.execute("LOCK TABLE forge_jobs");
                List<Future<Integer>> waiting = IntStream.range(0, ClusterOperations.CONCURRENT_READS)
                        .mapToObj(i -> threads.submit(() -> client.get("jobs").status()))
                        .toList();
                await().until(() -> client.get("nodes").status() == 503);
                other.rollback();
                for (Future<Integer> reader : waiting) {
                    assertThat(reader.get()).isEqualTo(200);
                }
                assertThat(client.get("nodes").status()).isEqualTo(200);
            } finally {
                threads.shutdownNow();
            }
        });
    }

    @Test
    void demand_does_not_wait_for_readers_of_other_resources() {
        runner().withBean(Post.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            var threads = Executors.newCachedThreadPool();
            try (Connection other = database.dataSource().getConnection();
                    Statement lock = other.createStatement()) {
                other.setAutoCommit(false);
                lock.execute("LOCK TABLE forge_job_batches");
                List<Future<Integer>> waiting = IntStream.range(0, ClusterOperations.CONCURRENT_READS)
                        .mapToObj(
                                i -> threads.submit(() -> client.get("batches").status()))
                        .toList();
                await().until(() -> client.get("nodes").status() == 503);
                assertThat(client.get("demand").status()).isEqualTo(200);
                other.rollback();
                for (Future<Integer> reader : waiting) {
                    assertThat(reader.get()).isEqualTo(200);
                }
            } finally {
                threads.shutdownNow();
            }
        });
    }

    // Jobs --------------------------------------------------------------------------------------------------

    record Letter(String to, String password, List<String> pages, Map<String, Integer> stampsByOwner) {}

    private static Letter letter() {
        return new Letter("Alice", "secret", List.of("one", "two"), Map.of("Bob", 2));
    }

    static class Post {
        @ClusterJob
        Map<String, String> send(Letter letter) {
            return Map.of("sentTo", letter.to());
        }

        @ClusterJob(maxAttempts = 1)
        void burn(JobContext job) {
            job.log("fire near {}", "Alice");
            throw new IllegalStateException("ashes of Alice");
        }
    }

    @Test
    void jobs_are_listed_by_name_and_status_up_to_a_limit() {
        runner().withBean(Post.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("send");
            List<UUID> sent = jobs.enqueueAll(Collections.nCopies(60, letter())).stream()
                    .map(EnqueuedJob::id)
                    .toList();
            UUID burnt = jobs.enqueueNamed("burn", null).id();
            await().until(() -> jobs.find(burnt).orElseThrow().status() == JobStatus.FAILED);
            assertThat(client.get("jobs").list("jobs")).hasSize(50);
            assertThat(client.get(Map.of("limit", "1000"), "jobs").list("jobs")).hasSize(61);
            EndpointClient.Response failed = client.get(Map.of("status", "failed"), "jobs");
            assertThat(failed.at("paused")).isEqualTo(List.of("send"));
            assertThat(failed.list("jobs")).hasSize(1);
            assertThat(failed.at("jobs", 0, "id")).isEqualTo(burnt.toString());
            assertThat(failed.at("jobs", 0, "status")).isEqualTo("failed");
            assertThat(client.get(Map.of("name", "send", "status", "PENDING", "limit", "7"), "jobs")
                            .list("jobs"))
                    .hasSize(7);
            assertThat(client.get(Map.of("name", "nobody's"), "jobs").list("jobs"))
                    .isEmpty();
            assertThat(client.get().at("jobs")).isEqualTo(Map.of("pending", 60));
            assertThat(client.get(Map.of("status", "flying"), "jobs").error(400))
                    .isEqualTo("Unknown status 'flying'. Use one of"
                            + " [pending, claimed, running, completed, failed, cancelled, abandoned].");
            for (String limit : List.of("0", "-1", "1001")) {
                assertThat(client.get(Map.of("limit", limit), "jobs").error(400))
                        .contains("limit (%s)".formatted(limit));
            }
            assertThatExceptionOfType(InvalidEndpointRequestException.class)
                    .isThrownBy(() -> client.get(Map.of("limit", "many"), "jobs"));
            sent.forEach(jobs::cancel);
            jobs.resume("send");
        });
    }

    @Test
    void unknown_parameters_and_empty_words_are_refused() {
        runner().run(context -> {
            EndpointClient client = EndpointClient.of(context);
            assertThat(client.invoke(
                                    WebEndpointHttpMethod.POST,
                                    Map.of("state", "cancelled", "tags", "a", "name", "b"),
                                    "jobs")
                            .error(400))
                    .contains("[name, tags]", "Known: [reason]", "HTTP API", "forge.cluster.operations.enabled");
            assertThat(client.get(Map.of("tagg", "a"), "jobs").error(400))
                    .isEqualTo("Unknown parameters [tagg]. Known: [after, limit, name, status]");
            assertThat(client.get(Map.of("status", "failed,,pending"), "jobs").error(400))
                    .contains("'failed,,pending'");
            assertThat(ApiClient.of(context).get(Map.of("tag", "a,,b"), "jobs").error(400))
                    .contains("'a,,b'");
        });
    }

    @Test
    void changes_of_many_entries_belong_to_the_http_api() {
        runner().withBean(Post.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("send");
            UUID job = jobs.enqueue(letter()).id();
            for (String[] path : new String[][] {{"jobs"}, {"jobs", ""}}) {
                assertThat(EndpointClient.of(context).post("cancelled", path).error(400))
                        .contains("jobs/{name or id}", "HTTP API", "forge.cluster.operations.enabled");
            }
            assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            jobs.cancel(job);
            jobs.resume("send");
        });
    }

    /** Returns the ids of all jobs with an error. A search that takes long, on a busy machine, ends with a page without jobs. */
    private static List<Object> allPages(ApiClient client, String error) {
        var ids = new ArrayList<Object>();
        var query = new HashMap<String, Object>(Map.of("error", error));
        do {
            EndpointClient.Response page = client.get(query, "jobs");
            page.list("jobs").forEach(job -> ids.add(((Map<?, ?>) job).get("id")));
            query.put("after", ((Map<?, ?>) page.body()).get("next"));
        } while (query.get("after") != null);
        return ids;
    }

    @Test
    void jobs_are_searched_page_by_page() {
        runner().withBean(Post.class).run(context -> {
            ApiClient client = ApiClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("send");
            JobOptions options = JobOptions.defaults()
                    .withTags("spring", "sale")
                    .withGroup("acme")
                    .withMetadata("tenant", "a=b");
            List<UUID> tagged = jobs.enqueueAll(Collections.nCopies(5, letter()), options).stream()
                    .map(EnqueuedJob::id)
                    .toList();
            jobs.enqueueAll(Collections.nCopies(5, letter()));
            UUID burnt = jobs.enqueueNamed("burn", null).id();
            await().until(() -> jobs.find(burnt).orElseThrow().status() == JobStatus.FAILED);
            for (Map<String, Object> query : List.<Map<String, Object>>of(
                    Map.of("tag", "sale"),
                    Map.of("tag", "sale,spring", "status", "pending,running"),
                    Map.of("group", "acme"),
                    Map.of("metadata", "tenant=a=b", "createdFrom", "2020-01-01T00:00:00Z"))) {
                assertThat(client.get(query, "jobs").list("jobs"))
                        .as(query.toString())
                        .hasSize(5);
            }
            EndpointClient.Response first = client.get(Map.of("tag", "sale", "limit", "3"), "jobs");
            assertThat(first.list("jobs")).hasSize(3);
            assertThat(first.at("cutOff")).isEqualTo(false);
            String next = String.valueOf(first.at("next"));
            assertThat(client.get(Map.of("tag", "sale", "limit", "3", "after", next), "jobs")
                            .list("jobs"))
                    .hasSize(2);
            assertThat(client.get(Map.of("tag", "spring", "after", next), "jobs")
                            .error(400))
                    .contains("cursor");
            assertThat(allPages(client, "ashes of")).containsExactly(burnt.toString());
            assertThat(allPages(client, "no such text")).isEmpty();
            assertThat(client.get(Map.of("finishedBefore", "yesterday"), "jobs").error(400))
                    .contains("finishedBefore 'yesterday'");
            assertThat(client.get(Map.of("metadata", "tenant"), "jobs").error(400))
                    .contains("key=value");
            assertThat(client.get("jobs", burnt.toString(), "logs").at("lines", 0, "message"))
                    .isEqualTo("fire near Alice");
            assertThat(client.get("jobs", new UUID(0, 0).toString(), "logs").status())
                    .isEqualTo(404);
            assertThat(client.get("jobs", "burn", "logs").error(400)).contains("'burn' is not a job id");
            ApiClient anonymous = client.blind();
            assertThat(anonymous.get("jobs", burnt.toString(), "logs").at("lines", 0, "message"))
                    .isEqualTo("******");
            assertThat(anonymous.get(Map.of("tag", "sale"), "jobs").list("jobs"))
                    .hasSize(5);
            for (String parameter : List.of("error", "key", "group", "metadata")) {
                assertThat(anonymous.get(Map.of(parameter, "a=b"), "jobs").error(400))
                        .contains("hidden from this user");
            }
            tagged.forEach(jobs::cancel);
            jobs.resume("send");
        });
    }

    @Test
    void jobs_that_match_a_query_are_changed_together() {
        runner().withBean(Post.class).run(context -> {
            ApiClient client = ApiClient.of(context).blind();
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("send");
            jobs.enqueueAll(
                    Collections.nCopies(5, letter()), JobOptions.defaults().withTags("sale"));
            jobs.enqueueAll(Collections.nCopies(2, letter()));
            assertThat(changeAll(client, Map.of("state", "cancelled", "tag", "sale", "preview", true))
                            .body())
                    .isEqualTo(Map.of("examined", 5, "matched", 5, "changed", 0, "rejected", 0, "preview", true));
            EndpointClient.Response some = changeAll(client, Map.of("state", "cancelled", "tag", "sale", "limit", 3));
            assertThat(some.at("changed")).isEqualTo(3);
            assertThat(changeAll(
                                    client,
                                    Map.of(
                                            "state",
                                            "cancelled",
                                            "tag",
                                            "sale",
                                            "after",
                                            String.valueOf(some.at("next"))))
                            .at("changed"))
                    .isEqualTo(2);
            assertThat(changeAll(client, Map.of("state", "retry", "tag", "sale"))
                            .at("changed"))
                    .isEqualTo(5);
            assertThat(changeAll(client, Map.of("state", "rescheduled", "tag", "sale", "at", "2999-01-01T00:00:00Z"))
                            .at("changed"))
                    .isEqualTo(5);
            assertThat(changeAll(client, Map.of("state", "rescheduled", "tag", "sale"))
                            .error(400))
                    .contains("'at'");
            assertThat(changeAll(client, Map.of("state", "cancelled")).error(400))
                    .contains("no condition");
            assertThat(changeAll(client, Map.of("state", "cancelled", "everyJob", "true"))
                            .at("changed"))
                    .isEqualTo(7);
            assertThat(changeAll(client, Map.of("state", "deleted", "name", "send"))
                            .at("changed"))
                    .isEqualTo(7);
            assertThat(changeAll(client, Map.of("state", "flying", "name", "send"))
                            .error(400))
                    .contains("'flying'", "'deleted'");
            assertThat(changeAll(client, Map.of("state", "cancelled", "error", "x"))
                            .error(400))
                    .contains("hidden from this user");
            jobs.resume("send");
        });
    }

    private static EndpointClient.Response changeAll(ApiClient client, Map<String, Object> arguments) {
        var withReason = new HashMap<>(arguments);
        withReason.put("reason", "test");
        return client.change(withReason, "jobs");
    }

    @Test
    void destructive_change_needs_a_reason_which_is_recorded_with_the_caller() {
        runner().withBean(Post.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("send");
            String id = jobs.enqueue(letter()).id().toString();
            assertThat(client.invoke(WebEndpointHttpMethod.POST, Map.of("state", "cancelled"), "jobs", id)
                            .error(400))
                    .contains("'cancelled'", "'reason'");
            assertThat(ApiClient.of(context)
                            .change(Map.of("state", "deleted", "name", "send", "reason", " "), "jobs")
                            .error(400))
                    .contains("'deleted'", "'reason'");
            assertThat(client.post("cancelled", "jobs", id).status()).isEqualTo(200);
            EndpointClient.Response audit = client.get("audit");
            assertThat(audit.at("entries", 0, "action")).isEqualTo("job.cancel");
            assertThat(audit.at("entries", 0, "source")).isEqualTo("endpoint");
            assertThat(audit.at("entries", 0, "reason"))
                    .as("show-values is never")
                    .isEqualTo("******");
            assertThat(ApiClient.of(context)
                            .get(Map.of("source", "rumour"), "audit")
                            .error(400))
                    .contains("source 'rumour'", "endpoint");
            jobs.resume("send");
        });
    }

    private static final JobOptions OPTIONS =
            JobOptions.defaults().withUniqueKey("alice@example.org").withMetadata("tenant", "acme");

    @Test
    void values_of_a_job_are_masked_by_default_with_the_names_of_their_members() {
        runner().withBean(Post.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            UUID job = jobs.enqueue(letter(), OPTIONS).id();
            await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
            EndpointClient.Response response = client.get("jobs", job.toString());
            assertThat(response.at("payload")).isEqualTo("******");
            assertThat(response.at("result")).isEqualTo("******");
            assertThat(response.at("metadata")).isEqualTo("******");
            assertThat(String.valueOf(response.body()))
                    .as("names of members are data as well")
                    .doesNotContain("Bob", "stampsByOwner", "tenant");
            assertThat(response.at("uniqueKey")).isEqualTo("******");
            assertThat(response.at("explanation", "reason")).isEqualTo("FINISHED");
            UUID burnt = jobs.enqueueNamed("burn", null).id();
            await().until(() -> jobs.find(burnt).orElseThrow().status() == JobStatus.FAILED);
            assertThat(client.get("jobs", burnt.toString()).at("error")).isEqualTo("******");
        });
    }

    @Test
    void values_shown_to_authorized_users_pass_the_sanitizing_functions() {
        runnerThatShowsValuesToOperators()
                .withBean(Post.class)
                .withBean(
                        SanitizingFunction.class,
                        () -> SanitizingFunction.sanitizeValue().ifKeyMatches("payload\\.password"))
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    jobs.pause("send");
                    UUID job = jobs.enqueue(letter(), OPTIONS).id();
                    EndpointClient anonymous = EndpointClient.of(context);
                    EndpointClient.Response guest = anonymous.inRole("guest").get("jobs", job.toString());
                    assertThat(guest.at("payload")).isEqualTo("******");
                    assertThat(guest.at("uniqueKey")).isEqualTo("******");
                    EndpointClient.Response operator =
                            anonymous.inRole("operator").get("jobs", job.toString());
                    assertThat(operator.at("payload"))
                            .isEqualTo(Map.of(
                                    "to",
                                    "Alice",
                                    "password",
                                    "******",
                                    "pages",
                                    List.of("one", "two"),
                                    "stampsByOwner",
                                    Map.of("Bob", 2)));
                    assertThat(operator.at("uniqueKey")).isEqualTo("alice@example.org");
                    assertThat(operator.at("metadata")).isEqualTo(Map.of("tenant", "acme"));
                    assertThat(operator.at("explanation", "reason")).isEqualTo("PAUSED");
                    jobs.cancel(job);
                    jobs.resume("send");
                });
    }

    @Test
    void sanitizing_function_hides_an_object_whose_member_names_are_data() {
        runner().withBean(Post.class)
                .withPropertyValues("management.endpoint.forgecluster.show-values=always")
                .withBean(
                        SanitizingFunction.class,
                        () -> SanitizingFunction.sanitizeValue().ifKeyMatches("payload\\.stampsByOwner"))
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    UUID job = jobs.enqueue(letter()).id();
                    EndpointClient.Response response =
                            EndpointClient.of(context).get("jobs", job.toString());
                    assertThat(response.at("payload", "stampsByOwner")).isEqualTo("******");
                    assertThat(response.at("payload", "pages")).isInstanceOf(List.class);
                    await().until(() -> jobs.find(job).orElseThrow().status().isFinal());
                });
    }

    @Test
    void operator_cancels_and_retries_jobs_and_pauses_and_resumes_names() {
        runner().withBean(Post.class).run(context -> {
            EndpointClient client = EndpointClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            JobOperations operations = context.getBean(JobOperations.class);
            assertThat(client.post("paused", "jobs", "send").body())
                    .isEqualTo(Map.of("name", "send", "state", "paused"));
            assertThat(operations.paused()).containsExactly("send");
            UUID job = jobs.enqueue(letter()).id();
            String id = job.toString();
            assertThat(client.post("cancelled", "jobs", id).body()).isEqualTo(Map.of("id", id, "status", "cancelled"));
            assertThat(client.post("cancelled", "jobs", id).error(400)).contains("is cancelled");
            assertThat(client.post("retry", "jobs", id).body()).isEqualTo(Map.of("id", id, "status", "pending"));
            assertThat(client.post("retry", "jobs", id).error(400)).contains("is pending");
            Map<String, String> running = Map.of("name", "send", "state", "running");
            assertThat(client.post("running", "jobs", "send").body()).isEqualTo(running);
            await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
            assertThat(client.post("running", "jobs", "send").body()).isEqualTo(running);
            assertThat(client.post("paused", "jobs", "nobody").error(404)).contains("Unknown job 'nobody'");
            assertThat(client.post("running", "jobs", "nobody").status()).isEqualTo(404);
            assertThat(client.post("paused", "jobs", id).error(400))
                    .contains("use 'cancelled', 'retry' or 'duplicated'");
            assertThat(client.post("cancelled", "jobs", "send").error(400)).contains("use 'paused' or 'running'");
            assertThat(client.get("jobs", "send").error(400)).isEqualTo("'send' is not a job id");
            String unknown = UUID.randomUUID().toString();
            assertThat(client.get("jobs", unknown).status()).isEqualTo(404);
            assertThat(client.post("cancelled", "jobs", unknown).status()).isEqualTo(404);
            assertThatExceptionOfType(InvalidEndpointRequestException.class)
                    .isThrownBy(() -> client.invoke(WebEndpointHttpMethod.POST, Map.of(), "jobs", id));
        });
    }

    @Test
    void observer_refuses_to_pause_jobs() {
        runner().withPropertyValues("forge.cluster.node.mode=observer")
                .withBean(Post.class)
                .run(context -> assertThat(EndpointClient.of(context)
                                .post("paused", "jobs", "send")
                                .error(400))
                        .contains("observer"));
    }

    @Test
    void observer_drains_no_node_but_itself() {
        runner().run(worker -> {
            String other = String.valueOf(EndpointClient.of(worker).get().at("node", "id"));
            runner().withPropertyValues("forge.cluster.node.mode=observer").run(observer -> {
                EndpointClient client = EndpointClient.of(observer);
                assertThat(client.post("draining", "nodes", other).error(400)).contains("observer");
                assertThat(EndpointClient.of(worker).get().at("node", "state")).isNotEqualTo("draining");
                String own = String.valueOf(client.get().at("node", "id"));
                assertThat(client.post("draining", "nodes", own).status()).isEqualTo(200);
            });
        });
    }

    @Test
    void state_change_needs_an_existing_entry() {
        runner().run(context -> {
            EndpointClient client = EndpointClient.of(context);
            for (String resource : List.of("nodes", "jobs", "crons", "daemons")) {
                assertThat(client.post("paused", resource).error(400)).contains(resource + "/{name or id}");
            }
            assertThat(client.post("paused", "nothing", "at", "all").error(404)).contains("'nothing/at/all'");
            assertThat(client.post("paused", "locks").status()).isEqualTo(404);
            assertThat(client.post("paused", "crons", "no/such").status()).isEqualTo(404);
            assertThat(client.post("paused", "daemons", "no/such").status()).isEqualTo(404);
            assertThat(client.post("flying", "daemons", "any").error(400)).contains("use 'paused' or 'running'");
        });
    }
}
