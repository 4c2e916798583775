// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.oauth2;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.forge.cluster.autoconfigure.LogLines;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import java.io.IOException;
import java.net.HttpCookie;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.Principal;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.data.jpa.autoconfigure.DataJpaRepositoriesAutoConfiguration;
import org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.HttpHeaders;
import org.springframework.mock.web.MockHttpServletRequest;
import org.springframework.mock.web.MockHttpServletResponse;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configurers.AbstractHttpConfigurer;
import org.springframework.security.oauth2.client.web.AuthorizationRequestRepository;
import org.springframework.security.oauth2.client.web.HttpSessionOAuth2AuthorizationRequestRepository;
import org.springframework.security.oauth2.core.endpoint.OAuth2AuthorizationRequest;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.util.MultiValueMap;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.util.UriComponentsBuilder;
import org.springframework.web.util.UriUtils;

/** Logins on nodes behind a load balancer without sticky sessions, with an identity provider that checks PKCE. */
@ClusterPostgres(checkLeftovers = false) // two nodes and the provider outlive each test
class OAuth2LoginTests {

    private static final String SITE = "https://app.example";
    private static final String SECRET = SharedAuthorizationRequests.SECURE_COOKIE;

    private static TestDatabase database;
    private static IdentityProvider provider;
    private static ConfigurableApplicationContext one;
    private static ConfigurableApplicationContext two;

    @BeforeAll
    static void start(TestDatabase database) throws IOException {
        OAuth2LoginTests.database = database;
        provider = new IdentityProvider();
        one = node(Plain.class, "one");
        two = node(Plain.class, "two");
    }

    @AfterAll
    static void stop() {
        Stream.of(one, two).forEach(ConfigurableApplicationContext::close);
        provider.close();
    }

