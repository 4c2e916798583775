// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import dev.forge.cluster.ratelimit.RateLimitKey;
import dev.forge.cluster.ratelimit.RateLimited;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.ratelimit.RateLimiterBackend;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.transaction.autoconfigure.TransactionAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.PriorityOrdered;
import org.springframework.mock.web.MockHttpServletRequest;
import org.springframework.mock.web.MockHttpServletResponse;
import org.springframework.security.authentication.AnonymousAuthenticationToken;
import org.springframework.security.authentication.TestingAuthenticationToken;
import org.springframework.security.core.authority.AuthorityUtils;
import org.springframework.security.core.context.SecurityContextHolder;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.web.context.request.RequestContextHolder;
import org.springframework.web.context.request.ServletRequestAttributes;

@ClusterPostgres
class RateLimitedTests {

    private final TestDatabase database;

    RateLimitedTests(TestDatabase database) {
        this.database = database;
    }

    @BeforeEach
    @AfterEach
    void nobodyCalls() {
        RequestContextHolder.resetRequestAttributes();
        SecurityContextHolder.clearContext();
    }

    private ApplicationContextRunner runner(Class<?>... beans) {
        return TestApplications.on(database)
                .withConfiguration(AutoConfigurations.of(
                        RateLimitAutoConfiguration.class,
                        DataSourceTransactionManagerAutoConfiguration.class,
                        TransactionAutoConfiguration.class))
                .withUserConfiguration(beans);
    }

    private static MockHttpServletResponse request(String address, String... forwarded) {
        var request = new MockHttpServletRequest();
        request.setRemoteAddr(address);
        for (String line : forwarded) {
            request.addHeader("X-Forwarded-For", line);
        }
        var response = new MockHttpServletResponse();
        RequestContextHolder.setRequestAttributes(new ServletRequestAttributes(request, response));
        return response;
    }

    private static void login(String user) {
        SecurityContextHolder.getContext().setAuthentication(new TestingAuthenticationToken(user, "", "USER"));
    }

    /** Makes calls and returns how many of them are admitted. */
    private static int admitted(int calls, Runnable call) {
        int admitted = 0;
        for (int i = 0; i < calls; i++) {
            try {
                call.run();
                admitted++;
            } catch (RateLimitExceededException e) {
                assertThat(e.decision().allowed()).isFalse();
            }
        }
        return admitted;
    }

    static class Quotes {

        boolean inTransaction;

        @Transactional
        @RateLimited(requestsString = "${limit:2}", per = "1d")
        String global() {
            inTransaction = TransactionSynchronizationManager.isActualTransactionActive();
            return "quote";
        }

        @RateLimited(key = RateLimitKey.USER, requests = 2, per = "1d")
        void perUser() {}

        @RateLimited(key = RateLimitKey.IP, requests = 2, per = "1d")
        void perAddress() {}

        @RateLimited(expression = "#tenant.toLowerCase()", requests = 2, per = "1d", burst = 3)
        void perTenant(String tenant) {}

        @RateLimited(expression = "#p0.nothing + #a0 + #root + (#x = #tenant)", requests = 1, per = "1d")
        public void perNothing(String tenant) {}

        @RateLimited(expression = "@tenants.current()", requests = 1, per = "1d")
        void perBean() {}
    }

    static class Tenants {
        @Nullable
        String current = "acme";

        public @Nullable String current() {
            return current;
        }
    }

    @RateLimited(requests = 1, per = "1d")
    static class Whole {

        public void one() {}

        public void two() {}

        @RateLimited(requests = 2, per = "1d")
        public void own() {}

        void inner() {}
    }

    interface Faces {
        void limited();
    }

    static class Face implements Faces {
        @Override
        @RateLimited(requests = 1, per = "1d")
        public void limited() {}
    }

    @Configuration(proxyBeanMethods = false)
    static class Beans {
        @Bean
        Quotes quotes() {
            return new Quotes();
        }

