// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.core.Ordered;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferLimitException;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpMethod;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Connects sites to WebFlux: a filter behind those of Spring Security. Sites read a database, so they run on threads that may block.
 */
final class ReactiveRoutes implements WebFilter, Ordered {

    private final List<Site> sites;
    private final Function<ServerWebExchange, Mono<Visitor>> visitors;

    ReactiveRoutes(List<Site> sites, Function<ServerWebExchange, Mono<Visitor>> visitors) {
        this.sites = List.copyOf(sites);
        this.visitors = visitors;
    }

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        String path = exchange.getRequest().getPath().pathWithinApplication().value();
        return sites.stream()
                .filter(site -> path.equals(site.path()) || path.startsWith(site.path() + "/"))
                .findFirst()
                .map(site -> serve(site, path, exchange))
                .orElseGet(() -> chain.filter(exchange));
    }

    private Mono<Void> serve(Site site, String path, ServerWebExchange exchange) {
        ServerHttpRequest request = exchange.getRequest();
        return visitors.apply(exchange)
                .flatMap(visitor -> body(request, visitor)
                        .publishOn(Schedulers.boundedElastic())
                        .map(body -> site.serve(new SiteRequest(
                                request.getMethod().name(),
                                path.substring(site.path().length()),
                                request.getURI().getRawQuery(),
                                request.getHeaders()::getFirst,
                                address(request),
                                body,
                                visitor))))
                .flatMap(response -> write(response, exchange));
    }

    private static @Nullable String address(ServerHttpRequest request) {
        InetSocketAddress remote = request.getRemoteAddress();
        return remote == null ? null : remote.getHostString();
    }

    private static Mono<byte[]> body(ServerHttpRequest request, Visitor visitor) {
        if (!SiteRequest.needsBody(request.getMethod().name(), visitor)) {
            return Mono.just(new byte[0]);
        }
        return DataBufferUtils.join(request.getBody(), SiteRequest.LARGEST_BODY)
                .map(buffer -> {
                    byte[] bytes = new byte[buffer.readableByteCount()];
                    buffer.read(bytes);
                    DataBufferUtils.release(buffer);
                    return bytes;
                })
                .onErrorReturn(DataBufferLimitException.class, new byte[SiteRequest.LARGEST_BODY + 1])
                .defaultIfEmpty(new byte[0]);
    }

    private static Mono<Void> write(SiteResponse response, ServerWebExchange exchange) {
        ServerHttpResponse answer = exchange.getResponse();
        answer.setStatusCode(HttpStatusCode.valueOf(response.status()));
        response.allHeaders().forEach(answer.getHeaders()::set);
        if (response.status() != 304) {
            answer.getHeaders().setContentLength(response.body().length);
        }
        if (exchange.getRequest().getMethod().equals(HttpMethod.HEAD) || response.body().length == 0) {
            return answer.setComplete();
        }
        DataBuffer buffer = answer.bufferFactory().wrap(response.body());
        return answer.writeWith(Mono.just(buffer));
    }

    @Override
    public int getOrder() {
        return Ordered.LOWEST_PRECEDENCE;
    }
}
