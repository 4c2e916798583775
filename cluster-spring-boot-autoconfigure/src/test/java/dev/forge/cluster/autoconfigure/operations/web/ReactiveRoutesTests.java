// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.properties.web.OperationsProperties.Authorities;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.springframework.http.HttpMethod;
import org.springframework.http.MediaType;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import org.springframework.security.access.hierarchicalroles.NullRoleHierarchy;
import org.springframework.security.authentication.TestingAuthenticationToken;
import org.springframework.security.web.server.csrf.CsrfToken;
import org.springframework.security.web.server.csrf.DefaultCsrfToken;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The adapter to WebFlux. */
class ReactiveRoutesTests {

    private static final String BASE = "/forge/operations";

    private final List<String> calls = new ArrayList<>();
    private final AtomicBoolean blockable = new AtomicBoolean();
    private final ReactiveRoutes routes = routes();

    private ReactiveRoutes routes() {
        var visitors = new SecurityVisitors(
                new Authorities(List.of("ROLE_VIEWER"), List.of("ROLE_ADMIN"), List.of("ROLE_ADMIN")),
                new NullRoleHierarchy());
        ClusterOperations operations = RecordedOperations.recording(call -> {
            blockable.set(!Schedulers.isInNonBlockingThread()
                    && Thread.currentThread().getName().startsWith("boundedElastic"));
            calls.add(call);
        });
        var about = new OperationsApi.About("orders", "1.0", "id", "node-1", null);
        var api = new OperationsApi(Access.SECURED, operations, () -> about, System::nanoTime);
        Site site = new Site() {
            @Override
            public String path() {
                return BASE;
            }

            @Override
            public SiteResponse serve(SiteRequest request) {
                return api.serve(request, AuditSource.HTTP);
            }
        };
        return new ReactiveRoutes(List.of(site), exchange -> SecurityVisitors.Reactive.of(visitors, exchange));
    }

    private static MockServerWebExchange exchange(MockServerHttpRequest request, String... authorities) {
        var exchange = MockServerWebExchange.builder(request);
        if (authorities.length > 0) {
            exchange.principal(new TestingAuthenticationToken("ada", "pw", authorities));
        }
        MockServerWebExchange built = exchange.build();
        built.getAttributes()
                .put(CsrfToken.class.getName(), Mono.just(new DefaultCsrfToken("X-CSRF-TOKEN", "_csrf", "secret")));
        return built;
    }

    private MockServerWebExchange serve(MockServerHttpRequest request, String... authorities) {
        MockServerWebExchange exchange = exchange(request, authorities);
        routes.filter(exchange, ReactiveRoutesTests::elsewhere).block(Duration.ofSeconds(60));
        return exchange;
    }

    private static Mono<Void> elsewhere(ServerWebExchange exchange) {
        exchange.getAttributes().put("elsewhere", true);
        return Mono.empty();
    }

    private static int status(MockServerWebExchange exchange) {
        return exchange.getResponse().getStatusCode().value();
    }

    private static String body(MockServerWebExchange exchange) {
        return exchange.getResponse().getBodyAsString().block(Duration.ofSeconds(60));
    }

    @Test
    void other_paths_belong_to_the_application() {
        for (String path : List.of("/", "/forge/operationss", "/forge", "/x/forge/operations/")) {
            assertThat(serve(MockServerHttpRequest.get(path).build(), "ROLE_VIEWER")
                            .getAttributes())
                    .containsKey("elsewhere");
        }
    }

    @Test
    void site_is_served_below_a_context_path_with_the_security_headers() {
        var exchange = serve(
                MockServerHttpRequest.get("/shop/forge/operations/v1/nodes")
                        .contextPath("/shop")
                        .build(),
                "ROLE_VIEWER");
        assertThat(status(exchange)).isEqualTo(200);
        assertThat(exchange.getResponse().getHeaders().getFirst("Content-Security-Policy"))
                .contains("default-src 'none'");
    }

    @Test
    void database_is_read_on_a_thread_that_may_block() {
        var exchange = serve(MockServerHttpRequest.get(BASE + "/v1/nodes").build(), "ROLE_VIEWER");
        assertThat(body(exchange)).isEqualTo("{\"jobs\":[]}");
        assertThat(blockable).isTrue();
        assertThat(calls).containsExactly("read nodes {} false");
    }

    @Test
    void query_reaches_the_handler_decoded_once() {
        serve(
                MockServerHttpRequest.method(HttpMethod.GET, java.net.URI.create(BASE + "/v1/crons?id=a%2Fb%253B%20c"))
                        .build(),
                "ROLE_VIEWER",
                "ROLE_ADMIN");
        assertThat(calls).containsExactly("read crons/a/b%3B c {} true");
    }

    @Test
    void session_has_the_token_of_the_application() {
        var exchange = serve(MockServerHttpRequest.get(BASE + "/v1/session").build(), "ROLE_VIEWER", "ROLE_ADMIN");
        assertThat(body(exchange)).contains("\"token\":\"secret\"");
        assertThat(status(serve(MockServerHttpRequest.get(BASE + "/v1/session").build())))
                .isEqualTo(401);
        assertThat(status(serve(MockServerHttpRequest.get(BASE + "/v1/session").build(), "ROLE_X")))
                .isEqualTo(403);
    }

    @Test
    void change_needs_header_permission_and_a_bounded_body() {
        var post = MockServerHttpRequest.post(BASE + "/v1/crons").contentType(MediaType.APPLICATION_JSON);
        assertThat(status(serve(post.body("{\"id\":\"n\",\"state\":\"paused\"}"), "ROLE_VIEWER", "ROLE_ADMIN")))
                .isEqualTo(403);
        post.header("X-CSRF-TOKEN", "secret");
        assertThat(status(serve(post.body("{\"id\":\"n\",\"state\":\"paused\"}"), "ROLE_VIEWER")))
                .isEqualTo(403);
        assertThat(status(serve(post.body(" ".repeat(SiteRequest.LARGEST_BODY + 1)), "ROLE_VIEWER", "ROLE_ADMIN")))
                .isEqualTo(413);
        assertThat(calls).isEmpty();
        assertThat(status(serve(post.body("{\"id\":\"n\",\"state\":\"paused\"}"), "ROLE_VIEWER", "ROLE_ADMIN")))
                .isEqualTo(200);
        assertThat(calls)
                .singleElement()
                .asString()
                .startsWith("change paused crons/n {} Caller[seesValues=true, principal=ada, ");
    }

    @Test
    void head_has_no_body() {
        var exchange = serve(MockServerHttpRequest.head(BASE + "/v1/nodes").build(), "ROLE_VIEWER");
        assertThat(status(exchange)).isEqualTo(200);
        assertThat(body(exchange)).isNullOrEmpty();
    }
}
