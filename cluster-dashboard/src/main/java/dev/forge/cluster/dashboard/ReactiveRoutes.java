// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.function.Function;
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
        return Mono.zip(visitors.apply(exchange), body(request))
                .publishOn(Schedulers.boundedElastic())
                .map(both -> dashboard.serve(new DashboardRequest(
                        request.getMethod().name(),
                        path.substring(base.length()),
                        request.getURI().getRawQuery(),
                        request.getHeaders()::getFirst,
                        both.getT2(),
                        both.getT1())))
                .flatMap(response -> write(response, exchange));
    }

    private static Mono<byte[]> body(ServerHttpRequest request) {
        if (!request.getMethod().equals(HttpMethod.POST)) {
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
