// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static dev.forge.cluster.dashboard.TestRequests.ADMIN;
import static dev.forge.cluster.dashboard.TestRequests.NOBODY;
import static dev.forge.cluster.dashboard.TestRequests.STRANGER;
import static dev.forge.cluster.dashboard.TestRequests.VIEWER;
import static dev.forge.cluster.dashboard.TestRequests.get;
import static dev.forge.cluster.dashboard.TestRequests.post;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.dashboard.TestRequests.Request;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.security.access.AccessDeniedException;

/** The handler without a web stack. */
class DashboardTests {

    private final List<String> calls = new ArrayList<>();
    private final Dashboard secured = dashboard(Access.SECURED);
    private final Dashboard open = dashboard(Access.OPEN);

    private Dashboard dashboard(Access access) {
        var about = new DashboardApi.About("orders", "1.0", "id", "node-1", "https://traces.test/{traceId}");
        return new Dashboard(
                "/forge/dashboard",
                access,
                Assets.load(),
                new DashboardApi(access, new RecordedData(calls::add), () -> about, System::nanoTime));
    }

    private DashboardResponse serve(Request request) {
        return secured.serve(request.build());
    }

    private static String text(DashboardResponse response) {
        return new String(response.body(), StandardCharsets.UTF_8);
    }

    private void assertRefused(Request request, int status, String code) {
        DashboardResponse response = serve(request);
        assertThat(response.status()).as(text(response)).isEqualTo(status);
        assertThat(response.headers())
                .containsEntry("Content-Type", "application/json")
                .containsEntry("Cache-Control", "no-store");
        assertThat(text(response)).contains("\"code\":\"" + code + "\"");
    }

    @Test
    void every_response_has_the_security_headers() {
        for (Request request : List.of(
                get(""),
                get("/"),
                get("/assets/0/app.js"),
                get("/nothing"),
                get("/api/v1/session"),
                get("/api/v1/x"))) {
            assertThat(serve(request).allHeaders())
                    .containsEntry("X-Frame-Options", "DENY")
                    .containsEntry("X-Content-Type-Options", "nosniff")
                    .containsEntry("Referrer-Policy", "no-referrer")
                    .containsKey("Cache-Control")
                    .hasEntrySatisfying(
                            "Content-Security-Policy",
                            policy -> assertThat(policy)
                                    .startsWith("default-src 'none'; script-src 'self'; style-src 'self';")
                                    .contains("frame-ancestors 'none'")
                                    .doesNotContain("unsafe"));
        }
    }

    @Test
    void path_without_a_slash_is_redirected_relatively() {
        DashboardResponse response = serve(get("?page=jobs"));
        assertThat(response.status()).isEqualTo(302);
        assertThat(response.headers()).containsEntry("Location", "dashboard/?page=jobs");
    }

    @Test
    void page_is_left_to_the_security_of_the_application_without_permission() {
        for (Visitor visitor : List.of(NOBODY, STRANGER)) {
            assertThatThrownBy(() -> serve(get("/").by(visitor))).isInstanceOf(AccessDeniedException.class);
        }
        assertThat(serve(get("/").by(VIEWER)).status()).isEqualTo(200);
    }

    @Test
    void api_tells_an_ended_session_from_a_missing_permission() {
        assertRefused(get("/api/v1/session").by(NOBODY), 401, "unauthenticated");
        assertRefused(get("/api/v1/session").by(STRANGER), 403, "forbidden");
        assertRefused(get("/api/v1/jobs").by(NOBODY), 401, "unauthenticated");
        assertRefused(get("/api/v1/jobs").by(STRANGER), 403, "forbidden");
        assertRefused(post("/api/v1/jobs", "{}").by(NOBODY), 401, "unauthenticated");
        assertRefused(post("/api/v1/jobs", "{}").by(VIEWER), 403, "forbidden");
        assertThat(calls).isEmpty();
    }

