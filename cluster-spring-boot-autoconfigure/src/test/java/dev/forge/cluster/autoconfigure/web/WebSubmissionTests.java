// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.autoconfigure.TestHttp;
import dev.forge.cluster.autoconfigure.TestHttp.Answer;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.test.annotation.DirtiesContext;

/** Submission of jobs at {@code /forge/jobs} on a real Tomcat. */
@ClusterPostgres
@SpringBootTest(
        classes = WebTestApplication.class,
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = {
            "forge.cluster.web.enabled=true",
            WebTestApplication.JOBS,
            "forge.cluster.web.max-request-size=64KB",
            "forge.cluster.job.max-payload-size=32KB"
        })
@DirtiesContext
class WebSubmissionTests {

    private static final String UNKNOWN = "there is no such job here";

    private final TestDatabase database;
    private final TestHttp http;
    private final int port;

    @Autowired
    private Jobs jobs;

    @Autowired
    private AuditTrail trail;

    WebSubmissionTests(TestDatabase database, @LocalServerPort int port) {
        this.database = database;
        this.port = port;
        this.http = new TestHttp(port);
    }

    /** Pauses {@code my_task}, so that its jobs stay pending. */
    @BeforeEach
    void pause() {
        jobs.pause("my_task");
    }

    private long count() {
        return database.jdbc()
                .sql("SELECT count(*) FROM forge_jobs")
                .query(Long.class)
                .single();
    }

    private static UUID id(Answer answer) {
        assertThat(answer.status()).as(answer.body()).isEqualTo(202);
        return UUID.fromString((String) answer.at("id"));
    }

    private JobInfo job(Answer answer) {
        return jobs.find(id(answer)).orElseThrow();
    }

    @Test
    void job_is_submitted_and_its_result_read() {
        Answer submitted = http.post(
                "/forge/jobs", "{\"name\":\"process-order\",\"payload\":{\"item\":\"ambos\",\"quantity\":2}}");
        assertThat(submitted.object())
                .containsEntry("name", "process-order")
                .containsEntry("status", "pending")
                .containsKey("id");
        String location = submitted.header("Location");
        assertThat(location).isEqualTo("/forge/jobs/" + submitted.at("id"));
        await().until(() -> http.get(location).at("status").equals("completed"));
        Answer shown = http.get(location);
        assertThat(shown.status()).isEqualTo(200);
        assertThat(shown.object())
                .containsEntry("result", Map.of("item", "ambos", "quantity", 2))
                .containsEntry("attempts", 1)
                .containsKeys("createdAt", "scheduledAt", "startedAt", "finishedAt")
                .doesNotContainKeys("payload", "uniqueKey", "metadata", "error");
        assertThat(Instant.parse((String) shown.at("finishedAt")))
                .isAfterOrEqualTo(Instant.parse((String) shown.at("createdAt")));
        assertThat(shown.header("Cache-Control")).contains("no-store");
    }

    @Test
    void error_of_a_job_is_not_shown_to_clients() {
        UUID id = id(http.post("/forge/jobs", "{\"name\":\"fails\"}"));
        await().until(() -> jobs.find(id).orElseThrow().status() == JobStatus.FAILED);
        assertThat(jobs.find(id).orElseThrow().lastError()).contains("4711");
        Answer shown = http.get("/forge/jobs/" + id);
        assertThat(shown.at("status")).isEqualTo("failed");
        assertThat(shown.body()).doesNotContain("4711");
    }

    @Test
    void options_of_a_request_are_applied() {
        JobInfo delayed = job(http.post(
                "/forge/jobs", "{\"name\":\"my_task\",\"delay\":\"30m\",\"priority\":\"low\",\"key\":\"options\"}"));
        assertThat(Duration.between(delayed.createdAt(), delayed.scheduledAt()))
                .isCloseTo(Duration.ofMinutes(30), Duration.ofMinutes(1));
        assertThat(delayed.priority()).isEqualTo(JobPriority.LOW.value());
        assertThat(delayed.uniqueKey()).startsWith("@http/").endsWith("/options");
        JobInfo timed = job(
                http.post("/forge/jobs", "{\"name\":\"my_task\",\"at\":\"2050-01-31T08:00:00+02:00\",\"key\":null}"));
        assertThat(timed.scheduledAt()).isEqualTo(Instant.parse("2050-01-31T06:00:00Z"));
        assertThat(timed.uniqueKey()).isNull();
        assertThat(job(http.post("/forge/jobs", "{\"name\":\"my_task\",\"delay\":\"PT1H\"}"))
                        .scheduledAt())
                .isAfter(timed.createdAt().plusSeconds(1_800));
    }

