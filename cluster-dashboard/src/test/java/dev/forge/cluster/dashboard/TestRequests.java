// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.autoconfigure.operations.web.Permission;
import dev.forge.cluster.autoconfigure.operations.web.SiteRequest;
import dev.forge.cluster.autoconfigure.operations.web.Visitor;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** Builds requests of tests. */
final class TestRequests {

    static final Visitor VIEWER = new Visitor("vic", Set.of(Permission.VIEW), () -> null);

    private TestRequests() {}

    static Request get(String address) {
        return new Request("GET", address);
    }

    static Request post(String address) {
        return new Request("POST", address);
    }

    /** A request that is being built. */
    static final class Request {

        private final Map<String, String> headers = new HashMap<>();
        private final String method;
        private final String address;
        private Visitor visitor = VIEWER;

        private Request(String method, String address) {
            this.method = method;
            this.address = address;
        }

        Request withHeader(String name, String value) {
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
                    new byte[0],
                    visitor);
        }
    }
}
