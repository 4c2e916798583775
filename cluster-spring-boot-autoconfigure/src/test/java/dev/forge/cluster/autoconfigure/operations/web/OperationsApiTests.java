// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import static dev.forge.cluster.autoconfigure.operations.web.TestRequests.ADMIN;
import static dev.forge.cluster.autoconfigure.operations.web.TestRequests.NOBODY;
import static dev.forge.cluster.autoconfigure.operations.web.TestRequests.STRANGER;
import static dev.forge.cluster.autoconfigure.operations.web.TestRequests.VIEWER;
import static dev.forge.cluster.autoconfigure.operations.web.TestRequests.get;
import static dev.forge.cluster.autoconfigure.operations.web.TestRequests.post;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.operations.web.TestRequests.Request;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The API without a web stack and without a cluster. */
class OperationsApiTests {

    private final List<String> calls = new ArrayList<>();
    private final OperationsApi secured = api(Access.SECURED);
    private final OperationsApi open = api(Access.OPEN);

    private OperationsApi api(Access access) {
        var about = new OperationsApi.About("orders", "1.0", "id", "node-1", "https://traces.test/{traceId}");
        return new OperationsApi(access, RecordedOperations.recording(calls::add), () -> about, System::nanoTime);
    }

    private SiteResponse serve(Request request) {
        return secured.serve(request.build(), AuditSource.HTTP);
    }

    private SiteResponse serveOpen(Request request) {
        return open.serve(request.build(), AuditSource.HTTP);
    }

    private static String text(SiteResponse response) {
        return new String(response.body(), StandardCharsets.UTF_8);
    }

    private void assertRefused(Request request, int status, String code) {
        SiteResponse response = serve(request);
        assertThat(response.status()).as(text(response)).isEqualTo(status);
        assertThat(response.headers())
                .containsEntry("Content-Type", "application/json")
                .containsEntry("Cache-Control", "no-store");
        assertThat(text(response)).contains("\"code\":\"" + code + "\"");
    }

    @Test
    void api_tells_an_ended_session_from_a_missing_permission() {
        assertRefused(get("/v1/session").by(NOBODY), 401, "unauthenticated");
        assertRefused(get("/v1/session").by(STRANGER), 403, "forbidden");
        assertRefused(get("/v1/jobs").by(NOBODY), 401, "unauthenticated");
        assertRefused(get("/v1/jobs").by(STRANGER), 403, "forbidden");
        assertRefused(post("/v1/jobs", "{}").by(NOBODY), 401, "unauthenticated");
        assertRefused(post("/v1/jobs", "{}").by(VIEWER), 403, "forbidden");
        assertThat(calls).isEmpty();
    }

    @Test
    void session_tells_permissions_and_token() {
        assertThat(text(serve(get("/v1/session"))))
                .startsWith("{\"cluster\":\"orders\",\"version\":\"1.0\",\"node\":{")
                .contains("\"name\":\"node-1\"", "\"user\":\"ada\",\"permissions\":[\"view\",\"values\",\"operate\"]")
                .contains("\"traceUrl\":\"https://traces.test/{traceId}\"")
                .contains("\"header\":\"X-CSRF-TOKEN\"", "\"token\":\"secret\"")
                .doesNotContain("readOnly");
        assertThat(text(serve(get("/v1/session").by(VIEWER))))
                .contains("\"permissions\":[\"view\"]")
                .contains("Read-only: you lack the permission")
                .doesNotContain("secret");
    }

    @Test
    void application_without_spring_security_is_shown_read_only_and_without_values() {
        var anyone = new Visitor(null, Set.of(Permission.VIEW), () -> null);
        assertThat(text(serveOpen(get("/v1/session").by(anyone))))
                .contains("the application has no Spring Security")
                .doesNotContain("csrf");
        assertThat(serveOpen(get("/v1/jobs").by(anyone)).status()).isEqualTo(200);
        SiteResponse change = serveOpen(post("/v1/jobs", "{\"id\":\"1\"}").by(anyone));
        assertThat(change.status()).isEqualTo(403);
        assertThat(text(change)).contains("read-only");
        assertThat(calls).containsExactly("read jobs {} false");
    }

    @Test
    void change_needs_the_token_of_the_application_and_the_own_site() {
        String job = "{\"id\":\"1\",\"state\":\"retry\"}";
        assertRefused(post("/v1/jobs", job).withHeader("X-CSRF-TOKEN", null), 403, "csrf");
        assertRefused(post("/v1/jobs", job).withHeader("Sec-Fetch-Site", "cross-site"), 403, "csrf");
        assertRefused(post("/v1/jobs", job).withHeader("Sec-Fetch-Site", "same-site"), 403, "csrf");
        assertRefused(post("/v1/jobs", job).by(new Visitor("ada", ADMIN.permissions(), () -> null)), 403, "read-only");
        assertThat(calls).isEmpty();
        assertThat(serve(post("/v1/jobs", job).withHeader("Sec-Fetch-Site", "same-origin"))
                        .status())
                .isEqualTo(200);
        assertThat(calls).hasSize(1);
    }