    @Test
    void numbers_and_texts_of_a_payload_arrive_as_they_were_sent() {
        JobInfo job = job(
                http.post(
                        "/forge/jobs",
                        "{\"name\":\"my_task\",\"payload\":{\"big\":12345678901234567890,\"exact\":0.10000000000000000001,\"text\":\"\\u00fc\\ud83d\\ude00\"}}"));
        assertThat(job.payload()).contains("12345678901234567890", "0.10000000000000000001", "ü😀");
    }

    @Test
    void key_finds_the_active_job_of_its_client_and_replace_must_be_allowed() {
        String first = "{\"name\":\"my_task\",\"key\":\"k\",\"payload\":1}";
        UUID id = id(http.post("/forge/jobs", first));
        assertThat(id(http.post("/forge/jobs", first.replace(":1", ":2")))).isEqualTo(id);
        assertThat(jobs.find(id).orElseThrow().payload()).isEqualTo("1");
        assertThat(http.post("/forge/jobs", first.replace(":1", ":3,\"onDuplicate\":\"replace\""))
                        .problem(403))
                .contains("forge.cluster.web.allow-replace");
        assertThat(jobs.find(id).orElseThrow().payload()).isEqualTo("1");
    }

    @Test
    void group_must_be_allowed() {
        assertThat(http.post("/forge/jobs", "{\"name\":\"my_task\",\"group\":\"mine\"}")
                        .problem(403))
                .contains("forge.cluster.web.allow-group");
    }

    @Test
    void window_and_debounce_must_be_allowed() {
        String body = "{\"name\":\"my_task\",\"key\":\"windowed\",%s}";
        assertThat(http.post("/forge/jobs", body.formatted("\"uniqueFor\":\"1s\""))
                        .problem(403))
                .contains("forge.cluster.web.max-unique-for is 0");
        assertThat(http.post("/forge/jobs", body.formatted("\"debounce\":\"1s\",\"debounceMax\":\"1s\""))
                        .problem(403))
                .contains("forge.cluster.web.allow-replace");
    }

    @Test
    void tags_of_a_submission_are_stored_and_checked() {
        JobInfo job = job(http.post("/forge/jobs", "{\"name\":\"my_task\",\"tags\":[\"red\",\"big\"]}"));
        assertThat(job.tags()).containsExactly("red", "big");
        for (String wrong :
                java.util.List.of("\"red\"", "[1]", "[\"\"]", "[null]", "[\"%s\"]".formatted("x".repeat(101)))) {
            assertThat(http.post("/forge/jobs", "{\"name\":\"my_task\",\"tags\":%s}".formatted(wrong))
                            .problem(400))
                    .contains("tags");
        }
        assertThat(http.post(
                                "/forge/jobs",
                                "{\"name\":\"my_task\",\"tags\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\"]}")
                        .problem(400))
                .contains("at most 10");
    }

