// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import jakarta.servlet.FilterChain;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Locale;
import java.util.function.Predicate;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.filter.OncePerRequestFilter;

/**
 * Rejects multipart bodies at the paths of the cluster. Spring MVC parses them before it selects a handler, so a malformed one would
 * cause status 500. Has no order, so it runs after the application's security filters.
 */
final class MultipartGuard extends OncePerRequestFilter {

    private final Predicate<String> ours;

    /** @param ours tests whether a path without the context path belongs to the cluster */
    MultipartGuard(Predicate<String> ours) {
        this.ours = ours;
    }

    @Override
    protected boolean shouldNotFilter(HttpServletRequest request) {
        String type = request.getContentType();
        String rest = request.getPathInfo();
        return type == null
                || !type.toLowerCase(Locale.ROOT).startsWith("multipart/")
                || !ours.test(request.getServletPath() + (rest == null ? "" : rest));
    }

    @Override
    protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException {
        var refusal = new Refusal(HttpStatus.UNSUPPORTED_MEDIA_TYPE, JsonBody.TYPE);
        response.setStatus(refusal.status().value());
        response.setContentType(MediaType.APPLICATION_PROBLEM_JSON_VALUE);
        response.getOutputStream().write(JsonBody.write(refusal.problem()));
    }
}