    /** An application with the default security chain of Spring Boot. */
    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration(
            exclude = {HibernateJpaAutoConfiguration.class, DataJpaRepositoriesAutoConfiguration.class})
    @RestController
    static class Plain {
        @GetMapping("/me")
        String me(Principal principal) {
            return principal.getName();
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class OwnChain extends Plain {
        @Bean
        SecurityFilterChain chain(HttpSecurity http) {
            return http.authorizeHttpRequests(requests -> requests.anyRequest().authenticated())
                    .oauth2Login(Customizer.withDefaults())
                    .build();
        }
    }

    /** A chain whose login is added by a custom configurer when the configurer is initialized. */
    @Configuration(proxyBeanMethods = false)
    static class OwnDsl extends Plain {
        @Bean
        SecurityFilterChain chain(HttpSecurity http) {
            return http.authorizeHttpRequests(requests -> requests.anyRequest().authenticated())
                    .with(new Dsl())
                    .build();
        }

        private static final class Dsl extends AbstractHttpConfigurer<Dsl, HttpSecurity> {
            @Override
            public void init(HttpSecurity http) {
                http.oauth2Login(Customizer.withDefaults());
            }
        }
    }

    /** An application that calls the provider on behalf of users, but does not use it for its login. */
    @Configuration(proxyBeanMethods = false)
    static class ClientOnly extends Plain {
        @Bean
        SecurityFilterChain chain(HttpSecurity http) {
            return http.authorizeHttpRequests(requests -> requests.anyRequest().permitAll())
                    .oauth2Client(Customizer.withDefaults())
                    .build();
        }
    }

    private static ConfigurableApplicationContext node(Class<?> application, String name) {
        return node(application, name, "/login/oauth2/code/idp", NodeMode.AUTO);
    }

    private static ConfigurableApplicationContext node(
            Class<?> application, String name, String callback, NodeMode mode) {
        String registration = "--spring.security.oauth2.client.registration.idp.";
        String endpoints = "--spring.security.oauth2.client.provider.idp.";
        return new SpringApplicationBuilder(application)
                .web(WebApplicationType.SERVLET)
                .run(
                        "--server.port=0",
                        "--server.forward-headers-strategy=framework",
                        "--spring.main.banner-mode=off",
                        "--spring.flyway.enabled=false",
                        "--spring.liquibase.enabled=false",
                        "--spring.datasource.url=" + database.url(),
                        "--spring.datasource.username=" + database.username(),
                        "--spring.datasource.password=" + database.password(),
                        "--forge.cluster.node.name=" + name,
                        "--forge.cluster.node.mode=" + mode,
                        registration + "client-id=app",
                        registration + "client-authentication-method=none",
                        registration + "authorization-grant-type=authorization_code",
                        registration + "redirect-uri={baseUrl}" + callback,
                        endpoints + "authorization-uri=" + provider.url("/authorize"),
                        endpoints + "token-uri=" + provider.url("/token"),
                        endpoints + "user-info-uri=" + provider.url("/user"),
                        endpoints + "user-name-attribute=sub");
    }

    private static long rows() {
        return database.jdbc()
                .sql("SELECT count(*) FROM forge_state")
                .query(Long.class)
                .single();
    }

    @Test
    void login_begun_on_one_node_is_completed_on_another_with_no_session_in_between() {
        var browser = new Browser();
        String callback = browser.begin(one);
        assertThat(browser.cookies).containsOnlyKeys(SECRET);
        assertThat(browser.lastCookie)
                .contains("; Path=/;", "; Max-Age=600;", "; Secure", "; HttpOnly", "; SameSite=Lax");
        assertThat(browser.complete(two, callback)).isEqualTo(SITE + "/");
        assertThat(browser.get(two, "/me").body()).isEqualTo("alice");
    }

    @Test
    void repeated_callback_is_refused_on_every_node() {
        var browser = new Browser();
        String callback = browser.begin(one);
        assertThat(browser.complete(two, callback)).isEqualTo(SITE + "/");
        int asked = provider.asked.get();
        for (ConfigurableApplicationContext node : List.of(one, two)) {
            assertThat(new Browser(browser.cookies.get(SECRET)).complete(node, callback))
                    .isEqualTo(SITE + "/login?error");
        }
        assertThat(provider.asked).hasValue(asked);
    }

    @Test
    void one_of_concurrent_callbacks_reaches_the_identity_provider() throws Exception {
        var threads = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 5; round++) {
                var browser = new Browser();
                String callback = browser.begin(one);
                int asked = provider.asked.get();
                var answers = new ArrayList<Future<String>>();
                for (int i = 0; i < 4; i++) {
                    ConfigurableApplicationContext node = i % 2 == 0 ? one : two;
                    var tab = new Browser(browser.cookies.get(SECRET));
                    answers.add(threads.submit(() -> tab.complete(node, callback)));
                }
                var places = new ArrayList<String>();
                for (Future<String> answer : answers) {
                    places.add(answer.get());
                }
                assertThat(places).containsOnlyOnce(SITE + "/").contains(SITE + "/login?error");
                assertThat(provider.asked).hasValue(asked + 1);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void login_can_be_neither_completed_nor_consumed_by_another_browser() {
        var browser = new Browser();
        String callback = browser.begin(one);
        int asked = provider.asked.get();
        var victim = new Browser();
        victim.begin(two);
        for (Browser other : List.of(victim, new Browser(), new Browser("A".repeat(43)), new Browser("x"))) {
            assertThat(other.complete(two, callback)).isEqualTo(SITE + "/login?error");
        }
        assertThat(provider.asked).hasValue(asked);
        assertThat(browser.complete(two, callback)).isEqualTo(SITE + "/");
    }

    @Test
    void expired_login_is_refused() {
        var browser = new Browser();
        String callback = browser.begin(one);
        int asked = provider.asked.get();
        database.jdbc()
                .sql("UPDATE forge_state SET expires_at = clock_timestamp()")
                .update();
        assertThat(browser.complete(two, callback)).isEqualTo(SITE + "/login?error");
        assertThat(provider.asked).hasValue(asked);
    }

    @Test
    void logins_in_two_tabs_do_not_disturb_each_other() {
        var browser = new Browser();
        String first = browser.begin(one);
        String second = browser.begin(two);
        assertThat(browser.complete(two, first)).isEqualTo(SITE + "/");
        assertThat(browser.complete(one, second)).isEqualTo(SITE + "/");
    }

    @Test
    void node_that_left_meanwhile_is_not_declared_dead() {
        var browser = new Browser();
        String callback;
        try (ConfigurableApplicationContext leaving = node(Plain.class, "leaving")) {
            callback = browser.begin(leaving);
        }
        assertThat(browser.complete(two, callback)).isEqualTo(SITE + "/");
        assertThat(browser.get(two, "/me").body()).isEqualTo("alice");
    }

    @Test
    void custom_filter_chain_needs_no_configuration() {
        for (Class<?> application : List.of(OwnChain.class, OwnDsl.class)) {
            try (ConfigurableApplicationContext own = node(application, application.getSimpleName())) {
                var browser = new Browser();
                assertThat(browser.complete(own, browser.begin(one))).isEqualTo(SITE + "/");
                assertThat(browser.get(own, "/me").body()).isEqualTo("alice");
                var back = new Browser();
                assertThat(back.complete(one, back.begin(own))).isEqualTo(SITE + "/");
            }
        }
    }

    @Test
    void unknown_registration_is_logged_in_one_harmless_line() {
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        Logger logger = (Logger) LoggerFactory.getLogger(ClusterOAuth2AutoConfiguration.class.getPackageName());
        logger.addAppender(log);
        try {
            new Browser().get(one, "/oauth2/authorization/%1B%5B2Junknown");
        } finally {
            logger.detachAppender(log);
        }
        assertThat(log.list).singleElement().satisfies(line -> {
            assertThat(line.getFormattedMessage()).contains("unknown").doesNotContain("\u001b");
            assertThat(line.getThrowableProxy()).isNull();
        });
    }

    @Test
    void authorization_code_client_shares_its_state_even_on_an_observer() {
        try (ConfigurableApplicationContext client =
                node(ClientOnly.class, "client", "/authorized", NodeMode.OBSERVER)) {
            var browser = new Browser();
            String callback = browser.begin(client);
            assertThat(browser.cookies).containsOnlyKeys(SECRET);
            assertThat(rows()).isPositive();
            int asked = provider.asked.get();
            assertThat(new Browser().get(client, callback).statusCode()).isEqualTo(404);
            assertThat(provider.asked).hasValue(asked);
            assertThat(browser.complete(client, callback)).startsWith(SITE + "/authorized");
            assertThat(provider.asked).hasValue(asked + 1);
            assertThat(browser.get(client, callback).statusCode()).isEqualTo(404);
            assertThat(provider.asked).hasValue(asked + 1);
            flood();
            assertThat(new Browser().get(client, "/oauth2/authorization/idp").statusCode())
                    .isEqualTo(503);
        } finally {
            endFlood();
        }
    }

    /** Inserts as many pending logins as are allowed. */
    private static void flood() {
        database.jdbc().sql("""
                INSERT INTO forge_state (state_key, state_value, expires_at)
                SELECT '@oauth2/flood ' || n, '{}', clock_timestamp() + interval '10 minutes'
                FROM generate_series(1, 10000) n
                """).update();
    }

    private static void endFlood() {
        database.jdbc()
                .sql("DELETE FROM forge_state WHERE state_key LIKE '@oauth2/flood %'")
                .update();
    }

    private static double refusals(ConfigurableApplicationContext node, String reason) {
        Counter counter = node.getBean(MeterRegistry.class)
                .find("forge.cluster.oauth2.rejections")
                .tag("reason", reason)
                .counter();
        return counter == null ? 0 : counter.count();
    }

    @Test
    void flood_of_logins_is_refused_and_leaves_pending_ones_alone() {
        database.jdbc().sql("TRUNCATE forge_state").update();
        var early = new Browser();
        String callback = early.begin(one);
        double before = refusals(two, "full");
        flood();
        try (var log = new LogLines(LoginAdmission.class)) {
            for (int i = 0; i < 5; i++) {
                HttpResponse<String> refused = new Browser().get(two, "/oauth2/authorization/idp");
                assertThat(refused.statusCode()).isEqualTo(503);
                assertThat(refused.headers().firstValue("Retry-After")).contains("30");
                assertThat(refused.headers().firstValue("Location")).isEmpty();
                assertThat(refused.body()).contains("Try again");
            }
            assertThat(log.own(Level.WARN)).singleElement().asString().contains("forge.cluster.oauth2.max-pending");
            assertThat(log.errors()).isEmpty();
            assertThat(rows()).isEqualTo(10_001);
            assertThat(refusals(two, "full")).isEqualTo(before + 5);
            assertThat(early.complete(two, callback)).isEqualTo(SITE + "/");
        } finally {
            endFlood();
        }
        await().until(() -> new Browser().get(two, "/oauth2/authorization/idp").statusCode() == 302);
    }

    @Test
    void expired_logins_make_room_before_they_are_deleted() {
        flood();
        try {
            database.jdbc()
                    .sql("UPDATE forge_state SET expires_at = clock_timestamp() WHERE state_key LIKE '@oauth2/flood %'")
                    .update();
            await().until(() ->
                    new Browser().get(one, "/oauth2/authorization/idp").statusCode() == 302);
        } finally {
            endFlood();
        }
    }

    @Test
    @SuppressWarnings("unchecked")
    void address_that_begins_too_many_logins_is_refused_and_others_are_not() {
        // Otherwise expired rows of other tests would be deleted in the background and change the count.
        database.jdbc().sql("TRUNCATE forge_state").update();
        runner().withPropertyValues("forge.cluster.oauth2.max-per-minute=3").run(context -> {
            var requests = (AuthorizationRequestRepository<OAuth2AuthorizationRequest>)
                    context.getBean(AuthorizationRequestRepository.class);
            for (int i = 0; i < 3; i++) {
                requests.saveAuthorizationRequest(login("a" + i), from("192.0.2.1"), new MockHttpServletResponse());
            }
            long rows = rows();
            assertThatExceptionOfType(LoginRefusedException.class)
                    .isThrownBy(() -> requests.saveAuthorizationRequest(
                            login("a3"), from("192.0.2.1"), new MockHttpServletResponse()))
                    .satisfies(refused -> assertThat(refused.status().value()).isEqualTo(429))
                    .satisfies(refused -> assertThat(refused.retryAfter()).isPositive())
                    .withMessageContaining("forge.cluster.oauth2.max-per-minute");
            assertThat(rows()).isEqualTo(rows);
            requests.saveAuthorizationRequest(login("b"), from("192.0.2.2"), new MockHttpServletResponse());
            assertThat(rows()).isEqualTo(rows + 1);
        });
    }

    private static MockHttpServletRequest from(String address) {
        var request = new MockHttpServletRequest();
        request.setRemoteAddr(address);
        return request;
    }

    private static OAuth2AuthorizationRequest login(String state) {
        return OAuth2AuthorizationRequest.authorizationCode()
                .authorizationUri("https://idp.example/authorize")
                .clientId("app")
                .state(state)
                .build();
    }

    @Test
    void stored_row_is_not_enough_to_complete_a_login() {
        database.jdbc().sql("TRUNCATE forge_state").update();
        var browser = new Browser();
        String callback = browser.begin(one);
        Map<String, Object> row = database.jdbc()
                .sql("SELECT state_key, state_value::text AS state_value FROM forge_state")
                .query()
                .singleRow();
        String state = parameters(URI.create(callback).getRawQuery()).getFirst("state");
        assertThat(row.get("state_key").toString())
                .startsWith("@oauth2/")
                .doesNotContain(UriUtils.decode(state, StandardCharsets.UTF_8));
        assertThat(row.toString()).doesNotContain(browser.cookies.get(SECRET));
    }

    @Test
    @SuppressWarnings("unchecked")
    void authorization_request_is_restored_completely_and_its_cookie_fits_the_connection() {
        var requests = (AuthorizationRequestRepository<OAuth2AuthorizationRequest>)
                one.getBean(AuthorizationRequestRepository.class);
        var login = OAuth2AuthorizationRequest.authorizationCode()
                .authorizationUri("https://idp.example/authorize")
                .clientId("app")
                .redirectUri(SITE + "/login/oauth2/code/idp")
                .scopes(Set.of("openid", "profile"))
                .state("state with ü")
                .additionalParameters(Map.of("nonce", "hashed", "response_mode", "form_post"))
                .attributes(Map.of("registration_id", "idp", "nonce", "plain", "code_verifier", "verifier"))
                .build();
        var begin = new MockHttpServletRequest();
        begin.setContextPath("/shop");
        var redirect = new MockHttpServletResponse();
        requests.saveAuthorizationRequest(login, begin, redirect);
        assertThat(redirect.getHeader(HttpHeaders.SET_COOKIE))
                .startsWith("forge-oauth2=")
                .contains("; Path=/shop;", "; HttpOnly", "; SameSite=Lax")
                .doesNotContain("Secure");

        var callback = new MockHttpServletRequest();
        callback.setCookies(redirect.getCookies());
        callback.setParameter("state", "state with ü");
        for (OAuth2AuthorizationRequest found : List.of(
                requests.loadAuthorizationRequest(callback),
                requests.removeAuthorizationRequest(callback, new MockHttpServletResponse()))) {
            assertThat(found).usingRecursiveComparison().isEqualTo(login);
        }
        assertThat(requests.loadAuthorizationRequest(callback)).isNull();
        assertThat(requests.removeAuthorizationRequest(callback, new MockHttpServletResponse()))
                .isNull();

        begin.setSecure(true);
        var posted = new MockHttpServletResponse();
        requests.saveAuthorizationRequest(login, begin, posted);
        assertThat(posted.getHeader(HttpHeaders.SET_COOKIE))
                .startsWith("__Host-forge-oauth2=")
                .contains("; Path=/;", "; Secure", "; SameSite=None");
    }

    private static WebApplicationContextRunner runner() {
        return new WebApplicationContextRunner()
                .withPropertyValues(
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password())
                .withConfiguration(
                        AutoConfigurations.of(DataSourceAutoConfiguration.class, ClusterOAuth2AutoConfiguration.class))
                .withConfiguration(TestApplications.CLUSTER);
    }

    @Test
    void configuration_backs_off_if_disabled_replaced_or_without_oauth2() {
        runner().run(context -> assertThat(context)
                .hasNotFailed()
                .hasSingleBean(SharedAuthorizationRequests.class)
                .hasSingleBean(ClusterStateStore.class));
        runner().withPropertyValues("forge.cluster.oauth2.enabled=false")
                .run(context -> assertThat(context)
                        .hasNotFailed()
                        .doesNotHaveBean(AuthorizationRequestRepository.class)
                        .doesNotHaveBean(Customizer.class)
                        .hasSingleBean(ClusterStateStore.class));
        runner().withBean(HttpSessionOAuth2AuthorizationRequestRepository.class)
                .run(context -> assertThat(context)
                        .hasNotFailed()
                        .hasSingleBean(AuthorizationRequestRepository.class)
                        .doesNotHaveBean(Customizer.class));
        for (String missing : List.of("org.springframework.security.oauth2", "org.springframework.security", "tools")) {
            runner().withClassLoader(new FilteredClassLoader(missing))
                    .run(context -> assertThat(context)
                            .hasNotFailed()
                            .doesNotHaveBean("clusterAuthorizationRequests")
                            .hasSingleBean(ClusterStateStore.class));
        }
    }

    private static MultiValueMap<String, String> parameters(String query) {
        return UriComponentsBuilder.newInstance().query(query).build().getQueryParams();
    }

    private static HttpResponse<String> send(HttpRequest request) {
        try {
            return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    /** A browser that reaches all nodes under one address. */
    private static final class Browser {

        final Map<String, String> cookies = new TreeMap<>();
        String lastCookie = "";

        Browser() {}

        Browser(String secret) {
            cookies.put(SECRET, secret);
        }

        HttpResponse<String> get(ConfigurableApplicationContext node, String path) {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(
                            "http://localhost:" + node.getEnvironment().getProperty("local.server.port") + path))
                    .header("X-Forwarded-Proto", "https")
                    .header("X-Forwarded-Host", "app.example")
                    .header("X-Forwarded-Port", "443")
                    .header("Accept", "text/html");
            if (!cookies.isEmpty()) {
                var pairs = new ArrayList<String>();
                cookies.forEach((name, value) -> pairs.add(name + "=" + value));
                request.header("Cookie", String.join("; ", pairs));
            }
            HttpResponse<String> response = send(request.build());
            for (String line : response.headers().allValues("Set-Cookie")) {
                lastCookie = line;
                HttpCookie.parse(line).forEach(cookie -> cookies.put(cookie.getName(), cookie.getValue()));
            }
            return response;
        }

        /** Begins a login on a node and returns the callback to which the identity provider redirects. */
        String begin(ConfigurableApplicationContext node) {
            URI authorize = URI.create(place(get(node, "/oauth2/authorization/idp")));
            URI callback =
                    URI.create(place(send(HttpRequest.newBuilder(authorize).build())));
            return callback.getRawPath() + "?" + callback.getRawQuery();
        }

        String complete(ConfigurableApplicationContext node, String callback) {
            return place(get(node, callback));
        }

        private static String place(HttpResponse<String> response) {
            return response.headers()
                    .firstValue("Location")
                    .orElseThrow(() -> new AssertionError(response + " " + response.body()));
        }
    }

    /** Authenticates every user as alice. A code is valid for one token, and only with the verifier of its challenge. */
    private static final class IdentityProvider {

        final AtomicInteger asked = new AtomicInteger();
        private final Map<String, String> challenges = new ConcurrentHashMap<>();
        private final HttpServer server;

        IdentityProvider() throws IOException {
            server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
            server.createContext("/authorize", this::authorize);
            server.createContext("/token", this::token);
            server.createContext("/user", exchange -> answer(exchange, 200, "{\"sub\":\"alice\"}"));
            server.start();
        }

        String url(String path) {
            return "http://localhost:" + server.getAddress().getPort() + path;
        }

        void close() {
            server.stop(0);
        }

        private void authorize(HttpExchange exchange) throws IOException {
            MultiValueMap<String, String> asking =
                    parameters(exchange.getRequestURI().getRawQuery());
            String code = UUID.randomUUID().toString();
            challenges.put(code, asking.getFirst("code_challenge"));
            exchange.getResponseHeaders()
                    .add(
                            "Location",
                            "%s?code=%s&state=%s"
                                    .formatted(
                                            UriUtils.decode(asking.getFirst("redirect_uri"), StandardCharsets.UTF_8),
                                            code,
                                            asking.getFirst("state")));
            answer(exchange, 302, "");
        }

        private void token(HttpExchange exchange) throws IOException {
            asked.incrementAndGet();
            MultiValueMap<String, String> form =
                    parameters(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
            String challenge = challenges.remove(form.getFirst("code"));
            if (challenge != null && challenge.equals(hash(form.getFirst("code_verifier")))) {
                answer(exchange, 200, """
                        {"access_token": "token", "token_type": "Bearer", "expires_in": 60}""");
            } else {
                answer(exchange, 400, "{\"error\": \"invalid_grant\"}");
            }
        }

        private static String hash(String verifier) {
            try {
                return Base64.getUrlEncoder()
                        .withoutPadding()
                        .encodeToString(MessageDigest.getInstance("SHA-256")
                                .digest(verifier.getBytes(StandardCharsets.US_ASCII)));
            } catch (GeneralSecurityException e) {
                throw new AssertionError(e);
            }
        }

        private static void answer(HttpExchange exchange, int status, String json) throws IOException {
            byte[] body = json.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().add("Content-Type", "application/json");
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        }
    }
}