        @Bean
        Tenants tenants() {
            return new Tenants();
        }

        @Bean
        Whole whole() {
            return new Whole();
        }

        @Bean
        Faces face() {
            return new Face();
        }

        @Bean
        MeterRegistry meters() {
            return new SimpleMeterRegistry();
        }
    }

    @BeforeEach
    void empty() {
        database.clear();
    }

    @Test
    void global_limit_is_shared_by_applications_and_denied_calls_begin_no_transaction() {
        runner(Beans.class)
                .run(one -> runner(Beans.class).run(two -> {
                    Quotes quotes = one.getBean(Quotes.class);
                    assertThat(quotes.global()).isEqualTo("quote");
                    assertThat(two.getBean(Quotes.class).global()).isEqualTo("quote");
                    assertThatExceptionOfType(RateLimitExceededException.class)
                            .isThrownBy(quotes::global)
                            .satisfies(e -> assertThat(e.limitName()).isEqualTo("rate-limited-tests-quotes.global"));
                    assertThat(one.getBean(MeterRegistry.class)
                                    .get("forge.cluster.ratelimit.rejections")
                                    .tag("limit", "rate-limited-tests-quotes.global")
                                    .counter()
                                    .count())
                            .isEqualTo(1);
                }));
    }

    @Test
    void placeholders_are_filled_in() {
        runner(Beans.class)
                .withPropertyValues("limit=5")
                .run(context -> assertThat(
                                admitted(9, () -> context.getBean(Quotes.class).global()))
                        .isEqualTo(5));
    }

    @Test
    void users_have_separate_buckets_and_anonymous_users_share_that_of_their_address() {
        runner(Beans.class).run(context -> {
            Quotes quotes = context.getBean(Quotes.class);
            request("10.0.0.1");
            login("ann");
            assertThat(admitted(3, quotes::perUser)).isEqualTo(2);
            login("ben");
            assertThat(admitted(3, quotes::perUser)).isEqualTo(2);
            SecurityContextHolder.getContext()
                    .setAuthentication(new AnonymousAuthenticationToken(
                            "key", "anonymousUser", AuthorityUtils.createAuthorityList("NOBODY")));
            assertThat(admitted(3, quotes::perUser)).isEqualTo(2);
            request("10.0.0.2");
            assertThat(admitted(3, quotes::perUser)).isEqualTo(2);
            // A user whose name looks like the key of an address has a separate bucket.
            login("ip:10.0.0.2");
            assertThat(admitted(3, quotes::perUser)).isEqualTo(2);
            nobodyCalls();
            assertThatIllegalStateException()
                    .isThrownBy(quotes::perUser)
                    .withMessageContaining("perUser: key (USER), but it was called outside of a request");
        });
    }

    @Test
    void client_address_is_read_from_trusted_proxies_only() {
        runner(Beans.class)
                .withPropertyValues("forge.cluster.rate-limit.trusted-proxies=10.0.0.0/8, 192.168.7.7, fd00::/8")
                .run(context -> {
                    Quotes quotes = context.getBean(Quotes.class);
                    // X-Forwarded-For is ignored if an untrusted client sends it.
                    request("203.0.113.1", "1.1.1.1");
                    assertThat(admitted(1, quotes::perAddress)).isEqualTo(1);
                    request("203.0.113.1", "2.2.2.2");
                    assertThat(admitted(2, quotes::perAddress)).isEqualTo(1);
                    // Entries that the client itself sends to a trusted proxy are ignored, too.
                    request("10.1.2.3", "9.9.9.9, 203.0.113.1");
                    assertThat(admitted(1, quotes::perAddress)).isZero();
                    request("10.1.2.3", "9.9.9.9", "203.0.113.1:4711, 192.168.7.7");
                    assertThat(admitted(1, quotes::perAddress)).isZero();
                    request("10.1.2.3", "203.0.113.2");
                    assertThat(admitted(3, quotes::perAddress)).isEqualTo(2);
                    // A proxy that names no valid address counts as the client.
                    request("10.1.2.3", "unknown");
                    assertThat(admitted(3, quotes::perAddress)).isEqualTo(2);
                });
    }

