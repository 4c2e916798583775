// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.autoconfigure.properties.DashboardProperties.Authorities;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.springframework.http.HttpMethod;
import org.springframework.http.MediaType;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import org.springframework.security.access.AccessDeniedException;
import org.springframework.security.access.hierarchicalroles.NullRoleHierarchy;
import org.springframework.security.authentication.TestingAuthenticationToken;
import org.springframework.security.web.server.csrf.CsrfToken;
import org.springframework.security.web.server.csrf.DefaultCsrfToken;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The adapter to WebFlux. */
class ReactiveRoutesTests {

    private static final String BASE = "/forge/dashboard";

    private final List<String> calls = new ArrayList<>();
    private final AtomicBoolean blockable = new AtomicBoolean();
    private final ReactiveRoutes routes = routes();

    private ReactiveRoutes routes() {
        var visitors = new SecurityVisitors(
                new Authorities(List.of("ROLE_VIEWER"), List.of("ROLE_ADMIN"), List.of("ROLE_ADMIN")),
                new NullRoleHierarchy());
        DashboardData data = new RecordedData(call -> {
            blockable.set(!Schedulers.isInNonBlockingThread()
                    && Thread.currentThread().getName().startsWith("boundedElastic"));
            calls.add(call);
        });
        var about = new DashboardApi.About("orders", "1.0", "id", "node-1", null);
        return new ReactiveRoutes(
                BASE,
                new Dashboard(
                        BASE,
                        Access.SECURED,
                        Assets.load(),
                        new DashboardApi(Access.SECURED, data, () -> about, System::nanoTime)),
                exchange -> SecurityVisitors.Reactive.of(
                        visitors,
                        exchange.getRequest()
                                .getPath()
                                .pathWithinApplication()
                                .value()
                                .substring(BASE.length()),
                        exchange));
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
        for (String path : List.of("/", "/forge/dashboards", "/forge", "/x/forge/dashboard/")) {
            assertThat(serve(MockServerHttpRequest.get(path).build(), "ROLE_VIEWER")
                            .getAttributes())
                    .containsKey("elsewhere");
        }
    }

    @Test
    void page_is_served_below_a_context_path() {
        var exchange = serve(
                MockServerHttpRequest.get("/shop/forge/dashboard/")
                        .contextPath("/shop")
                        .build(),
                "ROLE_VIEWER");
        assertThat(status(exchange)).isEqualTo(200);
        assertThat(exchange.getResponse().getHeaders().getFirst("Content-Security-Policy"))
                .contains("default-src 'none'");
        assertThat(body(exchange)).contains("<div id=\"app\">");
        assertThat(serve(MockServerHttpRequest.get(BASE).build())
                        .getResponse()
                        .getHeaders()
                        .getFirst("Location"))
                .isEqualTo("dashboard/");
    }

    @Test
    void page_without_permission_is_left_to_the_security_of_the_application() {
        assertThatThrownBy(() -> serve(MockServerHttpRequest.get(BASE + "/").build()))
                .isInstanceOf(AccessDeniedException.class);
    }

    @Test
    void database_is_read_on_a_thread_that_may_block() {
        var exchange = serve(MockServerHttpRequest.get(BASE + "/api/v1/nodes").build(), "ROLE_VIEWER");
        assertThat(body(exchange)).isEqualTo("{\"jobs\":[]}");
        assertThat(blockable).isTrue();
        assertThat(calls).containsExactly("read nodes {} false");
    }

    @Test
    void query_reaches_the_handler_decoded_once() {
        serve(
                MockServerHttpRequest.method(
                                HttpMethod.GET, java.net.URI.create(BASE + "/api/v1/crons?id=a%2Fb%253B%20c"))
                        .build(),
                "ROLE_VIEWER",
                "ROLE_ADMIN");
        assertThat(calls).containsExactly("read crons/a/b%3B c {} true");
    }

    @Test
    void session_has_the_token_of_the_application() {
        var exchange = serve(MockServerHttpRequest.get(BASE + "/api/v1/session").build(), "ROLE_VIEWER", "ROLE_ADMIN");
        assertThat(body(exchange)).contains("\"token\":\"secret\"");
        assertThat(status(serve(
                        MockServerHttpRequest.get(BASE + "/api/v1/session").build())))
                .isEqualTo(401);
        assertThat(status(serve(
                        MockServerHttpRequest.get(BASE + "/api/v1/session").build(), "ROLE_X")))
                .isEqualTo(403);
    }

    @Test
    void change_needs_header_permission_and_a_bounded_body() {
        var post = MockServerHttpRequest.post(BASE + "/api/v1/crons").contentType(MediaType.APPLICATION_JSON);
        assertThat(status(serve(post.body("{\"id\":\"n\",\"state\":\"paused\"}"), "ROLE_VIEWER", "ROLE_ADMIN")))
                .isEqualTo(403);
        post.header("X-CSRF-TOKEN", "secret");
        assertThat(status(serve(post.body("{\"id\":\"n\",\"state\":\"paused\"}"), "ROLE_VIEWER")))
                .isEqualTo(403);
        assertThat(status(serve(post.body(" ".repeat(DashboardRequest.LARGEST_BODY + 1)), "ROLE_VIEWER", "ROLE_ADMIN")))
                .isEqualTo(413);
        assertThat(calls).isEmpty();
        assertThat(status(serve(post.body("{\"id\":\"n\",\"state\":\"paused\"}"), "ROLE_VIEWER", "ROLE_ADMIN")))
                .isEqualTo(200);
        assertThat(calls).singleElement().asString().startsWith("change crons/n paused {} Author[user=ada, ");
    }

    @Test
    void head_has_no_body() {
        var exchange = serve(MockServerHttpRequest.head(BASE + "/").build(), "ROLE_VIEWER");
        assertThat(status(exchange)).isEqualTo(200);
        assertThat(body(exchange)).isNullOrEmpty();
    }
}
