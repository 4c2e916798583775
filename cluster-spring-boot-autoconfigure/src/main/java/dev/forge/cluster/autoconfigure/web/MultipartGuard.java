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
 * Refuses multipart bodies at our paths. Spring MVC takes these apart before it asks who will answer, so that a malformed one
 * would be a 500. Without an order of its own, hence behind the application's security.
 */
final class MultipartGuard extends OncePerRequestFilter {

    private final Predicate<String> ours;

    /** @param ours whether a path, without the context's, is one of ours */
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
