package dev.forge.cluster.autoconfigure.actuate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;
import static org.mockito.Mockito.mock;

import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetricsAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.LeaderRole;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipAcquired;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.LeaderElection;
import dev.forge.cluster.test.TestDatabase;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.security.Principal;
import java.sql.Connection;
import java.time.Instant;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.InvocationContext;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;
import org.springframework.boot.actuate.endpoint.SecurityContext;
import org.springframework.boot.actuate.endpoint.invoke.convert.ConversionServiceParameterValueMapper;
import org.springframework.boot.actuate.endpoint.web.EndpointMediaTypes;
import org.springframework.boot.actuate.endpoint.web.WebEndpointHttpMethod;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;
import org.springframework.boot.actuate.endpoint.web.WebOperation;
import org.springframework.boot.actuate.endpoint.web.annotation.WebEndpointDiscoverer;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroup;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroups;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.event.EventListener;

@ClusterPostgres
class ActuatorTests {

    private final TestDatabase database;

    ActuatorTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withPropertyValues("forge.cluster.node.name=first", "management.endpoints.web.exposure.include=*")
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withConfiguration(AutoConfigurations.of(
                        ClusterActuatorAutoConfiguration.class, ClusterMetricsAutoConfiguration.class));
    }

    private static @Nullable Object resource(ClusterEndpoint endpoint, String... path) {
        return endpoint.resource(null, null, null, null, path);
    }

    private static Health health(ApplicationContext context, String part) {
        var contributor = context.getBean("forgeClusterHealthContributor", CompositeHealthContributor.class);
        return ((HealthIndicator) contributor.getContributor(part)).health(true);
    }

    @Test
    void a_node_is_up_and_out_of_service_once_it_drains() {
        runner().run(context -> {
            assertThat(health(context, "node").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "schema").getDetails()).containsEntry("name", "public");
            context.getBean(ClusterLifecycle.Parts.class).node().drain();
            assertThat(health(context, "node").getStatus()).isEqualTo(Status.OUT_OF_SERVICE);
            assertThat(health(context, "node").getDetails()).containsEntry("state", "draining");
        });
    }

    @Test
    void a_cluster_without_a_candidate_says_so() {
        runner().withPropertyValues("forge.cluster.node.roles=worker").run(context -> {
            await().until(() -> health(context, "leadership").getDetails().containsKey("warning"));
            assertThat(health(context, "leadership").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "leadership").getDetails())
                    .containsEntry("warning", "no live scheduler candidate");
        });
    }

    @Test
    void fence_that_another_session_keeps_locked_is_reported_with_its_role() {
        runner().run(context -> {
            Leadership leadership = context.getBean(Leadership.class);
            await().until(() -> leadership.isLeader(Leadership.SCHEDULER));
            assertThat(health(context, ClusterHealth.FENCES).getStatus()).isEqualTo(Status.UP);
            try (Connection blocking = database.dataSource().getConnection()) {
                blocking.setAutoCommit(false);
                blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'scheduler' FOR UPDATE");
                // Crons are fired behind that fence.
                await().until(() -> health(context, ClusterHealth.FENCES).getStatus(), Status.DOWN::equals);
                assertThat(health(context, ClusterHealth.FENCES).getDetails().get("blockedSince"))
                        .asInstanceOf(InstanceOfAssertFactories.map(String.class, Instant.class))
                        .containsOnlyKeys("scheduler");
                assertThat(health(context, "node").getStatus()).isEqualTo(Status.UP);
                blocking.rollback();
            }
            await().until(() -> health(context, ClusterHealth.FENCES).getStatus(), Status.UP::equals);
        });
    }

    @Test
    void blocked_fences_do_not_make_a_node_unready() {
        HealthEndpointGroup group = mock(HealthEndpointGroup.class);
        HealthEndpointGroup readiness = new ReadinessMembership("forgeCluster", () -> false)
                .postProcessHealthEndpointGroups(HealthEndpointGroups.of(group, Map.of("readiness", group)))
                .get("readiness");
        assertThat(Stream.of("forgeCluster", "forgeCluster/node", "forgeCluster/fences")
                        .filter(readiness::isMember))
                .containsExactly("forgeCluster", "forgeCluster/node");
    }

    @Test
    void the_endpoint_names_node_leaders_and_counts() {
        runner().run(context -> {
            Leadership leadership = context.getBean(Leadership.class);
            await().until(() -> Stream.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                    .allMatch(leadership::isLeader));
            ClusterEndpoint endpoint = context.getBean(ClusterEndpoint.class);
            Map<String, Object> overview = endpoint.cluster();
            assertThat(overview).containsEntry("cluster", "orders").containsEntry("nodes", Map.of("active", 1L));
            assertThat(overview.get("node").toString()).contains("name=first", "state=running", "scheduler");
            assertThat(overview.get("leaders").toString())
                    .contains("role=scheduler", "role=metrics_aggregator", "role=log_compactor", "term=");
            assertThat(resource(endpoint, "nodes").toString()).contains("name=first", "status=active");
            assertThat(resource(endpoint, "nothing")).isNull();
        });
    }

    @Test
    void the_endpoint_shows_locks_and_orders_a_node_to_drain() {
        runner().run(context -> {
            assertThat(context.getBean(ClusterLocks.class).tryLock("import")).isPresent();
            ClusterEndpoint endpoint = context.getBean(ClusterEndpoint.class);
            assertThat(resource(endpoint, "locks").toString())
                    .contains("token=")
                    .doesNotContain("import");
            var node = context.getBean(ClusterLifecycle.Parts.class).node();
            String id = node.id().toString();
            refused(endpoint.order(new String[] {"nodes", id}, "flying"), "flying");
            assertThat(endpoint.order(new String[] {"nodes", id}, "draining")).isNotNull();
            await().until(() -> health(context, "node").getStatus().equals(Status.OUT_OF_SERVICE));
            // Once more changes nothing.
            assertThat(endpoint.order(new String[] {"nodes", id}, "draining"))
                    .isEqualTo(Map.of("id", id, "state", "draining"));
            missing(endpoint.order(new String[] {"nodes", "00000000-0000-0000-0000-000000000000"}, "draining"));
            refused(endpoint.order(new String[] {"nodes", "first"}, "draining"), "'first' is not the id of a node");
        });
    }

    @Test
    void locks_are_bounded_and_their_names_masked_unless_values_are_shown() {
        runner().withBean(
                        SanitizingFunction.class,
                        () -> data ->
                                data.getKey().equals("lock") && data.getValue().equals("customer 7")
                                        ? data.withSanitizedValue()
                                        : data)
                .withPropertyValues(
                        "management.endpoint.forgecluster.show-values=when-authorized",
                        "management.endpoint.forgecluster.roles=operator")
                .run(context -> {
                    ClusterLocks locks = context.getBean(ClusterLocks.class);
                    for (int i = 0; i < 60; i++) {
                        assertThat(locks.tryLock("customer " + i)).isPresent();
                    }
                    List<?> stranger =
                            (List<?>) map(get(context, Map.of(), "locks")).get("locks");
                    assertThat(stranger).hasSize(50).allSatisfy(lock -> {
                        assertThat(map(lock).get("name")).isEqualTo("******");
                        assertThat(map(lock).get("owner")).isInstanceOf(UUID.class);
                    });
                    List<?> operator = (List<?>) map(invoke(
                                    context, WebEndpointHttpMethod.GET, Map.of("limit", "1000"), "operator", "locks"))
                            .get("locks");
                    assertThat(operator)
                            .hasSize(60)
                            .extracting(lock -> String.valueOf(map(lock).get("name")))
                            .contains("customer 8", "******")
                            .doesNotContain("customer 7");
                    for (String limit : List.of("0", "-1", "1001")) {
                        refused(get(context, Map.of("limit", limit), "locks"), "limit " + limit);
                    }
                });
        database.jdbc().sql("DELETE FROM forge_locks").update();
    }

    @Test
    void parameter_with_a_control_character_is_a_bad_request() {
        runner().withBean(Post.class).run(context -> {
            for (String bad : List.of("\0", "a\0b", "a\nb")) {
                for (String resource : List.of("jobs", "nodes", "locks", "crons", "daemons", "workflows")) {
                    refused(get(context, Map.of("name", bad), resource), "control character");
                    refused(get(context, Map.of("status", bad), resource), "control character");
                    refused(get(context, Map.of(), resource, bad), "control character");
                    refused(post(context, "paused", resource, bad), "control character");
                    refused(post(context, bad, resource, "any"), "control character");
                }
            }
        });
    }

    @Test
    void candidate_that_does_not_lead_has_a_gauge_too() {
        var other = new LeaderElection(database);
        assertThat(other.tryBecomeLeader("reports")).isTrue();
        runner().run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            context.getBean(Leadership.class).join("reports");
            assertThat(meters.get("forge.cluster.leader")
                            .tag("role", "reports")
                            .gauge()
                            .value())
                    .isZero();
        });
        other.releaseLeadership("reports");
        database.jdbc().sql("DELETE FROM forge_nodes").update();
    }

    @Test
    void cluster_wide_gauges_exist_only_while_their_node_aggregates() {
        database.jdbc().sql("""
                INSERT INTO forge_state (state_key, state_value, expires_at)
                VALUES ('@oauth2/pending', '{}', now() + interval '1 hour'), ('@oauth2/expired', '{}', now()),
                       ('another', '{}', now() + interval '1 hour')
                """).update();
        runner().run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            await().until(() -> meters.find("forge.cluster.oauth2.pending").gauge() != null
                    && meters.get("forge.cluster.oauth2.pending").gauge().value() == 1);
            await().until(() ->
                    meters.find("forge.cluster.nodes").tag("status", "active").gauge() != null);
            assertThat(meters.get("forge.cluster.nodes")
                            .tag("status", "active")
                            .gauge()
                            .value())
                    .isEqualTo(1);
            assertThat(meters.get("forge.cluster.leader")
                            .tag("role", "metrics_aggregator")
                            .gauge()
                            .value())
                    .isEqualTo(1);
            assertThat(meters.get("forge.cluster.leader.term")
                            .tag("role", "metrics_aggregator")
                            .gauge()
                            .value())
                    .isPositive();
            context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
            await().until(() -> meters.find("forge.cluster.nodes").gauge() == null);
            assertThat(meters.find("forge.cluster.oauth2.pending").gauge()).isNull();
            assertThat(meters.get("forge.cluster.leader")
                            .tag("role", "metrics_aggregator")
                            .gauge()
                            .value())
                    .isZero();
        });
    }

    @Test
    void a_bean_stands_for_its_own_role_and_hears_of_it() {
        runner().withBean(Reports.class).run(context -> {
            Reports reports = context.getBean(Reports.class);
            await().until(() -> !reports.acquired.isEmpty());
            assertThat(context.getBean(Leadership.class).isLeader("reports")).isTrue();
            assertThat(reports.acquired.get(0).term()).isPositive();
        });
    }

    // Jobs --------------------------------------------------------------------------------------------------

    record Letter(String to, String password, List<String> pages) {}

    static class Post {
        @ClusterJob
        Map<String, String> send(Letter letter) {
            return Map.of("sentTo", letter.to());
        }

        @ClusterJob(maxAttempts = "1")
        void burn() {
            throw new IllegalStateException("ashes of Alice");
        }
    }

    /** As over HTTP: arguments by name, converted and checked by Actuator, and a user. */
    private static @Nullable Object get(ApplicationContext context, Map<String, Object> query, String... path) {
        return invoke(context, WebEndpointHttpMethod.GET, query, null, path);
    }

    private static @Nullable Object post(ApplicationContext context, String state, String... path) {
        return invoke(context, WebEndpointHttpMethod.POST, Map.of("state", state), null, path);
    }

    private static @Nullable Object invoke(
            ApplicationContext context,
            WebEndpointHttpMethod method,
            Map<String, Object> arguments,
            @Nullable String role,
            String... path) {
        var endpoints = new WebEndpointDiscoverer(
                context,
                new ConversionServiceParameterValueMapper(),
                EndpointMediaTypes.DEFAULT,
                List.of(),
                List.of(),
                List.of(),
                List.of(),
                List.of());
        WebOperation operation = endpoints.getEndpoints().stream()
                .filter(endpoint -> endpoint.getEndpointId().equals(EndpointId.of("forgecluster")))
                .flatMap(endpoint -> endpoint.getOperations().stream())
                .filter(candidate -> candidate.getRequestPredicate().getHttpMethod() == method
                        && candidate.getRequestPredicate().getMatchAllRemainingPathSegmentsVariable() != null)
                .findFirst()
                .orElseThrow();
        var all = new HashMap<>(arguments);
        all.put(operation.getRequestPredicate().getMatchAllRemainingPathSegmentsVariable(), path);
        return operation.invoke(new InvocationContext(new User(role), all));
    }

    private record User(@Nullable String role) implements SecurityContext {
        @Override
        public @Nullable Principal getPrincipal() {
            return role == null ? null : () -> "user";
        }

        @Override
        public boolean isUserInRole(String asked) {
            return asked.equals(role);
        }
    }

    private static Map<?, ?> map(@Nullable Object answer) {
        return (Map<?, ?>) Objects.requireNonNull(answer);
    }

    @Test
    void jobs_are_listed_by_name_and_status_up_to_a_limit() {
        runner().withBean(Post.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("send");
            List<UUID> sent = jobs.enqueueAll(Collections.nCopies(60, new Letter("A", "p", List.of())));
            UUID burnt = jobs.enqueueNamed("burn", null);
            await().until(() -> jobs.find(burnt).orElseThrow().status() == JobStatus.FAILED);
            assertThat((List<?>) map(get(context, Map.of(), "jobs")).get("jobs"))
                    .hasSize(50);
            assertThat((List<?>)
                            map(get(context, Map.of("limit", "1000"), "jobs")).get("jobs"))
                    .hasSize(61);
            Map<?, ?> failed = map(get(context, Map.of("status", "failed"), "jobs"));
            assertThat(failed.get("paused")).isEqualTo(Set.of("send"));
            assertThat((List<?>) failed.get("jobs"))
                    .singleElement()
                    .satisfies(job -> assertThat(map(job).get("id")).isEqualTo(burnt))
                    .satisfies(job -> assertThat(map(job).get("status")).isEqualTo("failed"))
                    .satisfies(job -> assertThat(job.toString()).doesNotContain("Alice"));
            assertThat((List<?>) map(get(context, Map.of("name", "send", "status", "PENDING", "limit", "7"), "jobs"))
                            .get("jobs"))
                    .hasSize(7);
            assertThat((List<?>) map(get(context, Map.of("name", "nobody's"), "jobs"))
                            .get("jobs"))
                    .isEmpty();
            assertThat(context.getBean(ClusterEndpoint.class).cluster()).containsEntry("jobs", Map.of("pending", 60L));
            refused(
                    get(context, Map.of("status", "flying"), "jobs"),
                    "status \'flying\' is unknown; there are [pending, claimed, running, completed, failed, cancelled, abandoned]");
            for (String limit : List.of("0", "-1", "1001")) {
                refused(get(context, Map.of("limit", limit), "jobs"), "limit " + limit);
            }
            assertThatExceptionOfType(InvalidEndpointRequestException.class)
                    .isThrownBy(() -> get(context, Map.of("limit", "many"), "jobs"));
            sent.forEach(jobs::cancel);
            jobs.resume("send");
        });
        database.jdbc().sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void what_is_in_a_job_is_masked_unless_values_are_shown_and_then_still_sanitized() {
        JobOptions options =
                JobOptions.defaults().withUniqueKey("alice@example.org").withMetadata("tenant", "acme");
        runner().withBean(Post.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            UUID job = jobs.enqueue(new Letter("Alice", "secret", List.of("one", "two")), options);
            await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
            Map<?, ?> view = map(get(context, Map.of(), "jobs", job.toString()));
            assertThat(view.get("payload"))
                    .isEqualTo(Map.of("to", "******", "password", "******", "pages", List.of("******", "******")));
            assertThat(view.get("result")).isEqualTo(Map.of("sentTo", "******"));
            assertThat(view.get("metadata")).isEqualTo(Map.of("tenant", "******"));
            assertThat(view.get("uniqueKey")).isEqualTo("******");
            assertThat(map(view.get("explanation")).get("reason").toString()).isEqualTo("FINISHED");
            UUID burnt = jobs.enqueueNamed("burn", null);
            await().until(() -> jobs.find(burnt).orElseThrow().status() == JobStatus.FAILED);
            assertThat(map(get(context, Map.of(), "jobs", burnt.toString())).get("error"))
                    .isEqualTo("******");
        });
        runner().withBean(Post.class)
                .withPropertyValues(
                        "management.endpoint.forgecluster.show-values=when-authorized",
                        "management.endpoint.forgecluster.roles=operator")
                .withBean(
                        SanitizingFunction.class,
                        () -> SanitizingFunction.sanitizeValue().ifKeyMatches("payload\\.password"))
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    jobs.pause("send");
                    UUID job = jobs.enqueue(new Letter("Alice", "secret", List.of("one")), options);
                    String[] path = {"jobs", job.toString()};
                    Map<?, ?> guest = map(invoke(context, WebEndpointHttpMethod.GET, Map.of(), "guest", path));
                    assertThat(guest.toString()).doesNotContain("Alice", "secret", "alice@example.org");
                    Map<?, ?> operator = map(invoke(context, WebEndpointHttpMethod.GET, Map.of(), "operator", path));
                    assertThat(operator.get("payload"))
                            .isEqualTo(Map.of("to", "Alice", "password", "******", "pages", List.of("one")));
                    assertThat(operator.get("uniqueKey")).isEqualTo("alice@example.org");
                    assertThat(map(operator.get("explanation")).get("reason").toString())
                            .isEqualTo("PAUSED");
                    jobs.cancel(job);
                    jobs.resume("send");
                });
        database.jdbc().sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void operators_cancel_and_retry_jobs_and_pause_and_resume_names() {
        runner().withBean(Post.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            assertThat(post(context, "paused", "jobs", "send")).isEqualTo(Map.of("name", "send", "state", "paused"));
            assertThat(jobs.paused()).containsExactly("send");
            UUID job = jobs.enqueue(new Letter("A", "p", List.of()));
            String id = job.toString();
            assertThat(post(context, "cancelled", "jobs", id)).isEqualTo(Map.of("id", job, "status", "cancelled"));
            refused(post(context, "cancelled", "jobs", id), "cancelled");
            assertThat(post(context, "retry", "jobs", id)).isEqualTo(Map.of("id", job, "status", "pending"));
            refused(post(context, "retry", "jobs", id), "pending");
            assertThat(post(context, "running", "jobs", "send")).isEqualTo(Map.of("name", "send", "state", "running"));
            await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
            // They run already: nothing to be done, and nothing wrong.
            assertThat(post(context, "running", "jobs", "send")).isEqualTo(Map.of("name", "send", "state", "running"));
            assertThat(missing(post(context, "paused", "jobs", "nobody"))).contains("Unknown job 'nobody'");
            missing(post(context, "running", "jobs", "nobody"));
            refused(post(context, "paused", "jobs", id), "'cancelled' and 'retry' can");
            refused(post(context, "cancelled", "jobs", "send"), "'paused' and 'running' can");
            refused(get(context, Map.of(), "jobs", "send"), "not the id of a job");
            String nobody = UUID.randomUUID().toString();
            assertThat(get(context, Map.of(), "jobs", nobody)).isNull();
            missing(post(context, "cancelled", "jobs", nobody));
            assertThatExceptionOfType(InvalidEndpointRequestException.class)
                    .isThrownBy(() -> invoke(context, WebEndpointHttpMethod.POST, Map.of(), null, "jobs", id));
        });
        runner().withPropertyValues("forge.cluster.node.mode=observer")
                .withBean(Post.class)
                .run(context -> refused(post(context, "paused", "jobs", "send"), "observer"));
    }

    private static String missing(@Nullable Object answer) {
        assertThat(answer)
                .isInstanceOfSatisfying(
                        WebEndpointResponse.class,
                        response -> assertThat(response.getStatus()).isEqualTo(404));
        return String.valueOf(((WebEndpointResponse<?>) Objects.requireNonNull(answer)).getBody());
    }

    @Test
    void an_order_to_nobody_in_particular_is_refused_and_one_to_something_unknown_finds_nothing() {
        runner().run(context -> {
            for (String resource : List.of("nodes", "jobs", "crons", "daemons")) {
                refused(post(context, "paused", resource), resource + "/{one of them}");
            }
            assertThat(missing(post(context, "paused", "nothing", "at", "all"))).contains("nothing/at/all");
            missing(post(context, "paused", "locks"));
            missing(post(context, "paused", "crons", "no/such"));
            missing(post(context, "paused", "daemons", "no/such"));
            refused(post(context, "flying", "daemons", "any"), "'paused' and 'running' can");
        });
    }

    private static void refused(@Nullable Object answer, String reason) {
        assertThat(answer).isInstanceOfSatisfying(WebEndpointResponse.class, response -> {
            assertThat(response.getStatus()).isEqualTo(400);
            assertThat(String.valueOf(response.getBody())).contains(reason);
        });
    }

    @Test
    void workers_tell_their_slots_and_one_that_wants_to_be_alone_is_down_beside_another() {
        runner().withPropertyValues("forge.cluster.worker.executors.narrow.max-concurrent-jobs=2")
                .run(context -> {
                    Health health = health(context, "workers");
                    assertThat(health.getStatus()).isEqualTo(Status.UP);
                    assertThat(health.getDetails())
                            .containsEntry("working", true)
                            .containsEntry("slots", 12)
                            .containsEntry("overloaded", false)
                            .containsEntry(
                                    "executors",
                                    Map.of(
                                            "default", Map.of("slots", 10, "jobs", 0),
                                            "narrow", Map.of("slots", 2, "jobs", 0)));
                });
        runner().withPropertyValues("forge.cluster.node.roles=scheduler").run(context -> {
            assertThat(health(context, "workers").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "workers").getDetails()).isEqualTo(Map.of("working", false));
        });
        runner().withPropertyValues("forge.cluster.worker.claiming=false").run(alone -> {
            assertThat(health(alone, "workers").getStatus()).isEqualTo(Status.UP);
            runner().withPropertyValues("forge.cluster.node.name=second").run(other -> {
                await().until(() -> health(alone, "workers").getStatus().equals(Status.DOWN));
                assertThat(health(alone, "workers").getDetails().get("reason").toString())
                        .contains("forge.cluster.worker.claiming (false)", "there are 2");
                assertThat(health(other, "workers").getStatus()).isEqualTo(Status.UP);
            });
            await().until(() -> health(alone, "workers").getStatus().equals(Status.UP));
        });
    }

    @Test
    void worker_whose_claims_fail_again_and_again_is_down_until_they_succeed() {
        runner().withBean(Post.class)
                .withPropertyValues("forge.cluster.worker.poll-interval=100ms")
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    UUID letter;
                    database.jdbc()
                            .sql("ALTER TABLE forge_jobs RENAME COLUMN claimed_at TO hidden")
                            .update();
                    try {
                        letter = jobs.enqueue(new Letter("Alice", "secret", List.of()));
                        await().until(() ->
                                health(context, "workers").getStatus().equals(Status.DOWN));
                        assertThat(health(context, "workers")
                                        .getDetails()
                                        .get("reason")
                                        .toString())
                                .contains("claims have failed", "claimed_at");
                    } finally {
                        database.jdbc()
                                .sql("ALTER TABLE forge_jobs RENAME COLUMN hidden TO claimed_at")
                                .update();
                    }
                    await().until(() -> health(context, "workers").getStatus().equals(Status.UP));
                    await().until(() -> jobs.find(letter).orElseThrow().status() == JobStatus.COMPLETED);
                    // Other tests count jobs.
                    database.jdbc()
                            .sql("DELETE FROM forge_jobs WHERE id = ?")
                            .param(letter)
                            .update();
                });
    }

    @LeaderRole("reports")
    static class Reports {
        final List<LeadershipAcquired> acquired = new CopyOnWriteArrayList<>();

        @EventListener(condition = "#event.role == 'reports'")
        void on(LeadershipAcquired event) {
            acquired.add(event);
        }
    }

    @Test
    void listeners_are_called_on_a_thread_that_says_which_node_it_is() {
        runner().withBean(Witness.class).run(context -> {
            Witness witness = context.getBean(Witness.class);
            await().until(() -> !witness.origins.isEmpty());
            UUID id = context.getBean(ClusterLifecycle.Parts.class).node().id();
            assertThat(witness.origins).containsOnly("forge-cluster-events-1 first " + id);
        });
    }

    static class Witness {
        final List<String> origins = new CopyOnWriteArrayList<>();

        @EventListener
        void on(LeadershipAcquired event) {
            origins.add("%s %s %s"
                    .formatted(Thread.currentThread().getName(), MDC.get("forge.node.name"), MDC.get("forge.node.id")));
        }
    }
}
