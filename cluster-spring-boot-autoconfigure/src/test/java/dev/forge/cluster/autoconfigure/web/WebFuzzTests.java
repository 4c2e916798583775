// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestHttp;
import dev.forge.cluster.autoconfigure.TestHttp.Answer;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.test.annotation.DirtiesContext;

/** Verifies that every request gets a response that docs/reference/http.md describes, and never a 5xx. */
@ClusterPostgres
@SpringBootTest(
        classes = WebTestApplication.class,
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = {
            "forge.cluster.web.enabled=true",
            "forge.cluster.node.roles=gateway,function",
            "forge.cluster.web.max-request-size=64KB",
            "forge.cluster.job.max-payload-size=16KB",
            WebTestApplication.JOBS
        })
@DirtiesContext
class WebFuzzTests {

    private static final int BODIES = 1_500;
    private static final Set<Integer> EXPECTED = Set.of(202, 400, 403, 404, 413, 415);
    private static final Set<Integer> CODES = Set.of(-32700, -32600, -32601, -32602, -32001);

    private static final List<String> VALID = List.of(
            "{\"name\":\"secret\",\"payload\":1}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"tasks.execute\",\"params\":{\"tasks\":[{\"name\":\"secret\"}]},\"id\":null}",
            "{\"name\":\"my_task\",\"payload\":{\"a\":[1,2.5,null,true,\"x\"]},\"key\":\"k\",\"onDuplicate\":\"replace\"}",
            "{\"name\":\"process-order\",\"payload\":{\"item\":\"anvil\",\"quantity\":2,\"lines\":[{\"number\":1}]},\"delay\":\"30s\"}",
            "{\"name\":\"ml::train\",\"at\":\"2050-01-01T00:00:00Z\",\"priority\":\"high\"}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"tasks.execute\",\"params\":{\"tasks\":[{\"id\":\"task-1\",\"name\":\"my_task\",\"inputs\":{\"key\":\"value\"}}]},\"id\":\"1\"}",
            "[{\"jsonrpc\":\"2.0\",\"method\":\"tasks.execute\",\"params\":{\"tasks\":[{\"name\":\"my_task\"}]},\"id\":1},{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]");

    private static final List<String> WORDS = List.of(
            "name",
            "payload",
            "key",
            "onDuplicate",
            "delay",
            "at",
            "priority",
            "jsonrpc",
            "method",
            "params",
            "tasks",
            "id",
            "inputs",
            "my_task",
            "process-order",
            "secret",
            "tasks.execute",
            "2.0",
            "replace",
            "30s",
            "item");

    private static final List<String> SCRAPS = List.of(
            "\\u0000",
            "\\ud800",
            "\\udc00\\ud800",
            "\u0000",
            "\uffff",
            "\u2028",
            "\ud83d\ude00",
            "\\",
            "\"",
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "null",
            "NaN",
            "-",
            "1e400",
            "1e-400",
            "1e200000",
            "-1e2147483648",
            "0x10",
            "01",
            "/*",
            "9".repeat(400),
            "9".repeat(2_000),
            "0." + "1".repeat(900),
            "true",
            "\ufeff",
            "'",
            "\\x",
            "\\u12",
            "$",
            "%s");

    private static final List<Charset> CHARSETS = List.of(
            StandardCharsets.UTF_8,
            StandardCharsets.UTF_8,
            StandardCharsets.UTF_8,
            StandardCharsets.UTF_8,
            StandardCharsets.UTF_8,
            StandardCharsets.UTF_8,
            StandardCharsets.ISO_8859_1,
            StandardCharsets.UTF_16,
            StandardCharsets.UTF_16LE);

    private final TestHttp http;

    WebFuzzTests(@LocalServerPort int port) {
        this.http = new TestHttp(port);
    }

    @Test
    void random_bodies_never_cause_an_internal_error() {
        long seed = Long.getLong("forge.test.seed", new Random().nextLong());
        var random = new Random(seed);
        var seen = new TreeMap<String, Integer>();
        for (int i = 0; i < BODIES; i++) {
            byte[] body = body(random);
            String path = random.nextInt(3) == 0 ? "/forge" : random.nextBoolean() ? "/forge/jobs" : "/forge";
            Answer answer = random.nextInt(10) == 0 ? http.postChunked(path, body) : http.post(path, body);
            try {
                seen.merge(path + " " + verdict(path, answer), 1, Integer::sum);
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError(
                        "body %d of -Dforge.test.seed=%d to %s: %s%nanswered %d %s"
                                .formatted(
                                        i,
                                        seed,
                                        path,
                                        new String(body, StandardCharsets.UTF_8),
                                        answer.status(),
                                        answer.body()),
                        e);
            }
        }
        System.out.println("fuzzed with seed " + seed + ": " + seen);
        // The requests have covered accepted jobs and all kinds of rejections.
        assertThat(seen).containsKeys("/forge/jobs 202", "/forge/jobs 400", "/forge/jobs 404", "/forge result");
        assertThat(seen).containsKeys("/forge -32700", "/forge -32600", "/forge -32602", "/forge -32001");
    }

