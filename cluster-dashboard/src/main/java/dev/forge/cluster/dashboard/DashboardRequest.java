// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.Locale;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A request to the dashboard, independent of the web stack.
 *
 * @param method the HTTP method
 * @param path the path behind that of the dashboard, as it was sent: empty, or with a leading slash
 * @param query the query string as it was sent; null without one
 * @param headers returns the first value of a header, null without one
 * @param address the network address of the client; null: unknown
 * @param body the body, cut off behind {@link #LARGEST_BODY} plus one byte; empty unless the visitor may change something
 * @param visitor the user
 */
@SuppressWarnings("ArrayRecordComponent") // neither compared nor changed
record DashboardRequest(
        String method,
        String path,
        @Nullable String query,
        Function<String, @Nullable String> headers,
        @Nullable String address,
        byte[] body,
        Visitor visitor) {

    /** As large as payloads usually are, which may be edited. */
    static final int LARGEST_BODY = 1024 * 1024;

    private static final String API = "/api/";

    /** Returns whether a request may need the CSRF token. Other requests must not touch the session. */
    static boolean mayNeedToken(String method, String path) {
        return method.equals("POST") || path.equals(DashboardApi.SESSION_PATH);
    }

    /** Returns whether the body of a request is read at all: nobody else may make the server store it. */
    static boolean needsBody(String method, Visitor visitor) {
        return method.equals("POST") && visitor.may(Permission.OPERATE);
    }

    boolean isApi() {
        return path.startsWith(API);
    }

    boolean isRead() {
        return method.equals("GET") || method.equals("HEAD");
    }

    @Nullable
    String header(String name) {
        return headers.apply(name);
    }

    boolean acceptsGzip() {
        String accepted = header("Accept-Encoding");
        return accepted != null
                && accepted.toLowerCase(Locale.ROOT).matches(".*\\bgzip\\b(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$)).*");
    }
}
