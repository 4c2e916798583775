// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.net.InetSocketAddress;
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
 * Connects the dashboard to WebFlux: a filter behind those of Spring Security. The dashboard reads a database, so it runs on threads
 * that may block.
 */
final class ReactiveRoutes implements WebFilter, Ordered {

    private final String base;
    private final Dashboard dashboard;
    private final Function<ServerWebExchange, Mono<Visitor>> visitors;

    ReactiveRoutes(String base, Dashboard dashboard, Function<ServerWebExchange, Mono<Visitor>> visitors) {
        this.base = base;
        this.dashboard = dashboard;
        this.visitors = visitors;
    }

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        ServerHttpRequest request = exchange.getRequest();
        String path = request.getPath().pathWithinApplication().value();
        if (!path.equals(base) && !path.startsWith(base + "/")) {
            return chain.filter(exchange);
        }
        return visitors.apply(exchange)
                .flatMap(visitor -> body(request, visitor)
                        .publishOn(Schedulers.boundedElastic())
                        .map(body -> dashboard.serve(new DashboardRequest(
                                request.getMethod().name(),
                                path.substring(base.length()),
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
        if (!DashboardRequest.needsBody(request.getMethod().name(), visitor)) {
            return Mono.just(new byte[0]);
        }
        return DataBufferUtils.join(request.getBody(), DashboardRequest.LARGEST_BODY)
                .map(buffer -> {
                    byte[] bytes = new byte[buffer.readableByteCount()];
                    buffer.read(bytes);
                    DataBufferUtils.release(buffer);
                    return bytes;
                })
                .onErrorReturn(DataBufferLimitException.class, new byte[DashboardRequest.LARGEST_BODY + 1])
                .defaultIfEmpty(new byte[0]);
    }

    private static Mono<Void> write(DashboardResponse response, ServerWebExchange exchange) {
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
