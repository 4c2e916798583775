// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.springframework.context.ApplicationContext;
import tools.jackson.databind.json.JsonMapper;

/** An HTTP client of an application under test. */
public final class TestHttp {

    private static final JsonMapper JSON = JsonMapper.builder().build();

    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final int port;

    public TestHttp(int port) {
        this.port = port;
    }

    public static TestHttp to(ApplicationContext context) {
        return new TestHttp(context.getEnvironment().getRequiredProperty("local.server.port", Integer.class));
    }

    public record Answer(int status, HttpHeaders headers, String body) {

        public String header(String name) {
            return headers.firstValue(name).orElse("");
        }

        public Object json() {
            return JSON.readValue(body, Object.class);
        }

        @SuppressWarnings("unchecked")
        public Map<String, Object> object() {
            return JSON.readValue(body, Map.class);
        }

        /** Returns the member at a path of names and indexes. */
        public Object at(Object... path) {
            Object value = json();
            for (Object step : path) {
                value = step instanceof Integer index ? ((List<?>) value).get(index) : ((Map<?, ?>) value).get(step);
            }
            return value;
        }

        /** Asserts a problem of RFC 9457 with that status and returns its detail. */
        public String problem(int expected) {
            assertThat(status).as(body).isEqualTo(expected);
            assertThat(header("Content-Type")).isEqualTo("application/problem+json");
            assertThat(object()).containsEntry("status", expected).containsKeys("title", "detail");
            return (String) at("detail");
        }
    }

    public Answer get(String path) {
        return send("GET", path, BodyPublishers.noBody());
    }

    public Answer delete(String path) {
        return send("DELETE", path, BodyPublishers.noBody());
    }

    public Answer post(String path, String json) {
        return post(path, json.getBytes(StandardCharsets.UTF_8));
    }

    public Answer post(String path, byte[] json) {
        return send("POST", path, BodyPublishers.ofByteArray(json), "Content-Type", "application/json");
    }

    /** Sends a body in chunks, without a content length. */
    public Answer postChunked(String path, byte[] json) {
        return send(
                "POST",
                path,
                BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(json)),
                "Content-Type",
                "application/json");
    }

    public Answer send(String method, String path, BodyPublisher body, String... headers) {
        var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                .method(method, body);
        if (headers.length > 0) {
            request.headers(headers);
        }
        try {
            HttpResponse<String> response = client.send(request.build(), BodyHandlers.ofString(StandardCharsets.UTF_8));
            return new Answer(response.statusCode(), response.headers(), response.body());
        } catch (IOException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }
}