    private static String verdict(String path, Answer answer) {
        assertThat(answer.body())
                .doesNotContainPattern("\\b(java|jakarta|tools\\.jackson|org\\.springframework|dev\\.forge)\\.");
        if (answer.status() == 204) {
            assertThat(path).isEqualTo("/forge");
            assertThat(answer.body()).isEmpty();
            return "204";
        }
        if (answer.status() == 200) {
            assertThat(path).isEqualTo("/forge");
            assertThat(answer.header("Content-Type")).isEqualTo("application/json");
            Object json = answer.json();
            if (json instanceof List<?> batch) {
                assertThat(batch).isNotEmpty().allSatisfy(each -> outcome((Map<?, ?>) each));
                return "batch";
            }
            return outcome((Map<?, ?>) json);
        }
        assertThat(EXPECTED).contains(answer.status());
        if (answer.status() == 202) {
            assertThat(answer.object()).containsKeys("id", "name", "status");
        } else {
            answer.problem(answer.status());
        }
        return String.valueOf(answer.status());
    }

    private static String outcome(Map<?, ?> answer) {
        assertThat(answer.get("jsonrpc")).isEqualTo("2.0");
        assertThat(answer.containsKey("id")).isTrue();
        assertThat(answer.containsKey("result")).isNotEqualTo(answer.containsKey("error"));
        if (answer.containsKey("result")) {
            return "result";
        }
        Object code = ((Map<?, ?>) answer.get("error")).get("code");
        assertThat(CODES).contains((Integer) code);
        return String.valueOf(code);
    }

    private static byte[] body(Random random) {
        String text = switch (random.nextInt(10)) {
            case 0 -> value(random, 4);
            case 1, 2 -> request(random);
            case 3 -> nested(random);
            case 4 -> scrap(random).repeat(1 + random.nextInt(50));
            case 5 -> pick(random, VALID);
            default -> mutated(random, pick(random, VALID));
        };
        byte[] bytes = text.getBytes(pick(random, CHARSETS));
        if (random.nextInt(8) == 0 && bytes.length > 0) {
            for (int i = random.nextInt(4); i >= 0; i--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
            }
        }
        return bytes;
    }

    /** Returns a request with random members under known names. */
    private static String request(Random random) {
        var text = new StringBuilder("{\"name\":\"my_task\",\"jsonrpc\":\"2.0\",\"method\":\"tasks.execute\"");
        if (random.nextBoolean()) {
            text = new StringBuilder("{\"name\":\"my_task\"");
        }
        for (int i = random.nextInt(4); i >= 0; i--) {
            text.append(",\"").append(pick(random, WORDS)).append("\":").append(value(random, 3));
        }
        return text.append('}').toString();
    }

    private static String nested(Random random) {
        int depth = random.nextInt(3) == 0 ? 10_000 : 1 + random.nextInt(600);
        String payload = random.nextBoolean()
                ? "[".repeat(depth) + "]".repeat(depth)
                : "{\"a\":".repeat(depth) + "1" + "}".repeat(depth);
        return random.nextBoolean() ? payload : "{\"name\":\"my_task\",\"payload\":" + payload + "}";
    }

    private static String mutated(Random random, String text) {
        var mutant = new StringBuilder(text);
        for (int i = random.nextInt(3); i >= 0 && mutant.length() > 1; i--) {
            int at = random.nextInt(mutant.length());
            switch (random.nextInt(5)) {
                case 0 -> mutant.insert(at, scrap(random));
                case 1 -> mutant.delete(at, Math.min(mutant.length(), at + 1 + random.nextInt(5)));
                case 2 -> mutant.setLength(at);
                case 3 -> mutant.insert(at, mutant.substring(at));
                default -> {
                    int colon = mutant.indexOf(":", at);
                    if (colon >= 0) {
                        mutant.insert(colon + 1, value(random, 2) + ",\"" + pick(random, WORDS) + "\":");
                    }
                }
            }
        }
        return mutant.toString();
    }

    private static String value(Random random, int depth) {
        return switch (random.nextInt(depth > 0 ? 9 : 6)) {
            case 0 -> "null";
            case 1 -> String.valueOf(random.nextBoolean());
            case 2 -> String.valueOf(random.nextInt());
            case 3 -> random.nextLong() + "e" + random.nextInt(2_000);
            case 4 -> "\"" + pick(random, WORDS) + "\"";
            case 5 -> "\"" + scrap(random).replace("\"", "") + "\"";
            case 6 -> "[" + value(random, depth - 1) + "," + value(random, depth - 1) + "]";
            case 7 -> "[]";
            default ->
                "{\"" + pick(random, WORDS) + "\":" + value(random, depth - 1) + ",\"" + pick(random, WORDS) + "\":"
                        + value(random, depth - 1) + "}";
        };
    }

    private static String scrap(Random random) {
        return pick(random, SCRAPS);
    }

    private static <T> T pick(Random random, List<T> list) {
        return list.get(random.nextInt(list.size()));
    }
}