    @ParameterizedTest
    @CsvSource({
        "2001:db8::1,            2001:db8:0:0:ffff::2,  same",
        "2001:db8::1,            2001:db8:0:1::1,       other",
        "::ffff:10.0.0.1,        10.0.0.1,              same",
        "fe80::1%eth0,           fe80::2,               same",
        "10.0.0.1,               10.0.0.2,              other",
    })
    void ipv6_clients_are_limited_by_network(String one, String two, String expected) {
        runner(Beans.class).run(context -> {
            Quotes quotes = context.getBean(Quotes.class);
            request(one);
            assertThat(admitted(3, quotes::perAddress)).isEqualTo(2);
            request(two);
            assertThat(admitted(3, quotes::perAddress)).isEqualTo(expected.equals("same") ? 0 : 2);
        });
    }

    @Test
    void expression_selects_the_bucket() {
        runner(Beans.class).run(context -> {
            Quotes quotes = context.getBean(Quotes.class);
            assertThat(admitted(2, () -> quotes.perTenant("ACME"))).isEqualTo(2);
            assertThat(admitted(3, () -> quotes.perTenant("acme"))).isEqualTo(1);
            assertThat(admitted(5, () -> quotes.perTenant("other"))).isEqualTo(3);
            assertThat(admitted(2, quotes::perBean)).isEqualTo(1);
            context.getBean(Tenants.class).current = "other";
            assertThat(admitted(2, quotes::perBean)).isEqualTo(1);
            context.getBean(Tenants.class).current = null;
            assertThatIllegalStateException()
                    .isThrownBy(quotes::perBean)
                    .withMessageContaining("expression (@tenants.current()) is null");
            assertThatIllegalStateException()
                    .isThrownBy(() -> quotes.perNothing("acme"))
                    .withMessageContaining(
                            "@RateLimited on " + Quotes.class.getName() + ".perNothing: expression (#p0.nothing")
                    .withMessageContaining("cannot be evaluated");
        });
    }

    @Test
    void annotation_on_a_class_limits_each_public_method_separately() {
        runner(Beans.class).run(context -> {
            Whole whole = context.getBean(Whole.class);
            assertThat(admitted(3, whole::one)).isEqualTo(1);
            assertThat(admitted(3, whole::two)).isEqualTo(1);
            assertThat(admitted(3, whole::own)).isEqualTo(2);
            assertThat(admitted(3, whole::inner)).isEqualTo(3);
            assertThat(whole.toString()).isNotEmpty();
            assertThat(admitted(3, context.getBean(Faces.class)::limited)).isEqualTo(1);
        });
    }

    @Test
    void applications_share_the_buckets_of_keys_in_strict_mode() {
        ApplicationContextRunner strict =
                runner(Beans.class).withPropertyValues("forge.cluster.rate-limit.mode=strict");
        strict.run(one -> strict.run(two -> {
            assertThat(admitted(2, () -> one.getBean(Quotes.class).perTenant("acme")))
                    .isEqualTo(2);
            assertThat(admitted(3, () -> two.getBean(Quotes.class).perTenant("acme")))
                    .isEqualTo(1);
            assertThat(database.jdbc()
                            .sql("SELECT bucket FROM forge_rate_limits")
                            .query(String.class)
                            .list())
                    .containsExactly("rate-limited-tests-quotes.per-tenant[acme]");
        }));
    }

