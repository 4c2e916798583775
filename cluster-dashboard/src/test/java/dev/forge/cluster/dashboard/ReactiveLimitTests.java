// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.ratelimit.RateLimited;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Rate limits and enqueueing in a WebFlux application. Here, because this module has WebFlux on its test class path. */
@ClusterPostgres
@ExtendWith(OutputCaptureExtension.class)
@SpringBootTest(
        classes = ReactiveLimitTests.Application.class,
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = {"spring.application.name=orders", "spring.main.web-application-type=reactive"})
@DirtiesContext
class ReactiveLimitTests {

    @SpringBootConfiguration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Quotes.class)
    static class Application {

        @ClusterJob(name = "waits")
        void nothing() {}

        @Bean
        SecurityWebFilterChain security(ServerHttpSecurity http) {
            return http.authorizeExchange(exchanges -> exchanges.anyExchange().permitAll())
                    .build();
        }
    }

    @RestController
    static class Quotes {

        private final Jobs jobs;

        Quotes(Jobs jobs) {
            this.jobs = jobs;
        }

        @GetMapping("/mono")
        @RateLimited(name = "mono", requests = 2, per = "1h")
        public Mono<String> mono() {
            return Mono.just("anvil on " + Schedulers.isInNonBlockingThread());
        }

        @GetMapping("/flux")
        @RateLimited(name = "flux", requests = 2, per = "1h")
        public Flux<String> flux() {
            return Flux.just("anvil", "rocket");
        }

        @GetMapping("/blocks")
        public String blocks() {
            return jobs.enqueueNamed("waits", null).id().toString();
        }

        @GetMapping("/elastic")
        public Mono<String> elastic() {
            return Mono.fromCallable(() -> jobs.enqueueNamed("waits", null).id().toString())
                    .subscribeOn(Schedulers.boundedElastic());
        }
    }

    @LocalServerPort
    private int port;

    private HttpResponse<String> get(String path) throws IOException, InterruptedException {
        return HttpClient.newHttpClient()
                .send(
                        HttpRequest.newBuilder(URI.create("http://localhost:%d/%s".formatted(port, path)))
                                .build(),
                        BodyHandlers.ofString());
    }

    private static String header(HttpResponse<?> response, String name) {
        return response.headers().firstValue(name).orElse("");
    }

    @ParameterizedTest
    @ValueSource(strings = {"mono", "flux"})
    void limited_method_reports_its_bucket_as_in_a_servlet_application(String path) throws Exception {
        HttpResponse<String> first = get(path);
        assertThat(first.statusCode()).isEqualTo(200);
        assertThat(first.body()).contains("anvil").doesNotContain("true");
        assertThat(header(first, "RateLimit-Limit")).isEqualTo("2");
        assertThat(header(first, "RateLimit-Remaining")).isEqualTo("1");
        assertThat(header(first, "RateLimit-Policy")).isEqualTo("\"%s\";q=2;w=3600".formatted(path));
        assertThat(header(first, "RateLimit")).startsWith("\"%s\";r=1;t=".formatted(path));
        assertThat(header(get(path), "RateLimit-Remaining")).isEqualTo("0");
        HttpResponse<String> denied = get(path);
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(header(denied, "RateLimit-Remaining")).isEqualTo("0");
        assertThat(header(denied, "Retry-After")).isNotEmpty();
        assertThat(header(denied, "Content-Type")).startsWith("application/problem+json");
    }

    @Test
    void enqueueing_on_an_event_loop_is_a_warning_for_each_call_site(CapturedOutput output) throws Exception {
        for (int i = 0; i < 3; i++) {
            assertThat(get("elastic").statusCode()).isEqualTo(200);
        }
        assertThat(output.getAll()).doesNotContain("blocks the event loop");
        for (int i = 0; i < 3; i++) {
            assertThat(get("blocks").statusCode()).isEqualTo(200);
        }
        assertThat(output.getAll())
                .containsOnlyOnce("blocks the event loop")
                .contains("ReactiveLimitTests$Quotes.blocks");
    }
}
