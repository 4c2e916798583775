// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.Page;
import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.web.Access;
import dev.forge.cluster.autoconfigure.operations.web.OperationsApi;
import dev.forge.cluster.autoconfigure.operations.web.Permission;
import dev.forge.cluster.autoconfigure.operations.web.SiteResponse;
import dev.forge.cluster.autoconfigure.operations.web.Visitor;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.springframework.security.access.AccessDeniedException;

/** The site without a web stack and without a cluster. */
class DashboardTests {

    private static final Visitor STRANGER = new Visitor("sam", Set.of(), () -> null);
    private static final Visitor NOBODY = new Visitor(null, Set.of(), () -> null);

    private final Dashboard secured = dashboard(Access.SECURED);

    private static Dashboard dashboard(Access access) {
        var about = new OperationsApi.About("orders", "1.0", "id", "node-1", null);
        var api = new OperationsApi(
                access, new ClusterOperations(new NoTrail(), List.of()), () -> about, System::nanoTime);
        return new Dashboard("/forge/dashboard", access, Assets.load(), api);
    }

    private static final class NoTrail implements AuditTrail {

        @Override
        public <T extends @Nullable Object> T as(Operator operator, @Nullable String reason, Supplier<T> operation) {
            return operation.get();
        }

        @Override
        public Page<AuditEntry> list(AuditFilter filter, int limit, @Nullable String cursor) {
            return new Page<>(List.of(), null);
        }
    }

    private SiteResponse serve(TestRequests.Request request) {
        return secured.serve(request.build());
    }

    @Test
    void every_response_has_the_security_headers() {
        for (String address :
                List.of("", "/", "/assets/0/app.js", "/nothing", "/api/v1/session", "/api/v1/x", "/api/x")) {
            assertThat(serve(TestRequests.get(address)).allHeaders())
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
        SiteResponse response = serve(TestRequests.get("?page=jobs"));
        assertThat(response.status()).isEqualTo(302);
        assertThat(response.headers()).containsEntry("Location", "dashboard/?page=jobs");
    }

    @Test
    void page_is_left_to_the_security_of_the_application_without_permission() {
        for (Visitor visitor : List.of(NOBODY, STRANGER)) {
            assertThatThrownBy(() -> serve(TestRequests.get("/").by(visitor)))
                    .isInstanceOf(AccessDeniedException.class);
        }
        assertThat(serve(TestRequests.get("/")).status()).isEqualTo(200);
    }

    @Test
    void application_without_spring_security_shows_the_page_to_everybody() {
        var anyone = new Visitor(null, Set.of(Permission.VIEW), () -> null);
        assertThat(dashboard(Access.OPEN)
                        .serve(TestRequests.get("/").by(anyone).build())
                        .status())
                .isEqualTo(200);
    }

    @Test
    void api_is_served_below_the_page() {
        assertThat(new String(serve(TestRequests.get("/api/v1/session")).body(), StandardCharsets.UTF_8))
                .contains("\"cluster\":\"orders\"", "\"user\":\"vic\"");
        assertThat(serve(TestRequests.get("/api/v1/session").by(NOBODY)).status())
                .isEqualTo(401);
        assertThat(serve(TestRequests.get("/api/v2/session")).status()).isEqualTo(404);
    }

    @Test
    void other_methods_and_files_are_refused() {
        assertThat(serve(TestRequests.post("/")).status()).isEqualTo(405);
        assertThat(serve(TestRequests.get("/favicon.ico")).status()).isEqualTo(404);
    }
}