    @Test
    void response_headers_report_the_state_of_the_bucket() {
        runner(Beans.class).run(context -> {
            Quotes quotes = context.getBean(Quotes.class);
            MockHttpServletResponse first = request("10.0.0.1");
            quotes.perAddress();
            assertThat(first.getHeader("RateLimit-Limit")).isEqualTo("2");
            assertThat(first.getHeader("RateLimit-Remaining")).isEqualTo("1");
            assertThat(first.getHeader("RateLimit-Reset")).isEqualTo("43200");
            assertThat(first.getHeader("RateLimit-Policy"))
                    .isEqualTo("\"rate-limited-tests-quotes.per-address\";q=2;w=86400");
            assertThat(first.getHeader("RateLimit")).isEqualTo("\"rate-limited-tests-quotes.per-address\";r=1;t=43200");
            // The headers report the tighter one of two limits.
            quotes.perTenant("acme");
            assertThat(first.getHeader("RateLimit-Remaining")).isEqualTo("1");
            MockHttpServletResponse second = request("10.0.0.1");
            assertThat(admitted(2, quotes::perAddress)).isEqualTo(1);
            assertThat(second.getHeader("RateLimit-Remaining")).isEqualTo("0");
        });
    }

    @Test
    void windows_shorter_than_a_second_are_reported_in_whole_seconds() {
        assertThat(RateLimitHeaders.policy(RateLimit.of(10, Duration.ofMillis(100))))
                .isEqualTo(";q=100;w=1");
        assertThat(RateLimitHeaders.policy(RateLimit.of(3, Duration.ofMillis(1_500))))
                .isEqualTo(";q=4;w=2");
        assertThat(RateLimitHeaders.policy(RateLimit.of(3, Duration.ofMinutes(1))))
                .isEqualTo(";q=3;w=60");
    }

    @Test
    void backend_of_the_application_replaces_the_table() {
        List<String> asked = new ArrayList<>();
        runner(Beans.class)
                .withBean(RateLimiterBackend.class, () -> (bucket, limit, permits) -> {
                    asked.add(bucket);
                    return new RateLimitDecision(true, limit, 7, Duration.ZERO, Duration.ZERO);
                })
                .run(context -> {
                    context.getBean(Quotes.class).global();
                    assertThat(context.getBean(RateLimiter.class)
                                    .tryAcquire("own", RateLimit.of(1, Duration.ofSeconds(1)))
                                    .remaining())
                            .isEqualTo(7);
                    assertThat(asked).containsExactly("rate-limited-tests-quotes.global", "own");
                });
    }

    static class Private {
        @SuppressWarnings("UnusedMethod")
        @RateLimited(requests = 1, per = "1s")
        private void limited() {}
    }

    static class Final {
        @RateLimited(requests = 1, per = "1s")
        final void limited() {}
    }

    static class NoNumber {
        @RateLimited(requestsString = "many", per = "1s")
        void limited() {}
    }

    static class NoRequests {
        @RateLimited(requestsString = "${nothing:}", per = "1s")
        void limited() {}
    }

    static class None {
        @RateLimited(requestsString = "0", per = "1s")
        void limited() {}
    }

    static class NoTime {
        @RateLimited(requests = 1, per = "soon")
        void limited() {}
    }

    static class NoExpression {
        @RateLimited(expression = "#{", requests = 1, per = "1s")
        void limited() {}
    }

    static class Both {
        @RateLimited(key = RateLimitKey.IP, expression = "#a", requests = 1, per = "1s")
        void limited(String a) {}
    }

    static class NoVariable {
        @RateLimited(expression = "#ordr.length()", requests = 1, per = "1s")
        void limited(String order) {}
    }

    static class Overloaded {
        @RateLimited(requests = 1, per = "1s")
        void limited() {}

        @RateLimited(requests = 2, per = "1s")
        void limited(String a) {}
    }

    static class Early implements BeanPostProcessor, PriorityOrdered {
        @Override
        public int getOrder() {
            return 0;
        }

        @RateLimited(requests = 1, per = "1s")
        void limited() {}
    }

    static class Disagreeing {
        @RateLimited(name = "same", requests = 1, per = "1s")
        void one() {}

        @RateLimited(name = "same", requests = 2, per = "1s")
        void two() {}
    }

