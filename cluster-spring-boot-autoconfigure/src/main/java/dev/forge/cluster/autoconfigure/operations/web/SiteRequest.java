// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import java.util.Locale;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A request to a {@link Site}, independent of the web stack.
 *
 * @param method the HTTP method
 * @param path the path behind that of the site, as it was sent: empty, or with a leading slash
 * @param query the query string as it was sent; null without one
 * @param headers returns the first value of a header, null without one
 * @param address the network address of the client; null: unknown
 * @param body the body, cut off behind {@link #LARGEST_BODY} plus one byte; empty unless the visitor may change something
 * @param visitor the user
 */
@SuppressWarnings("ArrayRecordComponent") // neither compared nor changed
public record SiteRequest(
        String method,
        String path,
        @Nullable String query,
        Function<String, @Nullable String> headers,
        @Nullable String address,
        byte[] body,
        Visitor visitor) {

    /** As large as payloads usually are, which may be edited. */
    public static final int LARGEST_BODY = 1024 * 1024;

    /** Returns whether a request may need the CSRF token. Other requests must not touch the session. */
    static boolean mayNeedToken(String method, String path) {
        return method.equals("POST") || path.endsWith(OperationsApi.SESSION_PATH);
    }

    /** Returns whether the body of a request is read at all: nobody else may make the server store it. */
    static boolean needsBody(String method, Visitor visitor) {
        return method.equals("POST") && visitor.may(Permission.OPERATE);
    }

    /** Returns the request as a part of the site sees it: the path begins behind that prefix. */
    public SiteRequest below(String prefix) {
        return new SiteRequest(method, path.substring(prefix.length()), query, headers, address, body, visitor);
    }

    /** Returns whether the request changes nothing. */
    public boolean isRead() {
        return method.equals("GET") || method.equals("HEAD");
    }

    /** Returns the first value of a header; null without one. */
    public @Nullable String header(String name) {
        return headers.apply(name);
    }

    /** Returns whether the response may be compressed. */
    public boolean acceptsGzip() {
        String accepted = header("Accept-Encoding");
        return accepted != null
                && accepted.toLowerCase(Locale.ROOT).matches(".*\\bgzip\\b(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$)).*");
    }
}
