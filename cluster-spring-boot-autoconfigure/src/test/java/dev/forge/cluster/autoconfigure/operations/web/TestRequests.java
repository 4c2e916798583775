// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.autoconfigure.operations.web.Visitor.Csrf;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Builds requests of tests. */
final class TestRequests {

    static final Visitor ADMIN =
            new Visitor("ada", Set.of(Permission.values()), () -> new Csrf("X-CSRF-TOKEN", "secret"));
    static final Visitor VIEWER = new Visitor("vic", Set.of(Permission.VIEW), () -> new Csrf("X-CSRF-TOKEN", "secret"));
    static final Visitor STRANGER = new Visitor("sam", Set.of(), () -> null);
    static final Visitor NOBODY = new Visitor(null, Set.of(), () -> null);

    private TestRequests() {}

    static Request get(String path) {
        return new Request("GET", path, ADMIN, new byte[0]);
    }

    static Request post(String path, String json) {
        return new Request("POST", path, ADMIN, json.getBytes(StandardCharsets.UTF_8))
                .withHeader("Content-Type", "application/json")
                .withHeader("X-CSRF-TOKEN", "secret");
    }

    /** A request that is being built. */
    static final class Request {

        private final Map<String, String> headers = new HashMap<>();
        private final String method;
        private final String address;
        private final byte[] body;
        private Visitor visitor;

        private Request(String method, String address, Visitor visitor, byte[] body) {
            this.method = method;
            this.address = address;
            this.visitor = visitor;
            this.body = body;
        }

        Request withHeader(String name, @Nullable String value) {
            headers.put(name, value);
            return this;
        }

        Request by(Visitor other) {
            visitor = other;
            return this;
        }

        SiteRequest build() {
            int query = address.indexOf('?');
            return new SiteRequest(
                    method,
                    query < 0 ? address : address.substring(0, query),
                    query < 0 ? null : address.substring(query + 1),
                    headers::get,
                    "192.0.2.7",
                    body,
                    visitor);
        }
    }
}
