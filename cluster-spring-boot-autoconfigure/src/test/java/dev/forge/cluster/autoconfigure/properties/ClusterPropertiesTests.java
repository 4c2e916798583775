// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.ClusterStartupFailureAnalyzer;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.UnknownKeyFailureAnalyzer;
import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.bind.UnboundConfigurationPropertiesException;
import org.springframework.boot.context.properties.source.ConfigurationProperty;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.context.properties.source.MapConfigurationPropertySource;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.json.JsonParserFactory;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.core.NestedExceptionUtils;

/** Rules for configuration properties, verified by the messages with which the start fails. */
public class ClusterPropertiesTests {

    private static final ApplicationContextRunner RUNNER =
            new ApplicationContextRunner().withConfiguration(TestApplications.CLUSTER);

    @ParameterizedTest(name = "{0}")
    @CsvSource(delimiter = '|', textBlock = """
            name=                                     | forge.cluster.name () must not be blank
            heartbeat.interval=10us                   | forge.cluster.heartbeat.interval (10000ns) must not be shorter than 1ms
            job.claim-start-timeout=300000d           | forge.cluster.job.claim-start-timeout (300000d) must not be longer than a hundred years
            direct-connection.password=secret         | forge.cluster.direct-connection.password (***) needs forge.cluster.direct-connection.url
            schema.name=a123456789b123456789c123456789d123456789e123456789f123456789g123 | forge.cluster.schema.name (a123456789b123456789c123456789d123456789e123456789f123456789g123) is longer than 63 bytes
            web.jobs=a,,b                             | forge.cluster.web.jobs ([a, , b]) must not contain blank entries
            worker.executors.default.max-concurrent-jobs=3 | forge.cluster.worker.executors.default ([default]) is built in
            job.backoff.multiplier=Infinity           | forge.cluster.job.backoff.multiplier (Infinity) must be at least 1
            control-connections=0                     | forge.cluster.control-connections (0) must be at least 1
            control-connections=21                    | forge.cluster.control-connections (21) must be at most 20
            schema.name=                              | forge.cluster.schema.name () must not be blank
            direct-connection.username=app            | forge.cluster.direct-connection.username (app) needs forge.cluster.direct-connection.url
            node.id=                                  | forge.cluster.node.id () must not be blank
            node.name=                                | forge.cluster.node.name () must not be blank
            node.roles=                               | forge.cluster.node.roles () must contain a role
            node.capabilities=gpu,,x                  | forge.cluster.node.capabilities ([gpu, , x]) must not contain blank entries
            node.mode=leader;node.roles=worker        | forge.cluster.node.mode (leader) needs the role scheduler, which is missing in forge.cluster.node.roles ([worker])
            heartbeat.interval=0s                     | forge.cluster.heartbeat.interval (0s) must be longer than zero
            heartbeat.max-interval=-1s                | forge.cluster.heartbeat.max-interval (-1s) must be longer than zero
            heartbeat.adaptive=true;heartbeat.max-interval=4s | forge.cluster.heartbeat.max-interval (4s) must not be shorter than forge.cluster.heartbeat.interval (5s)
            heartbeat.stale-threshold=0s              | forge.cluster.heartbeat.stale-threshold (0s) must be longer than zero
            heartbeat.dead-threshold=0s               | forge.cluster.heartbeat.dead-threshold (0s) must be longer than zero
            heartbeat.interval=10s                    | forge.cluster.heartbeat.interval (10s) must be shorter than forge.cluster.heartbeat.stale-threshold (10s)
            heartbeat.stale-threshold=15s             | forge.cluster.heartbeat.stale-threshold (15s) must be shorter than forge.cluster.heartbeat.dead-threshold (15s)
            heartbeat.dead-threshold=14s              | forge.cluster.heartbeat.dead-threshold (14s) must be at least three times forge.cluster.heartbeat.interval (5s)
            detection.interval=0s                     | forge.cluster.detection.interval (0s) must be longer than zero
            leader.check-interval=0s                  | forge.cluster.leader.check-interval (0s) must be longer than zero
            leader.lease-duration=0s                  | forge.cluster.leader.lease-duration (0s) must be longer than zero
            leader.renew-interval=0s                  | forge.cluster.leader.renew-interval (0s) must be longer than zero
            leader.renew-interval=5s                  | forge.cluster.leader.renew-interval (5s) must be shorter than forge.cluster.leader.lease-duration (5s)
            leader.renew-interval=3s                  | forge.cluster.leader.renew-interval (3s) must be shorter than the 3s after which a leader without the database resigns
            leader.lease-duration=3s                  | forge.cluster.leader.lease-duration (3s) must be longer than the 3s after which a leader without the database resigns
            leader.lease-duration=7s                  | forge.cluster.leader.lease-duration (7s) must be shorter than the 7s after which the server releases the locks of a lost session
            worker.max-concurrent-jobs=0              | forge.cluster.worker.max-concurrent-jobs (0) must be at least 1
            worker.prefetch=-1                        | forge.cluster.worker.prefetch (-1) must be at least 0
            worker.prefetch=10001                     | forge.cluster.worker.prefetch (10001) must be at most 10000
            worker.drain-target=0s                    | forge.cluster.worker.drain-target (0s) must be longer than zero
            worker.poll-interval=0s                   | forge.cluster.worker.poll-interval (0s) must be longer than zero
            worker.executors.gpu.max-concurrent-jobs=0 | forge.cluster.worker.executors.gpu.max-concurrent-jobs (0) must be at least 1
            worker.default-executor=gpu               | forge.cluster.worker.default-executor (gpu) is not an executor
            worker.routing[0].pattern=a;worker.routing[0].executor=gpu | forge.cluster.worker.routing[0].executor (gpu) is not an executor
            worker.routing[0].pattern=a               | forge.cluster.worker.routing[0].executor (null) is not an executor
            worker.routing[0].pattern=a**;worker.routing[0].executor=default | forge.cluster.worker.routing[0].pattern (a**) is malformed: '**' must be a segment of its own
            worker.routing[0].executor=default        | forge.cluster.worker.routing[0].pattern (null) is malformed
            job.lease-duration=0s                     | forge.cluster.job.lease-duration (0s) must be longer than zero
            job.heartbeat-interval=0s                 | forge.cluster.job.heartbeat-interval (0s) must be longer than zero
            job.heartbeat-interval=60s                | forge.cluster.job.heartbeat-interval (1m) must be shorter than forge.cluster.job.lease-duration (1m)
            job.claim-start-timeout=0s                | forge.cluster.job.claim-start-timeout (0s) must be longer than zero
            job.max-attempts=0                        | forge.cluster.job.max-attempts (0) must be at least 1
            job.timeout=0s                            | forge.cluster.job.timeout (0s) must be longer than zero
            job.max-recoveries=-1                     | forge.cluster.job.max-recoveries (-1) must be at least 0
            job.max-payload-size=0                    | forge.cluster.job.max-payload-size (0B) must be larger than zero
            job.backoff.delay=0s                      | forge.cluster.job.backoff.delay (0s) must be longer than zero
            job.backoff.max-delay=1s                  | forge.cluster.job.backoff.max-delay (1s) must not be shorter than forge.cluster.job.backoff.delay (2s)
            job.backoff.multiplier=0.5                | forge.cluster.job.backoff.multiplier (0.5) must be at least 1
            job.backoff.jitter=1.5                    | forge.cluster.job.backoff.jitter (1.5) must be between 0.0 and 1.0
            job.retention.completed=-1s               | forge.cluster.job.retention.completed (-1s) must not be negative
            job.retention.failed=-1s                  | forge.cluster.job.retention.failed (-1s) must not be negative
            sweep.interval=0s                         | forge.cluster.sweep.interval (0s) must be longer than zero
            sweep.interval=60s                        | forge.cluster.sweep.interval (1m) must be shorter than forge.cluster.job.lease-duration (1m)
            history.retention=59m                     | forge.cluster.history.retention (59m) must be between 1h and 90d
            history.retention=91d                     | forge.cluster.history.retention (91d) must be between 1h and 90d
            sweep.startup-grace=-1s                   | forge.cluster.sweep.startup-grace (-1s) must not be negative
            cron.zone=Mars/Olympus                    | forge.cluster.cron.zone (Mars/Olympus) is not a time zone
            cron.misfire-threshold=0s                 | forge.cluster.cron.misfire-threshold (0s) must be longer than zero
            cron.catch-up-limit=0                     | forge.cluster.cron.catch-up-limit (0) must be at least 1
            cron.catch-up-limit=1001                  | forge.cluster.cron.catch-up-limit (1001) must be at most 1000
            cron.retention=0s                         | forge.cluster.cron.retention (0s) must be longer than zero
            cron.max-concurrent-jobs=0                | forge.cluster.cron.max-concurrent-jobs (0) must be at least 1
            node.capabilities=@leader                 | forge.cluster.node.capabilities ([@leader]) must not begin with @, which is reserved for the cluster
            daemon.restart-delay=0s                   | forge.cluster.daemon.restart-delay (0s) must be longer than zero
            daemon.startup-delay=-1s                  | forge.cluster.daemon.startup-delay (-1s) must not be negative
            daemon.max-restarts=-1                    | forge.cluster.daemon.max-restarts (-1) must be at least 0
            shutdown.drain-timeout=0s                 | forge.cluster.shutdown.drain-timeout (0s) must be longer than zero
            lock.lease-duration=0s                    | forge.cluster.lock.lease-duration (0s) must be longer than zero
            startup.lease-duration=0s                 | forge.cluster.startup.lease-duration (0s) must be longer than zero
            startup.wait-timeout=-1s                  | forge.cluster.startup.wait-timeout (-1s) must not be negative
            web.path=forge                            | forge.cluster.web.path (forge) must begin with a slash
            web.max-unique-for=-1s                    | forge.cluster.web.max-unique-for (-1s) must be between 0 and 366 days
            web.max-unique-for=367d                   | forge.cluster.web.max-unique-for (367d) must be between 0 and 366 days
            dashboard.path=/forge/                    | forge.cluster.dashboard.path (/forge/) must be a plain path such as /forge/dashboard
            dashboard.path=/                          | forge.cluster.dashboard.path (/) must be a plain path such as /forge/dashboard
            dashboard.path=/forge/..                  | forge.cluster.dashboard.path (/forge/..) must be a plain path such as /forge/dashboard
            dashboard.path=/./forge                   | forge.cluster.dashboard.path (/./forge) must be a plain path such as /forge/dashboard
            dashboard.trace-url=https://traces.test/  | forge.cluster.dashboard.trace-url (https://traces.test/) must begin with https://
            dashboard.trace-url=javascript:{traceId}  | forge.cluster.dashboard.trace-url (javascript:{traceId}) must begin with https://
            operations.path=forge                     | forge.cluster.operations.path (forge) must be a plain path such as /forge/dashboard
            operations.authorities.view=a,,b          | forge.cluster.operations.authorities.view ([a, , b]) must not contain blank entries
            oauth2.ttl=999ms                          | forge.cluster.oauth2.ttl (999ms) must not be shorter than 1s
            oauth2.ttl=25h                            | forge.cluster.oauth2.ttl (25h) must not be longer than a day
            oauth2.max-pending=0                      | forge.cluster.oauth2.max-pending (0) must be between 1 and 100000
            oauth2.max-pending=100001                 | forge.cluster.oauth2.max-pending (100001) must be between 1 and 100000
            oauth2.max-per-minute=-1                  | forge.cluster.oauth2.max-per-minute (-1) must be at least 0
            audit.retention=6d                        | forge.cluster.audit.retention (6d) must not be shorter than 7d
            workflow.readiness-interval=0s            | forge.cluster.workflow.readiness-interval (0s) must be longer than zero
            workflow.max-pending-signals=0            | forge.cluster.workflow.max-pending-signals (0) must be at least 1
            workflow.max-pending-signals=100001       | forge.cluster.workflow.max-pending-signals (100001) must not exceed 100000
            workflow.max-pending-signals-size=0       | forge.cluster.workflow.max-pending-signals-size (0B) must be larger than zero
            workflow.max-history-size=1GB             | forge.cluster.workflow.max-history-size (1073741824B) must not exceed 512MB
            """)
    void invalid_value_fails_the_start_naming_key_and_value(String properties, String message) {
        String[] values = Arrays.stream(properties.split(";", -1))
                .map(pair -> "forge.cluster." + pair)
                .toArray(String[]::new);
        RUNNER.withPropertyValues(values).run(context -> {
            ClusterStartupException cause = causeOf(context.getStartupFailure());
            assertThat(cause.getMessage()).startsWith(message);
            FailureAnalysis analysis = new ClusterStartupFailureAnalyzer().analyze(context.getStartupFailure());
            assertThat(analysis.getDescription()).isEqualTo(cause.getMessage());
            assertThat(analysis.getAction()).startsWith("Change forge.cluster.");
        });
    }