    @Test
    void change_is_given_user_and_reason() {
        serve(post("/v1/crons", "{\"id\":\"a/b;c%\",\"state\":\"paused\",\"reason\":\"incident 7\"}"));
        assertThat(calls)
                .containsExactly(
                        "change paused crons/a/b;c% {reason=incident 7} Caller[seesValues=true, principal=ada, address=192.0.2.7, source=HTTP]");
    }

    @Test
    void change_needs_a_json_object_of_bounded_size_with_known_members() {
        for (String type :
                new String[] {"text/plain", "application/x-www-form-urlencoded", "application/jsonp", null}) {
            assertRefused(post("/v1/jobs", "{}").withHeader("Content-Type", type), 415, "invalid");
        }
        assertRefused(post("/v1/jobs", " ".repeat(SiteRequest.LARGEST_BODY + 1)), 413, "invalid");
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
            assertRefused(post("/v1/jobs", body), 400, "invalid");
        }
        assertRefused(post("/v1/jobs?id=1", "{}"), 400, "invalid");
        assertThat(calls).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/v1/jobs?nmae=x",
                "/v1/jobs?name=x&name=y",
                "/v1/jobs?name=%zz",
                "/v1/nodes?id=1",
                "/v1/session?x=1",
                "/v1/jobs?&",
                "/v1/overview?_=1"
            })
    void parameter_that_is_unknown_or_repeated_is_refused(String path) {
        assertRefused(get(path), 400, "invalid");
        assertThat(calls).isEmpty();
    }

    @Test
    void parameter_that_is_too_long_is_refused() {
        assertRefused(get("/v1/jobs?name=" + "x".repeat(1_001)), 400, "invalid");
        assertRefused(get("/v1/jobs?" + "name=&".repeat(2_000)), 400, "invalid");
        assertThat(calls).isEmpty();
    }

    @Test
    void callers_with_equal_permissions_share_a_read() {
        for (int i = 0; i < 50; i++) {
            serve(get("/v1/jobs?name=a&status=failed"));
            serve(get("/v1/jobs?status=failed&name=a"));
        }
        assertThat(calls.size()).isLessThan(50);
        serve(get("/v1/jobs?status=failed&name=a").by(VIEWER));
        assertThat(calls).contains("read jobs {name=a, status=failed} true", "read jobs {name=a, status=failed} false");
    }

    @Test
    void failure_of_a_read_discloses_nothing() {
        assertRefused(get("/v1/jobs?error=x"), 500, "failed");
        assertThat(text(serve(get("/v1/jobs?error=x")))).doesNotContain("4711");
    }

    @Test
    void outage_of_the_database_is_told_from_a_failure() {
        assertRefused(get("/v1/jobs?error=outage"), 503, "unavailable");
        assertThat(serve(get("/v1/jobs?error=outage")).headers()).containsEntry("Retry-After", "2");
        assertThat(text(serve(get("/v1/jobs?error=outage")))).doesNotContain("4711");
    }

    @Test
    void payload_may_be_longer_than_other_parameters() {
        String payload = "x".repeat(100_000);
        assertThat(serve(post("/v1/jobs", "{\"id\":\"1\",\"state\":\"retry\",\"payload\":\"%s\"}".formatted(payload)))
                        .status())
                .isEqualTo(200);
        assertThat(calls).singleElement().asString().contains(payload);
    }

    @Test
    void part_of_an_entry_needs_its_id() {
        assertRefused(get("/v1/jobs/logs"), 400, "invalid");
        assertThat(serve(get("/v1/jobs/logs?id=a%2Fb")).status()).isEqualTo(200);
        assertThat(calls).containsExactly("read jobs/a/b/logs {} true");
        assertRefused(post("/v1/jobs/logs", "{\"id\":\"1\",\"state\":\"x\"}"), 405, "invalid");
    }

    @Test
    void method_that_a_resource_does_not_have_is_refused() {
        assertRefused(post("/v1/session", "{}"), 405, "invalid");
        assertRefused(post("/v1/overview", "{}"), 405, "invalid");
        assertThat(serve(post("/v1/overview", "{}")).headers()).containsEntry("Allow", "GET, HEAD");
        assertRefused(post("/v1/locks", "{}"), 405, "invalid");
        assertThat(calls).isEmpty();
    }

    @Test
    void unknown_resource_is_not_found() {
        assertRefused(get("/v1/secrets"), 404, "not-found");
        assertRefused(get("/v2/jobs"), 404, "not-found");
        assertRefused(get(""), 404, "not-found");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{\"state\":\"cancelled\",\"reason\":\"r\",\"name\":\"mail\",\"group\":\"\"}",
                "{\"id\":\"\",\"state\":\"cancelled\",\"reason\":\"r\",\"name\":\"mail\"}"
            })
    void empty_condition_of_a_change_is_refused(String body) {
        SiteResponse response = serve(post("/v1/jobs", body).by(ADMIN));
        assertThat(response.status()).isEqualTo(400);
        assertThat(text(response)).contains("is empty");
    }
}