    @Test
    void session_tells_permissions_and_token() {
        assertThat(text(serve(get("/api/v1/session"))))
                .startsWith("{\"cluster\":\"orders\",\"version\":\"1.0\",\"node\":{")
                .contains("\"name\":\"node-1\"", "\"user\":\"ada\",\"permissions\":[\"view\",\"values\",\"operate\"]")
                .contains("\"traceUrl\":\"https://traces.test/{traceId}\"")
                .contains("\"header\":\"X-CSRF-TOKEN\"", "\"token\":\"secret\"")
                .doesNotContain("readOnly");
        assertThat(text(serve(get("/api/v1/session").by(VIEWER))))
                .contains("\"permissions\":[\"view\"]")
                .contains("Read-only: you lack the permission")
                .doesNotContain("secret");
    }

    @Test
    void application_without_spring_security_is_shown_read_only_and_without_values() {
        var anyone = new Visitor(null, Set.of(Permission.VIEW), () -> null);
        assertThat(open.serve(get("/").by(anyone).build()).status()).isEqualTo(200);
        assertThat(text(open.serve(get("/api/v1/session").by(anyone).build())))
                .contains("the application has no Spring Security")
                .doesNotContain("csrf");
        assertThat(open.serve(get("/api/v1/jobs").by(anyone).build()).status()).isEqualTo(200);
        DashboardResponse change =
                open.serve(post("/api/v1/jobs", "{\"id\":\"1\"}").by(anyone).build());
        assertThat(change.status()).isEqualTo(403);
        assertThat(text(change)).contains("read-only");
        assertThat(calls).containsExactly("read jobs {} false");
    }

    @Test
    void change_needs_the_token_of_the_application_and_the_own_site() {
        String job = "{\"id\":\"1\",\"state\":\"retry\"}";
        assertRefused(post("/api/v1/jobs", job).withHeader("X-CSRF-TOKEN", null), 403, "csrf");
        assertRefused(post("/api/v1/jobs", job).withHeader("Sec-Fetch-Site", "cross-site"), 403, "csrf");
        assertRefused(post("/api/v1/jobs", job).withHeader("Sec-Fetch-Site", "same-site"), 403, "csrf");
        assertRefused(
                post("/api/v1/jobs", job).by(new Visitor("ada", ADMIN.permissions(), () -> null)), 403, "read-only");
        assertThat(calls).isEmpty();
        assertThat(serve(post("/api/v1/jobs", job).withHeader("Sec-Fetch-Site", "same-origin"))
                        .status())
                .isEqualTo(200);
        assertThat(calls).hasSize(1);
    }

    @Test
    void change_is_given_user_and_reason() {
        serve(post("/api/v1/crons", "{\"id\":\"a/b;c%\",\"state\":\"paused\",\"reason\":\"incident 7\"}"));
        assertThat(calls)
                .containsExactly(
                        "change crons/a/b;c% paused {reason=incident 7} Author[user=ada, address=192.0.2.7, values=true]");
    }