    @Test
    void value_of_any_length_leads_to_a_short_message() {
        RUNNER.withPropertyValues("forge.cluster.web.path=" + "x".repeat(100_000))
                .run(context -> {
                    FailureAnalysis analysis = new ClusterStartupFailureAnalyzer().analyze(context.getStartupFailure());
                    assertThat(analysis.getDescription())
                            .startsWith("forge.cluster.web.path (xxx")
                            .hasSizeLessThan(3_000);
                });
    }

    private static ClusterStartupException causeOf(Throwable failure) {
        for (Throwable e = failure; e != null; e = e.getCause()) {
            if (e instanceof ClusterStartupException startup) {
                return startup;
            }
        }
        throw new AssertionError("not refused by a rule of ours", failure);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "enabled=ture",
                "discovery=zookeeper",
                "schema.mode=create",
                "node.mode=boss",
                "node.roles=worker,driver",
                "leader.strategy=paxos",
                "web.max-priority=urgent",
                "web.visible-jobs=mine",
                "job.crash-policy=ignore",
                "job.events=some",
                "job.backoff.strategy=random",
                "cron.misfire=never",
                "rate-limit.mode=loose",
                "rate-limit.on-database-loss=panic",
                "wakeup.type=carrier-pigeon",
                "workflow.stranded-scope=galaxy",
                "heartbeat.interval=soon",
                "job.max-payload-size=big",
            })
    void unknown_value_fails_the_start_naming_key_and_value(String property) {
        String[] pair = property.split("=", 2);
        RUNNER.withPropertyValues("forge.cluster." + property).run(context -> {
            String all = Arrays.toString(messages(context.getStartupFailure()));
            assertThat(all)
                    .contains("forge.cluster." + pair[0].replaceAll("\\[.*", ""), pair[1].replaceFirst(".*,", ""));
        });
    }

    @Test
    void misspelt_key_fails_instead_of_being_ignored() {
        RUNNER.withPropertyValues("forge.cluster.heartbeat.intervall=7s")
                .run(context -> assertThat(Arrays.toString(messages(context.getStartupFailure())))
                        .contains("forge.cluster.heartbeat.intervall"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            worker.max-concurent-jobs                  | Did you mean max-concurrent-jobs?
            worker.maxconcurentjobs                    | Did you mean max-concurrent-jobs?
            wroker.max-concurrent-jobs                 | Did you mean worker?
            max-concurrent-jobs                        | forge.cluster.worker.max-concurrent-jobs
            worker.executors.wide.max-concurent-jobs   | Did you mean max-concurrent-jobs?
            worker.routing[0].patern                   | Did you mean pattern?
            heartbeat.intervall                        | Did you mean interval?
            shutdown.colour                            | Known in forge.cluster.shutdown: drain-timeout
            """)
    void unknown_key_fails_the_start_with_the_key_that_was_meant(String key, String advice) {
        RUNNER.withPropertyValues(
                        "forge.cluster.worker.executors.wide.max-concurrent-jobs=2",
                        "forge.cluster.%s=7".formatted(key))
                .run(context -> {
                    FailureAnalysis analysis = new UnknownKeyFailureAnalyzer().analyze(context.getStartupFailure());
                    assertThat(analysis.getDescription())
                            .startsWith("Unknown key forge.cluster.%s. ".formatted(key))
                            .contains(advice);
                    assertThat(analysis.getAction()).startsWith("Correct or remove it in ");
                });
    }

    @Test
    void unknown_key_of_somebody_else_is_left_to_spring_boot() {
        var failure = new UnboundConfigurationPropertiesException(
                Set.of(new ConfigurationProperty(ConfigurationPropertyName.of("orders.color"), "red", null)));
        assertThat(new UnknownKeyFailureAnalyzer().analyze(failure)).isNull();
    }

    private static String[] messages(Throwable failure) {
        assertThat(failure).isNotNull();
        assertThat(NestedExceptionUtils.getRootCause(failure)).isNotNull();
        var messages = new ArrayList<String>();
        for (Throwable e = failure; e != null; e = e.getCause()) {
            messages.add(e.toString());
        }
        return messages.toArray(String[]::new);
    }

    private static ClusterProperties bind(Map<String, String> properties) {
        return new Binder(new MapConfigurationPropertySource(properties))
                .bindOrCreate("forge.cluster", ClusterProperties.class);
    }

    @Test
    void risky_setting_is_a_warning() {
        assertThat(bind(Map.of()).warnings()).isEmpty();
        assertThat(bind(Map.of("forge.cluster.oauth2.max-per-minute", "300")).warnings())
                .as("one address can block the login on four nodes")
                .singleElement()
                .asString()
                .contains(
                        "forge.cluster.oauth2.max-per-minute (300)",
                        "3300",
                        "forge.cluster.oauth2.max-pending (10000)");
        assertThat(bind(Map.of("forge.cluster.oauth2.max-per-minute", "0")).warnings())
                .isEmpty();
        assertThat(bind(Map.of("forge.cluster.job.heartbeat-interval", "25s")).warnings())
                .singleElement()
                .asString()
                .contains("forge.cluster.job.lease-duration (1m)", "forge.cluster.job.heartbeat-interval (25s)");
    }

    @ParameterizedTest
    @ValueSource(strings = {"auto", "worker", "observer"})
    void reaction_to_a_lost_leadership_without_effect_is_a_warning(String mode) {
        assertThat(bind(Map.of("forge.cluster.node.mode", mode, "forge.cluster.node.on-lost-leadership", "exit"))
                        .warnings())
                .containsExactly("forge.cluster.node.on-lost-leadership (exit) has no effect: it applies to"
                        + " forge.cluster.node.mode (leader) only, not to forge.cluster.node.mode (%s)"
                                .formatted(mode));
        assertThat(bind(Map.of("forge.cluster.node.mode", "leader", "forge.cluster.node.on-lost-leadership", "exit"))
                        .warnings())
                .isEmpty();
    }

    @Test
    void lists_and_maps_bind() {
        ClusterProperties properties = bind(Map.of(
                "forge.cluster.node.info.rack", "7",
                "forge.cluster.node.capabilities", "gpu,media",
                "forge.cluster.worker.executors.gpu.max-concurrent-jobs", "2",
                "forge.cluster.worker.routing[0].pattern", "ml::**",
                "forge.cluster.worker.routing[0].executor", "gpu"));
        assertThat(properties.node().info()).containsExactly(Map.entry("rack", "7"));
        assertThat(properties.node().capabilities()).containsExactly("gpu", "media");
        assertThat(properties.worker().executors().get("gpu").maxConcurrentJobs())
                .isEqualTo(2);
        assertThat(properties.worker().routing().get(0).pattern()).isEqualTo("ml::**");
    }

    @Test
    void password_is_not_printed() {
        assertThat(bind(Map.of(
                                "forge.cluster.direct-connection.url", "jdbc:postgresql://db/app",
                                "forge.cluster.direct-connection.username", "app",
                                "forge.cluster.direct-connection.password", "s3cret"))
                        .toString())
                .contains("jdbc:postgresql://db/app")
                .doesNotContain("s3cret");
    }

    @ParameterizedTest
    @CsvSource({
        "0s, 0s",
        "1ns, 1ns",
        "1500us, 1500000ns",
        "250ms, 250ms",
        "5s, 5s",
        "90s, 90s",
        "60s, 1m",
        "3600s, 1h",
        "24h, 1d",
        "-1s, -1s"
    })
    void duration_is_printed_as_users_write_it(String written, String text) {
        Duration duration = DurationStyle.detectAndParse(written);
        assertThat(PropertyRules.text(duration)).isEqualTo(text);
    }

    @Test
    @SuppressWarnings("unchecked")
    void every_key_of_the_contract_is_in_the_metadata_with_a_description_and_its_default() throws IOException {
        Map<String, Object> metadata;
        try (InputStream json = Objects.requireNonNull(
                ClusterProperties.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json"))) {
            metadata =
                    JsonParserFactory.getJsonParser().parseMap(new String(json.readAllBytes(), StandardCharsets.UTF_8));
        }
        var found = new TreeMap<String, String>();
        for (Map<String, Object> property : (List<Map<String, Object>>) metadata.get("properties")) {
            if (!property.get("name").toString().startsWith("forge.cluster.")) {
                continue; // a key of the endpoint
            }
            assertThat((String) property.get("description"))
                    .as("description of %s", property.get("name"))
                    .isNotBlank()
                    .endsWith(".");
            found.put(
                    property.get("name").toString().substring("forge.cluster.".length()),
                    String.valueOf(property.get("defaultValue")));
        }
        assertThat(found).isEqualTo(contract());
    }

    public static Map<String, String> contract() {
        var contract = new TreeMap<String, String>();
        """
        enabled=true
        name=null
        discovery=postgres
        schema.mode=migrate
        schema.name=null
        direct-connection.url=null
        direct-connection.username=null
        direct-connection.password=null
        control-connections=2
        foreign-transactions=warn
        node.id=null
        node.name=null
        node.info=null
        node.mode=auto
        node.roles=[gateway, function, worker, scheduler]
        node.capabilities=general
        node.on-lost-leadership=not-ready
        heartbeat.interval=5s
        heartbeat.adaptive=false
        heartbeat.max-interval=60s
        heartbeat.stale-threshold=10s
        heartbeat.dead-threshold=15s
        detection.interval=250ms
        detection.liveness-lock=true
        leader.strategy=auto
        leader.check-interval=250ms
        leader.lease-duration=5s
        leader.renew-interval=1s
        worker.max-concurrent-jobs=null
        worker.prefetch=null
        worker.poll-interval=5s
        worker.claiming=true
        worker.executors=null
        worker.routing=null
        worker.default-executor=default
        worker.drain-target=1m
        job.lease-duration=60s
        job.heartbeat-interval=10s
        job.claim-start-timeout=5m
        job.max-attempts=10
        job.backoff.strategy=exponential
        job.backoff.delay=2s
        job.backoff.multiplier=2
        job.backoff.max-delay=5m
        job.backoff.jitter=0.25
        job.timeout=null
        job.crash-policy=requeue
        job.events=failures
        job.max-recoveries=3
        job.max-payload-size=1MB
        job.retention.completed=1d
        job.retention.failed=7d
        sweep.interval=10s
        sweep.startup-grace=null
        history.enabled=true
        history.retention=7d
        cron.zone=UTC
        cron.misfire=fire-once
        cron.misfire-threshold=10s
        cron.catch-up-limit=10
        cron.max-concurrent-jobs=null
        cron.retention=7d
        daemon.restart-delay=5s
        daemon.startup-delay=0s
        daemon.max-restarts=null
        shutdown.drain-timeout=30s
        lock.lease-duration=60s
        startup.lease-duration=5m
        startup.wait-timeout=10m
        rate-limit.mode=hybrid
        rate-limit.on-database-loss=local
        rate-limit.max-local-buckets=100000
        rate-limit.trusted-proxies=null
        wakeup.type=postgres
        web.enabled=false
        web.path=/forge
        web.jobs=null
        web.max-request-size=1MB
        web.health-aliases=true
        web.max-priority=normal
        web.allow-replace=false
        web.allow-group=false
        web.max-unique-for=0s
        web.visible-jobs=own
        operations.enabled=false
        operations.path=/forge/operations
        operations.authorities.view=ROLE_ADMIN
        operations.authorities.values=ROLE_ADMIN
        operations.authorities.operate=ROLE_ADMIN
        dashboard.enabled=true
        dashboard.path=/forge/dashboard
        dashboard.trace-url=null
        oauth2.enabled=true
        oauth2.ttl=10m
        oauth2.max-pending=10000
        oauth2.max-per-minute=30
        workflow.readiness-interval=2s
        workflow.stranded-scope=node
        workflow.max-pending-signals=1000
        workflow.max-pending-signals-size=16MB
        workflow.max-history-size=32MB
        audit.retention=90d
        health.readiness-includes-database=true
        """.lines().map(line -> line.split("=", 2)).forEach(pair -> contract.put(pair[0], pair[1]));
        return contract;
    }
}
