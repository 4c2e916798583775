// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestHttp;
import dev.forge.cluster.autoconfigure.TestHttp.Answer;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.test.annotation.DirtiesContext;

/** JSON-RPC at {@code /forge}, on a node that runs no jobs: enqueued jobs stay pending. */
@ClusterPostgres
@SpringBootTest(
        classes = WebTestApplication.class,
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = {
            "forge.cluster.web.enabled=true",
            "forge.cluster.node.roles=gateway,function",
            "forge.cluster.web.allow-replace=true",
            "forge.cluster.web.max-priority=high",
            "forge.cluster.web.max-unique-for=1h",
            "forge.cluster.web.visible-jobs=all",
            WebTestApplication.JOBS
        })
@DirtiesContext
class WebRpcTests {

    private static final String CALL =
            "{\"jsonrpc\":\"2.0\",\"method\":\"tasks.execute\",\"params\":{\"tasks\":[%s]},\"id\":\"1\"}";

    private final TestDatabase database;
    private final TestHttp http;

    @Autowired
    private Jobs jobs;

    WebRpcTests(TestDatabase database, @LocalServerPort int port) {
        this.database = database;
        this.http = new TestHttp(port);
    }

    private long count() {
        return database.jdbc()
                .sql("SELECT count(*) FROM forge_jobs")
                .query(Long.class)
                .single();
    }

    private Answer call(String body) {
        Answer answer = http.post("/forge", body);
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        assertThat(answer.header("Content-Type")).isEqualTo("application/json");
        return answer;
    }

    private static String task(String id, String name) {
        return "{\"id\":\"%s\",\"name\":\"%s\",\"inputs\":{\"key\":\"value\"}}".formatted(id, name);
    }

    @Test
    void repeated_call_finds_the_jobs_of_its_tasks() {
        long before = count();
        String body = CALL.formatted(task("task-1", "my_task") + "," + task("task-2", "my_task"));
        Answer answer = call(body);
        assertThat(answer.object())
                .containsEntry("jsonrpc", "2.0")
                .containsEntry("id", "1")
                .doesNotContainKey("error");
        assertThat(answer.at("result", "tasks", 0, "id")).isEqualTo("task-1");
        assertThat(answer.at("result", "tasks", 1, "id")).isEqualTo("task-2");
        JobInfo job = jobs.find(UUID.fromString((String) answer.at("result", "tasks", 1, "jobId")))
                .orElseThrow();
        assertThat(job.name()).isEqualTo("my_task");
        assertThat(job.uniqueKey()).endsWith("/task-2");
        assertThat(job.payload()).isEqualTo("{\"key\": \"value\"}");
        assertThat(call(body).body()).isEqualTo(answer.body());
        assertThat(count()).isEqualTo(before + 2);
    }

    @Test
    void replace_higher_priorities_and_jobs_of_others_can_be_allowed() {
        String body =
                "{\"name\":\"my_task\",\"key\":\"again\",\"onDuplicate\":\"replace\",\"priority\":\"high\",\"payload\":%d}";
        UUID id = UUID.fromString(
                (String) http.post("/forge/jobs", body.formatted(1)).at("id"));
        assertThat(http.post("/forge/jobs", body.formatted(2)).at("id")).isEqualTo(id.toString());
        JobInfo replaced = jobs.find(id).orElseThrow();
        assertThat(replaced.payload()).isEqualTo("2");
        assertThat(replaced.priority()).isEqualTo(JobPriority.HIGH.value());
        assertThat(http.post("/forge/jobs", body.formatted(3).replace("high", "critical"))
                        .problem(403))
                .contains("must not exceed high");
        UUID own = jobs.enqueueNamed("my_task", null).id();
        assertThat(http.get("/forge/jobs/" + own).status()).isEqualTo(200);
        assertThat(http.delete("/forge/jobs/" + own).status()).isEqualTo(200);
    }

    @Test
    void windows_up_to_the_maximum_can_be_allowed() {
        String body = "{\"name\":\"my_task\",\"key\":\"hourly\",\"uniqueFor\":\"%s\"}";
        Answer first = http.post("/forge/jobs", body.formatted("1h"));
        assertThat(first.at("status")).isEqualTo("pending");
        database.jdbc()
                .sql("UPDATE forge_jobs SET status = 'completed', finished_at = now() WHERE id = ?::uuid")
                .param(first.at("id"))
                .update();
        Answer second = http.post("/forge/jobs", body.formatted("PT1H"));
        assertThat(second.object()).containsEntry("id", first.at("id")).containsEntry("status", "completed");
        database.jdbc()
                .sql("DELETE FROM forge_jobs WHERE id = ?::uuid")
                .param(first.at("id"))
                .update();
        assertThat(http.post("/forge/jobs", body.formatted("1h")).object())
                .containsEntry("id", first.at("id"))
                .containsEntry("status", "completed");
        assertThat(http.post("/forge/jobs", body.formatted("61m")).problem(403))
                .contains("must not exceed PT1H (forge.cluster.web.max-unique-for)");
    }