    static Stream<Arguments> refusals() {
        return Stream.of(
                Arguments.of(Private.class, "it is private, static or final, so its calls bypass the proxy"),
                Arguments.of(Final.class, "it is private, static or final, so its calls bypass the proxy"),
                Arguments.of(NoNumber.class, "requests (many): is not a number"),
                Arguments.of(NoRequests.class, "requests is missing"),
                Arguments.of(None.class, "requests (0) must be between 1 and 1000000000"),
                Arguments.of(NoTime.class, "per (soon): "),
                Arguments.of(NoExpression.class, "expression (#{): "),
                Arguments.of(
                        NoVariable.class,
                        "expression (#ordr.length()) uses #ordr, but the parameters of the method are [order]"),
                Arguments.of(Both.class, "it has both key (IP) and expression (#a)"),
                Arguments.of(Overloaded.class, "it has the same name rate-limited-tests-overloaded.limited as "),
                Arguments.of(Early.class, "calls of bean 'rateLimitedTests.Early' bypass the limiter"),
                Arguments.of(Disagreeing.class, "it has the same name same as "));
    }

    @ParameterizedTest
    @MethodSource("refusals")
    void invalid_limit_fails_the_start_naming_the_method(Class<?> bean, String reason) {
        runner(bean)
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContaining("@RateLimited on " + bean.getName() + ".")
                        .hasMessageContaining(reason));
    }

    @ParameterizedTest
    @CsvSource({"10.0.0.0/33", "example.org", "10.0.0", "::1/129", "10.0.0.1/x"})
    void proxy_that_has_no_address_fails_the_start(String proxy) {
        runner(Beans.class)
                .withPropertyValues("forge.cluster.rate-limit.trusted-proxies=" + proxy)
                .run(context -> assertThat(TestApplications.refusal(context.getStartupFailure()))
                        .hasMessageContaining("forge.cluster.rate-limit.trusted-proxies (" + proxy + ")"));
    }

    @RateLimited(requests = 1, per = "1d")
    static class Usual {
        public static void main(String[] args) {}

        public void one() {}

        public void one(String a) {}
    }

    interface Weather {
        @RateLimited(requests = 1, per = "1d")
        String now();
    }

    @Configuration(proxyBeanMethods = false)
    static class Clients {
        @Bean
        Usual usual() {
            return new Usual();
        }

        @Bean
        Weather weather() {
            return (Weather) Proxy.newProxyInstance(
                    Weather.class.getClassLoader(),
                    new Class<?>[] {Weather.class},
                    (proxy, method, arguments) -> switch (method.getName()) {
                        case "hashCode" -> 1;
                        case "equals" -> proxy == arguments[0];
                        default -> "rain";
                    });
        }
    }

    @Test
    void overloads_share_a_bucket_and_clients_that_are_interfaces_have_one() {
        runner(Clients.class)
                .run(one -> runner(Clients.class).run(two -> {
                    Usual usual = one.getBean(Usual.class);
                    assertThat(admitted(2, usual::one) + admitted(2, () -> usual.one("a")))
                            .isEqualTo(1);
                    assertThat(admitted(2, one.getBean(Weather.class)::now)).isEqualTo(1);
                    // Both proxies share a bucket, whatever the names of their classes.
                    assertThat(admitted(2, two.getBean(Weather.class)::now)).isZero();
                }));
    }

    /** A public class, because its proxy has another class loader in this test. */
    public static class Open {
        @RateLimited(requests = 3, per = "1d")
        public void limited() {}
    }

    @Test
    void limits_work_without_spring_security_meters_and_a_web_server() {
        runner(Open.class)
                .withClassLoader(new FilteredClassLoader(
                        "org.springframework.security", "io.micrometer", "org.springframework.web", "jakarta.servlet"))
                .run(context -> assertThat(admitted(9, context.getBean(Open.class)::limited))
                        .isEqualTo(3));
    }
}