    @Test
    void change_needs_a_json_object_of_bounded_size_with_known_members() {
        for (String type :
                new String[] {"text/plain", "application/x-www-form-urlencoded", "application/jsonp", null}) {
            assertRefused(post("/api/v1/jobs", "{}").withHeader("Content-Type", type), 415, "invalid");
        }
        assertRefused(post("/api/v1/jobs", " ".repeat(DashboardRequest.LARGEST_BODY + 1)), 413, "invalid");
        for (String body : List.of(
                "",
                "null",
                "[]",
                "{\"id\":{}}",
                "{\"id\":[1]}",
                "{\"id\":\"1\",\"id\":\"2\"}",
                "{\"stat\":\"retry\"}",
                "{\"id\":\"" + "x".repeat(1_001) + "\"}",
                "{\"id\":\"1\"}",
                "{\"reason\":\"" + "x".repeat(1_001) + "\"}")) {
            assertRefused(post("/api/v1/jobs", body), 400, "invalid");
        }
        assertRefused(post("/api/v1/jobs?id=1", "{}"), 400, "invalid");
        assertThat(calls).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/api/v1/jobs?nmae=x",
                "/api/v1/jobs?name=x&name=y",
                "/api/v1/jobs?name=%zz",
                "/api/v1/nodes?id=1",
                "/api/v1/session?x=1",
                "/api/v1/jobs?&",
                "/api/v1/overview?_=1"
            })
    void parameter_that_is_unknown_or_repeated_is_refused(String path) {
        assertRefused(get(path), 400, "invalid");
        assertThat(calls).isEmpty();
    }

    @Test
    void parameter_that_is_too_long_is_refused() {
        assertRefused(get("/api/v1/jobs?name=" + "x".repeat(1_001)), 400, "invalid");
        assertRefused(get("/api/v1/jobs?" + "name=&".repeat(2_000)), 400, "invalid");
        assertThat(calls).isEmpty();
    }

    @Test
    void callers_with_equal_permissions_share_a_read() {
        for (int i = 0; i < 50; i++) {
            serve(get("/api/v1/jobs?name=a&status=failed"));
            serve(get("/api/v1/jobs?status=failed&name=a"));
        }
        assertThat(calls.size()).isLessThan(50);
        serve(get("/api/v1/jobs?status=failed&name=a").by(VIEWER));
        assertThat(calls).contains("read jobs {name=a, status=failed} true", "read jobs {name=a, status=failed} false");
    }

    @Test
    void failure_of_a_read_discloses_nothing() {
        assertRefused(get("/api/v1/jobs?error=x"), 500, "failed");
        assertThat(text(serve(get("/api/v1/jobs?error=x")))).doesNotContain("4711");
    }

    @Test
    void outage_of_the_database_is_told_from_a_failure() {
        assertRefused(get("/api/v1/jobs?error=outage"), 503, "unavailable");
        assertThat(serve(get("/api/v1/jobs?error=outage")).headers()).containsEntry("Retry-After", "2");
        assertThat(text(serve(get("/api/v1/jobs?error=outage")))).doesNotContain("4711");
    }

    @Test
    void payload_may_be_longer_than_other_parameters() {
        String payload = "x".repeat(100_000);
        assertThat(serve(post(
                                "/api/v1/jobs",
                                "{\"id\":\"1\",\"state\":\"retry\",\"payload\":\"%s\"}".formatted(payload)))
                        .status())
                .isEqualTo(200);
        assertThat(calls).singleElement().asString().contains(payload);
    }

    @Test
    void part_of_an_entry_needs_its_id() {
        assertRefused(get("/api/v1/jobs/logs"), 400, "invalid");
        assertThat(serve(get("/api/v1/jobs/logs?id=a%2Fb")).status()).isEqualTo(200);
        assertThat(calls).containsExactly("read jobs/a/b/logs {} true");
        assertRefused(post("/api/v1/jobs/logs", "{\"id\":\"1\",\"state\":\"x\"}"), 405, "invalid");
    }

    @Test
    void method_that_a_resource_does_not_have_is_refused() {
        assertRefused(post("/api/v1/session", "{}"), 405, "invalid");
        assertRefused(post("/api/v1/overview", "{}"), 405, "invalid");
        assertThat(serve(post("/api/v1/overview", "{}")).headers()).containsEntry("Allow", "GET, HEAD");
        assertRefused(post("/api/v1/locks", "{}"), 405, "invalid");
        assertThat(serve(post("/", "{}")).status()).isEqualTo(405);
        assertThat(calls).isEmpty();
    }

    @Test
    void unknown_resource_is_not_found() {
        assertRefused(get("/api/v1/secrets"), 404, "not-found");
        assertRefused(get("/api/v2/jobs"), 404, "not-found");
        assertThat(serve(get("/favicon.ico")).status()).isEqualTo(404);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{\"state\":\"cancelled\",\"reason\":\"r\",\"name\":\"mail\",\"group\":\"\"}",
                "{\"id\":\"\",\"state\":\"cancelled\",\"reason\":\"r\",\"name\":\"mail\"}"
            })
    void empty_condition_of_a_change_is_refused(String body) {
        DashboardResponse response = serve(post("/api/v1/jobs", body).by(ADMIN));
        assertThat(response.status()).isEqualTo(400);
        assertThat(text(response)).contains("is empty");
    }
}
