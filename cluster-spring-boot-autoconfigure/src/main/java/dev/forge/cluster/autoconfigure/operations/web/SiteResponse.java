// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A response of a {@link Site}, independent of the web stack.
 *
 * @param status the HTTP status
 * @param headers the headers, without those that all responses have
 * @param body the body; may be empty
 */
@SuppressWarnings("ArrayRecordComponent") // neither compared nor changed
public record SiteResponse(int status, Map<String, String> headers, byte[] body) {

    /** Nothing inline, nothing from elsewhere, and no page may frame a site. */
    private static final Map<String, String> ALWAYS = Map.of(
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
                    + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "X-Frame-Options",
            "DENY",
            "X-Content-Type-Options",
            "nosniff",
            "Referrer-Policy",
            "no-referrer",
            "Cross-Origin-Resource-Policy",
            "same-origin");

    /** Returns a copy with a header. */
    public SiteResponse withHeader(String name, String value) {
        var changed = new LinkedHashMap<>(headers);
        changed.put(name, value);
        return new SiteResponse(status, changed, body);
    }

    /** Returns all headers to send. */
    public Map<String, String> allHeaders() {
        var all = new LinkedHashMap<>(ALWAYS);
        all.putAll(headers);
        return all;
    }
}
