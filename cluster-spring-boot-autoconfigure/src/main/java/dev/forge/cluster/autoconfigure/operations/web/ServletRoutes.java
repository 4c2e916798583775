// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.web.servlet.ModelAndView;
import org.springframework.web.servlet.function.RequestPredicates;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.RouterFunctions;
import org.springframework.web.servlet.function.ServerRequest;
import org.springframework.web.servlet.function.ServerResponse;

/** Connects a site to Spring MVC. */
final class ServletRoutes {

    private final String base;
    private final Site site;
    private final Function<HttpServletRequest, Visitor> visitors;

    ServletRoutes(Site site, Function<HttpServletRequest, Visitor> visitors) {
        this.base = site.path();
        this.site = site;
        this.visitors = visitors;
    }

    RouterFunction<ServerResponse> routes() {
        return RouterFunctions.route(
                RequestPredicates.path(base).or(RequestPredicates.path(base + "/**")), this::serve);
    }

    private ServerResponse serve(ServerRequest request) throws IOException {
        HttpServletRequest servlet = request.servletRequest();
        String path = request.requestPath().pathWithinApplication().value();
        if (!path.startsWith(base)) {
            return ServerResponse.notFound().build(); // parts of the base are percent-encoded
        }
        Visitor visitor = visitors.apply(servlet);
        byte[] body = SiteRequest.needsBody(request.method().name(), visitor)
                ? servlet.getInputStream().readNBytes(SiteRequest.LARGEST_BODY + 1)
                : new byte[0];
        SiteResponse response = site.serve(new SiteRequest(
                request.method().name(),
                path.substring(base.length()),
                servlet.getQueryString(),
                servlet::getHeader,
                servlet.getRemoteAddr(),
                body,
                visitor));
        var builder = ServerResponse.status(response.status());
        response.allHeaders().forEach((name, value) -> builder.header(name, value));
        if (response.status() != 304) {
            builder.contentLength(response.body().length);
        }
        return builder.build((written, answer) -> {
            answer.getOutputStream().write(response.body());
            return nothing();
        });
    }

    /** No view. */
    private static @Nullable ModelAndView nothing() {
        return null;
    }
}
