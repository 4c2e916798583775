// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import org.aopalliance.intercept.MethodInvocation;
import org.reactivestreams.Publisher;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.web.filter.reactive.ServerWebExchangeContextFilter;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.ContextView;

/**
 * Limits methods that return a Mono or a Flux: when somebody subscribes, because only the subscriber knows the request, and away from
 * the event loop, because a bucket of the cluster is in the database.
 */
final class ReactiveLimit {

    private ReactiveLimit() {}

    static boolean isReactive(Method method) {
        return method.getReturnType() == Mono.class || method.getReturnType() == Flux.class;
    }

    /** Returns the result of the call for subscribers that the limit admits; others get a {@link RateLimitExceededException}. */
    static Object of(MethodInvocation call, String name, Callable<RateLimitDecision> limiter) {
        MethodInvocation initial = ((ProxyMethodInvocation) call).invocableClone();
        Mono<Void> admitted = Mono.deferContextual(context -> decision(limiter).flatMap(decision -> {
            tell(context, name, decision);
            return decision.allowed() ? Mono.empty() : Mono.error(new RateLimitExceededException(name, decision));
        }));
        return call.getMethod().getReturnType() == Mono.class
                ? admitted.then(Mono.defer(() -> Mono.from(proceed(initial))))
                : admitted.thenMany(Flux.defer(() -> proceed(initial)));
    }

    private static Mono<RateLimitDecision> decision(Callable<RateLimitDecision> limiter) {
        Mono<RateLimitDecision> decision = Mono.fromCallable(limiter);
        return Schedulers.isInNonBlockingThread() ? decision.subscribeOn(Schedulers.boundedElastic()) : decision;
    }

    /** Calls the method anew for each subscriber. */
    private static Publisher<?> proceed(MethodInvocation initial) {
        try {
            return (Publisher<?>) Objects.requireNonNull(
                    ((ProxyMethodInvocation) initial).invocableClone().proceed());
        } catch (Throwable e) {
            throw Exceptions.propagate(e);
        }
    }

    private static void tell(ContextView context, String name, RateLimitDecision decision) {
        ServerWebExchange exchange =
                ServerWebExchangeContextFilter.getExchange(context).orElse(null);
        if (exchange == null || exchange.getResponse().isCommitted()) {
            return;
        }
        Map<String, String> headers = RateLimitHeaders.of(exchange.getAttribute(RateLimitHeaders.TOLD), name, decision);
        if (!headers.isEmpty()) {
            exchange.getAttributes().put(RateLimitHeaders.TOLD, decision);
            headers.forEach(exchange.getResponse().getHeaders()::set);
        }
    }
}