    @Test
    void debounce_needs_the_right_to_replace() {
        String body =
                "{\"name\":\"my_task\",\"key\":\"quiet\",\"payload\":%d,\"debounce\":\"10m\",\"debounceMax\":\"1h\"}";
        UUID id = UUID.fromString(
                (String) http.post("/forge/jobs", body.formatted(1)).at("id"));
        assertThat(http.post("/forge/jobs", body.formatted(2)).at("id")).isEqualTo(id.toString());
        JobInfo job = jobs.find(id).orElseThrow();
        assertThat(job.payload()).isEqualTo("2");
        assertThat(job.scheduledAt()).isAfter(job.createdAt().plusSeconds(300));
        assertThat(http.post("/forge/jobs", body.formatted(2).replace("10m", "2h"))
                        .problem(400))
                .contains("JobOptions.withDebounce: delay (PT2H) must be between");
    }

    @Test
    void task_without_an_id_is_enqueued_by_each_call() {
        String body = CALL.formatted("{\"name\":\"my_task\"},{\"name\":\"my_task\",\"id\":null}");
        Answer answer = call(body);
        assertThat(((Map<?, ?>) answer.at("result", "tasks", 0)).keySet().toString())
                .isEqualTo("[jobId]");
        assertThat(answer.at("result", "tasks", 0)).isNotEqualTo(answer.at("result", "tasks", 1));
        assertThat(call(body).at("result")).isNotEqualTo(answer.at("result"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            {"id":"b","name":"secret"}                                  | -32001 | no job with that name
            {"id":"b","name":"elsewhere"}                               | -32001 | no job with that name
            {"id":"b","name":"process-order","inputs":{"quantity":"x"}} | -32602 | /quantity
            {"id":"b","name":"my_task","inputs":"\\u0000"}              | -32602 | NUL
            {"id":"b","name":"my_task","inputs":1e131000}               | -32602 | 131001 digits
            {"id":"b","name":"my_task","input":1}                       | -32602 | unknown member 'input'
            {"id":"b"}                                                  | -32602 | name is missing
            """)
    void task_that_cannot_be_enqueued_rolls_back_the_call(String bad, int code, String why) {
        long before = count();
        Answer answer = call(CALL.formatted(task("a", "my_task") + "," + bad + "," + task("c", "my_task")));
        assertThat(answer.at("error", "code")).isEqualTo(code);
        assertThat((String) answer.at("error", "data", "detail")).contains(why);
        assertThat(answer.at("error", "data", "task")).isEqualTo(Map.of("index", 1, "id", "b"));
        assertThat(answer.at("id")).isEqualTo("1");
        assertThat(answer.object()).doesNotContainKey("result");
        assertThat(count()).isEqualTo(before);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', nullValues = "null", textBlock = """
            {"jsonrpc":"2.0","method":                                    | -32700 | null
            ''                                                            | -32700 | null
            {"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"x"}         | -32700 | null
            []                                                            | -32600 | null
            1                                                             | -32600 | null
            "x"                                                           | -32600 | null
            {}                                                            | -32600 | null
            {"jsonrpc":"1.0","method":"tasks.execute","id":7}             | -32600 | 7
            {"method":"tasks.execute","id":7}                             | -32600 | 7
            {"jsonrpc":2.0,"method":"tasks.execute","id":7}               | -32600 | 7
            {"jsonrpc":"2.0","method":1,"id":"x"}                         | -32600 | x
            {"jsonrpc":"2.0","method":1}                                  | -32600 | null
            {"jsonrpc":"2.0","method":"tasks.execute","id":true}          | -32600 | null
            {"jsonrpc":"2.0","method":"tasks.execute","id":{}}            | -32600 | null
            {"jsonrpc":"2.0","method":"tasks.execute","id":1,"params":1}  | -32600 | 1
            {"jsonrpc":"2.0","method":"tasks.execute","id":1,"params":null} | -32600 | 1
            {"jsonrpc":"2.0","method":"tasks.other","id":1}               | -32601 | 1
            {"jsonrpc":"2.0","method":"rpc.discover","id":1.5}            | -32601 | 1.5
            {"jsonrpc":"2.0","method":"tasks.other","id":null}            | -32601 | null
            {"jsonrpc":"2.0","method":"tasks.execute","id":1}             | -32602 | 1
            {"jsonrpc":"2.0","method":"tasks.execute","id":1,"params":[]} | -32602 | 1
            {"jsonrpc":"2.0","method":"tasks.execute","id":1,"params":{}} | -32602 | 1
            {"jsonrpc":"2.0","method":"tasks.execute","id":1,"params":{"tasks":[]}} | -32602 | 1
            {"jsonrpc":"2.0","method":"tasks.execute","id":1,"params":{"tasks":[1]}} | -32602 | 1
            {"jsonrpc":"2.0","method":"tasks.execute","id":1,"params":{"tasks":[],"x":1}} | -32602 | 1
            """)
    void errors_have_the_codes_of_the_specification(String body, int code, String id) {
        Answer answer = call(body);
        assertThat(answer.object())
                .containsEntry("jsonrpc", "2.0")
                .containsKey("id")
                .doesNotContainKey("result");
        assertThat(answer.at("error", "code")).isEqualTo(code);
        assertThat((String) answer.at("error", "message")).isNotBlank();
        assertThat(answer.at("id") == null ? null : answer.at("id").toString()).isEqualTo(id);
    }

    @Test
    void notifications_run_without_a_response() {
        long before = count();
        Answer answer =
                http.post("/forge", CALL.formatted(task("silent", "my_task")).replace(",\"id\":\"1\"}", "}"));
        assertThat(answer.status()).isEqualTo(204);
        assertThat(answer.body()).isEmpty();
        assertThat(count()).isEqualTo(before + 1);
        assertThat(http.post("/forge", "{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}")
                        .status())
                .isEqualTo(204);
    }

    @Test
    void batch_returns_a_response_to_each_call_that_expects_one() {
        String good = CALL.formatted(task("batched", "my_task"));
        String bad = CALL.formatted(task("refused", "secret")).replace("\"id\":\"1\"}", "\"id\":2}");
        String notification = CALL.formatted(task("told", "my_task")).replace(",\"id\":\"1\"}", "}");
        long before = count();
        Answer answer = call("[" + good + "," + notification + "," + bad + ",7]");
        assertThat((List<?>) answer.json()).hasSize(3);
        assertThat(answer.at(0, "id")).isEqualTo("1");
        assertThat(answer.at(0, "result", "tasks", 0, "id")).isEqualTo("batched");
        assertThat(answer.at(1, "id")).isEqualTo(2);
        assertThat(answer.at(1, "error", "code")).isEqualTo(-32001);
        assertThat(answer.at(2, "error", "code")).isEqualTo(-32600);
        // Each call has its own transaction.
        assertThat(count()).isEqualTo(before + 2);
        assertThat(http.post("/forge", "[" + notification + "]").status()).isEqualTo(204);
    }

    @Test
    void batches_and_lists_of_tasks_are_bounded() {
        String batch = Collections.nCopies(21, "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1}").stream()
                .collect(Collectors.joining(",", "[", "]"));
        assertThat(call(batch).at("error", "code")).isEqualTo(-32600);
        long before = count();
        String tasks = String.join(",", Collections.nCopies(101, "{\"name\":\"my_task\"}"));
        assertThat(call(CALL.formatted(tasks)).at("error", "code")).isEqualTo(-32602);
        assertThat(count()).isEqualTo(before);
        tasks = String.join(",", Collections.nCopies(100, "{\"name\":\"my_task\"}"));
        assertThat((List<?>) call(CALL.formatted(tasks)).at("result", "tasks")).hasSize(100);
        assertThat(count()).isEqualTo(before + 100);
    }

    @Test
    void two_tasks_of_a_call_cannot_share_an_id() {
        Answer answer = call(CALL.formatted(task("twice", "my_task") + "," + task("twice", "ml::train")));
        assertThat(answer.at("error", "data", "task", "index")).isEqualTo(1);
    }

    @Test
    void task_id_is_unique_per_job_name() {
        Object first = call(CALL.formatted(task("shared", "my_task"))).at("result", "tasks", 0, "jobId");
        assertThat(call(CALL.formatted(task("shared", "ml::train"))).at("result", "tasks", 0, "jobId"))
                .isNotEqualTo(first);
    }

    @Test
    void concurrent_calls_with_the_same_tasks_do_not_deadlock() throws Exception {
        ExecutorService clients = Executors.newFixedThreadPool(8);
        try {
            for (int round = 0; round < 5; round++) {
                List<String> tasks = new ArrayList<>(IntStream.range(0, 20)
                        .mapToObj(i -> "cross-" + i)
                        .map(id -> task(id, "my_task"))
                        .toList());
                var random = new Random(round);
                List<Callable<Set<?>>> calls = new ArrayList<>();
                for (int i = 0; i < 8; i++) {
                    Collections.shuffle(tasks, random);
                    String body = CALL.formatted(String.join(",", tasks));
                    calls.add(() -> new HashSet<>((List<?>) call(body).at("result", "tasks")));
                }
                Set<Set<?>> answers = new HashSet<>();
                for (Future<Set<?>> answer : clients.invokeAll(calls)) {
                    answers.add(answer.get());
                }
                assertThat(answers).hasSize(1);
                assertThat(database.jdbc()
                                .sql("DELETE FROM forge_jobs WHERE unique_key LIKE '%/cross-%'")
                                .update())
                        .isEqualTo(20);
            }
        } finally {
            clients.shutdown();
        }
    }
}