    @Test
    void key_of_a_client_never_meets_that_of_the_application() {
        JobOptions options = JobOptions.defaults().withUniqueKey("invoice-7");
        UUID own = jobs.enqueueNamed("my_task", Map.of("by", "application"), options)
                .id();
        UUID submitted = id(http.post("/forge/jobs", "{\"name\":\"my_task\",\"key\":\"invoice-7\"}"));
        assertThat(submitted).isNotEqualTo(own);
        String stored = jobs.find(submitted).orElseThrow().uniqueKey();
        // The application cannot use the stored key of a client either.
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> jobs.enqueueNamed(
                        "my_task",
                        null,
                        JobOptions.defaults().withUniqueKey(stored).withMetadata("forge.http.principal", "user:x")))
                .withMessageContaining("submitted over HTTP");
    }

    @Test
    void job_of_the_application_can_be_neither_read_nor_cancelled() {
        UUID own = jobs.enqueueNamed("my_task", null).id();
        assertThat(http.get("/forge/jobs/" + own).problem(404)).isEqualTo(UNKNOWN);
        assertThat(http.delete("/forge/jobs/" + own).problem(404)).isEqualTo(UNKNOWN);
        assertThat(jobs.find(own).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void priority_above_the_maximum_is_refused_and_the_handlers_own_is_kept() {
        for (String priority : List.of("high", "critical", "CRITICAL")) {
            assertThat(http.post("/forge/jobs", "{\"name\":\"my_task\",\"priority\":\"%s\"}".formatted(priority))
                            .problem(403))
                    .contains("must not exceed normal", "forge.cluster.web.max-priority");
        }
        assertThat(job(http.post("/forge/jobs", "{\"name\":\"my_task\",\"priority\":\"normal\"}"))
                        .priority())
                .isEqualTo(JobPriority.NORMAL.value());
        assertThat(job(http.post("/forge/jobs", "{\"name\":\"urgent\"}")).priority())
                .isEqualTo(JobPriority.CRITICAL.value());
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"a\":\"%s\"}", "[\"%s\"]", "\"%s\""})
    void refusal_of_a_payload_names_no_java_class(String payload) {
        String large = payload.formatted("x".repeat(33 * 1024));
        Answer submitted = http.post("/forge/jobs", "{\"name\":\"my_task\",\"payload\":%s}".formatted(large));
        assertThat(submitted.problem(400)).contains("max-payload-size").doesNotContain("java");
        Answer called = http.post(
                "/forge",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks.execute\",\"params\":{\"tasks\":[{\"name\":\"my_task\",\"inputs\":%s}]}}"
                        .formatted(large));
        assertThat((String) called.at("error", "data", "detail"))
                .contains("max-payload-size")
                .doesNotContain("java");
    }

    @ParameterizedTest
    @ValueSource(strings = {"%00", "a%00b", "%0A", "..%2F..", "%E2%80%A8"})
    void path_with_a_control_character_is_never_an_internal_error(String id) {
        assertThat(http.get("/forge/jobs/" + id).status()).isIn(400, 404);
        assertThat(http.delete("/forge/jobs/" + id).status()).isIn(400, 404);
    }

    @Test
    void job_is_cancelled_once() {
        UUID id = id(http.post("/forge/jobs", "{\"name\":\"my_task\"}"));
        Answer cancelled = http.delete("/forge/jobs/" + id);
        assertThat(cancelled.status()).isEqualTo(200);
        assertThat(cancelled.at("status")).isEqualTo("cancelled");
        assertThat(jobs.find(id).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
        assertThat(http.delete("/forge/jobs/" + id).problem(409)).contains("cancelled");
        assertThat(trail.list(AuditFilter.all().withTarget(id.toString()), 10).items())
                .extracting(
                        entry -> "%s %s %s %s".formatted(entry.who(), entry.address(), entry.source(), entry.action()))
                .containsExactly("anonymous 127.0.0.1 HTTP job.cancel");
    }

    @Test
    void unlisted_and_unknown_names_get_the_same_response() {
        long before = count();
        String body = "{\"name\":\"%s\"}";
        Answer unlisted = http.post("/forge/jobs", body.formatted("secret"));
        Answer unknown = http.post("/forge/jobs", body.formatted("nonsense"));
        // This name is listed, but no node has ever registered it.
        Answer listed = http.post("/forge/jobs", body.formatted("elsewhere"));
        assertThat(unlisted.problem(404)).isEqualTo("no job with that name can be submitted here");
        assertThat(unknown.body()).isEqualTo(unlisted.body());
        assertThat(listed.body()).isEqualTo(unlisted.body());
        // The payload of an unlisted job is not checked.
        assertThat(http.post("/forge/jobs", "{\"name\":\"secret\",\"payload\":\"\\u0000\"}")
                        .body())
                .isEqualTo(unlisted.body());
        assertThat(count()).isEqualTo(before);
    }

    @Test
    void unlisted_job_is_not_found() {
        UUID secret = jobs.enqueueNamed("secret", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                .id();
        for (String id : List.of(secret.toString(), UUID.randomUUID().toString(), "no-id", "1-1-1-1-1", "%20")) {
            assertThat(http.get("/forge/jobs/" + id).problem(404)).isEqualTo(UNKNOWN);
            assertThat(http.delete("/forge/jobs/" + id).problem(404)).isEqualTo(UNKNOWN);
        }
        assertThat(jobs.find(secret).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void list_of_jobs_accepts_names_and_patterns() {
        id(http.post("/forge/jobs", "{\"name\":\"ml::train\"}"));
        id(http.post("/forge/jobs", "{\"name\":\"with:colon\"}"));
        http.post("/forge/jobs", "{\"name\":\"ml::\"}").problem(404);
        http.post("/forge/jobs", "{\"name\":\"ml::train::deep\"}").problem(404);
    }

    @Test
    void job_with_a_handler_on_other_nodes_only_is_accepted() {
        database.jdbc()
                .sql("INSERT INTO forge_job_names (name) VALUES ('gone')")
                .update();
        assertThat(job(http.post("/forge/jobs", "{\"name\":\"gone\",\"payload\":[1]}"))
                        .payload())
                .isEqualTo("[1]");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            ''                                                      | empty
            nonsense                                                | line 1
            {"name":"my_task"} {}                                   | not JSON
            {"name":"my_task","name":"secret"}                      | not JSON
            []                                                      | must be a JSON object
            null                                                    | must be a JSON object
            "my_task"                                               | must be a JSON object
            {}                                                      | name is missing
            {"name":null}                                           | name is missing
            {"name":7}                                              | name must be a text
            {"name":"  "}                                           | name must have 1 to 255
            {"name":"my_task\\u0000"}                               | NUL
            {"name":"my_task\\nforged"}                             | control character
            {"name":"my_task","key":"a\\nb"}                        | control character
            {"name":"my_task","nmae":1}                             | unknown member 'nmae'
            {"name":"my_task","key":""}                             | key must have
            {"name":"my_task","key":"\\ud800"}                      | half of a surrogate pair
            {"name":"my_task","onDuplicate":"keep"}                 | needs a key
            {"name":"my_task","key":"a","onDuplicate":"KEEP"}       | keep or replace
            {"name":"my_task","uniqueFor":"1h"}                     | uniqueFor needs a key
            {"name":"my_task","debounce":"1s","debounceMax":"1s"}   | debounce needs a key
            {"name":"my_task","key":"a","debounce":"1s"}            | debounce and debounceMax need each other
            {"name":"my_task","key":"a","uniqueFor":"30"}           | uniqueFor must be a duration
            {"name":"my_task","delay":30}                           | delay must be a text
            {"name":"my_task","delay":"30"}                         | such as 30s
            {"name":"my_task","delay":"soon"}                       | such as 30s
            {"name":"my_task","delay":"99999999999999999999s"}      | such as 30s
            {"name":"my_task","delay":"9223372036854775807d"}       | such as 30s
            {"name":"my_task","delay":"-1s"}                        | delay
            {"name":"my_task","delay":"1s","at":"2050-01-01T00:00:00Z"} | exclude each other
            {"name":"my_task","at":"tomorrow"}                      | at must be a time
            {"name":"my_task","at":"+999999999-12-31T23:59:59Z"}    | must be between
            {"name":"my_task","priority":"urgent"}                  | priority must be one of
            {"name":"my_task","payload":"\\u0000"}                  | NUL
            {"name":"my_task","payload":{"\\udc00":1}}              | surrogate
            {"name":"my_task","payload":1e131000}                   | 131001 digits
            {"name":"my_task","payload":[-1E-16000]}                | 16001 digits
            {"name":"my_task","payload":1e999999999999}             | a number that is too large
            """)
    void malformed_request_is_refused_with_a_reason(String body, String why) {
        long before = count();
        assertThat(http.post("/forge/jobs", body).problem(400)).contains(why);
        assertThat(count()).isEqualTo(before);
    }

    @Test
    void long_number_is_refused_before_it_is_parsed() {
        long before = count();
        String order = "{\"name\":\"process-order\",\"payload\":{\"item\":\"a\",\"quantity\":%s}}";
        // The payload type cannot hold these numbers either, but they are rejected before they are parsed as that type.
        assertThat(http.post("/forge/jobs", order.formatted("1e131000")).problem(400))
                .contains("process-order", "131001 digits", "1000");
        assertThat(http.post("/forge/jobs", order.formatted("7".repeat(60_000))).problem(400))
                .contains("60000 digits", "1000");
        String call =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks.execute\",\"params\":{\"tasks\":[{\"name\":\"process-order\",\"inputs\":{\"item\":\"a\",\"quantity\":%s}}]}}";
        assertThat((String) http.post("/forge", call.formatted("1e131000")).at("error", "data", "detail"))
                .contains("131001 digits");
        http.post("/forge/jobs", order.formatted("7".repeat(100_000))).problem(413);
        assertThat(count()).isEqualTo(before);
    }

    @Test
    void refusal_of_an_option_does_not_tell_which_jobs_exist() {
        for (String option : List.of("\"priority\":\"critical\"", "\"key\":\"k\",\"onDuplicate\":\"replace\"")) {
            List<String> answers = Stream.of("my_task", "secret", "nonsense", "elsewhere")
                    .map(name -> http.post("/forge/jobs", "{\"name\":\"%s\",%s}".formatted(name, option)))
                    .map(answer -> answer.status() + " " + answer.body())
                    .distinct()
                    .toList();
            assertThat(answers).as(option).singleElement().asString().startsWith("403 ");
        }
    }

    @Test
    void time_in_the_past_counts_as_now() {
        JobInfo first = job(http.post("/forge/jobs", "{\"name\":\"my_task\"}"));
        JobInfo second = job(http.post("/forge/jobs", "{\"name\":\"my_task\",\"at\":\"1971-01-01T00:00:00Z\"}"));
        assertThat(second.scheduledAt()).isAfter(first.scheduledAt());
    }

    @Test
    void non_utf_8_bodies_and_unbounded_nesting_are_refused() {
        byte[] latin = "{\"name\":\"my_task\",\"payload\":\"\u00fc\"}".getBytes(StandardCharsets.ISO_8859_1);
        assertThat(http.post("/forge/jobs", latin).problem(400)).contains("UTF-8");
        http.post("/forge/jobs", "{\"name\":\"my_task\"}".getBytes(StandardCharsets.UTF_16))
                .problem(400);
        assertThat(http.post(
                                "/forge/jobs",
                                "{\"name\":\"my_task\",\"payload\":" + "[".repeat(10_000) + "]".repeat(10_000) + "}")
                        .problem(400))
                .contains("nested too deeply");
        assertThat(http.post("/forge/jobs", "{\"name\":\"my_task\",\"key\":\"" + "k".repeat(256) + "\"}")
                        .problem(400))
                .contains("255");
        assertThat(http.post("/forge/jobs", "{\"name\":\"my_task\",\"payload\":\"" + "p".repeat(33_000) + "\"}")
                        .problem(400))
                .contains("max-payload-size");
    }

    @Test
    void payload_that_the_handler_cannot_read_is_refused_at_once() {
        long before = count();
        String detail = http.post(
                        "/forge/jobs",
                        "{\"name\":\"process-order\",\"payload\":{\"item\":\"a\",\"quantity\":1,\"lines\":[{\"number\":1},{\"number\":\"x\"}]}}")
                .problem(400);
        assertThat(detail).contains("process-order", "/lines/1/number").doesNotContain("dev.forge", "java.", "Order");
        assertThat(count()).isEqualTo(before);
    }

    @Test
    void too_large_body_is_refused_with_and_without_a_content_length() {
        byte[] large =
                ("{\"name\":\"my_task\",\"payload\":\"" + "p".repeat(70_000) + "\"}").getBytes(StandardCharsets.UTF_8);
        assertThat(http.post("/forge/jobs", large).problem(413)).contains("65536", "max-request-size");
        http.postChunked("/forge/jobs", large).problem(413);
        http.postChunked("/forge", large).problem(413);
        http.post("/forge", large).problem(413);
        id(http.postChunked("/forge/jobs", "{\"name\":\"my_task\"}".getBytes(StandardCharsets.UTF_8)));
    }

    // Tomcat closes the connection without reading the rest, but only after the client has received the response.
    @Test
    void connection_closes_orderly_after_a_too_large_body() throws IOException {
        try (var socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(30_000);
            socket.getOutputStream().write("""
                    POST /forge/jobs HTTP/1.1\r
                    Host: localhost\r
                    Content-Type: application/json\r
                    Transfer-Encoding: chunked\r
                    \r
                    15000\r
                    %s\r
                    0\r
                    \r
                    """.formatted(" ".repeat(0x15000)).getBytes(StandardCharsets.US_ASCII));
            socket.getOutputStream().flush();
            assertThat(text(socket.getInputStream()))
                    .startsWith("HTTP/1.1 413")
                    .contains("Connection: close")
                    .endsWith("}");
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                // Shorter than its content length.
                "Content-Length: 100\r\n\r\n{\"name\":",
                // Not a chunk.
                "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
                "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"na"
            })
    void incomplete_body_is_refused(String rest) throws IOException {
        long before = count();
        try (var socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(30_000);
            socket.getOutputStream()
                    .write(("POST /forge/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + rest)
                            .getBytes(StandardCharsets.US_ASCII));
            socket.shutdownOutput();
            assertThat(text(socket.getInputStream())).startsWith("HTTP/1.1 400");
        }
        assertThat(count()).isEqualTo(before);
    }

    private static String text(InputStream answer) throws IOException {
        return new String(answer.readAllBytes(), StandardCharsets.UTF_8);
    }

    @Test
    void other_content_types_are_refused() {
        for (String type : List.of(
                "text/plain",
                "application/json;charset=utf-16",
                "application/json;charset=nonsense",
                "nonsense",
                "application/x-www-form-urlencoded",
                "multipart/form-data;boundary=x",
                "multipart/form-data",
                "application/xml")) {
            for (String path : List.of("/forge", "/forge/jobs")) {
                http.send("POST", path, BodyPublishers.ofString("{\"name\":\"my_task\"}"), "Content-Type", type)
                        .problem(415);
            }
        }
        http.send("POST", "/forge/jobs", BodyPublishers.ofString("{}")).problem(415);
        http.send(
                        "POST",
                        "/forge/jobs",
                        BodyPublishers.ofString("{}"),
                        "Content-Type",
                        "application/json",
                        "Content-Encoding",
                        "gzip")
                .problem(415);
        assertThat(http.send(
                                "POST",
                                "/forge/jobs",
                                BodyPublishers.ofString("{\"name\":\"my_task\"}"),
                                "Content-Type",
                                "Application/JSON; charset=UTF-8")
                        .status())
                .isEqualTo(202);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "/forge             | GET    | OPTIONS, POST",
                "/forge             | PUT    | OPTIONS, POST",
                "/forge/jobs        | GET    | OPTIONS, POST",
                "/forge/jobs        | DELETE | OPTIONS, POST",
                "/forge/jobs/1      | POST   | DELETE, GET, HEAD, OPTIONS",
                "/forge/jobs/1      | PATCH  | DELETE, GET, HEAD, OPTIONS",
                "/_api/health       | POST   | GET, HEAD, OPTIONS",
                "/_api/ready        | DELETE | GET, HEAD, OPTIONS"
            })
    void other_methods_are_refused_and_those_allowed_are_named(String path, String method, String allowed) {
        Answer answer = http.send(method, path, BodyPublishers.ofString("{}"), "Content-Type", "application/json");
        answer.problem(405);
        assertThat(answer.header("Allow")).isEqualTo(allowed);
        assertThat(http.send("OPTIONS", path, BodyPublishers.noBody()).header("Allow"))
                .isEqualTo(allowed);
    }

    @Test
    void head_responds_like_get() {
        UUID id = id(http.post("/forge/jobs", "{\"name\":\"my_task\"}"));
        Answer head = http.send("HEAD", "/forge/jobs/" + id, BodyPublishers.noBody());
        assertThat(head.status()).isEqualTo(200);
        assertThat(head.body()).isEmpty();
    }
}
