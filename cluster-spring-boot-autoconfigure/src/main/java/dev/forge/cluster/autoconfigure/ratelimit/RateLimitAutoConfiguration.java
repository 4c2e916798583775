// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.autoconfigure.properties.web.RateLimitProperties;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.ratelimit.RateLimitStore;
import dev.forge.cluster.internal.ratelimit.RateLimits;
import dev.forge.cluster.internal.ratelimit.SharedBuckets;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.ratelimit.RateLimiterBackend;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;
import org.springframework.web.filter.reactive.ServerWebExchangeContextFilter;
import org.springframework.web.servlet.HandlerExceptionResolver;
import org.springframework.web.servlet.ModelAndView;
import reactor.core.publisher.Mono;

/** Configures rate limits. */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration")
@Conditional(OnClusterEnabled.class)
public final class RateLimitAutoConfiguration {

    @Bean
    @Order(ComponentOrder.CLEAN_UP)
    BucketCleanUp clusterBucketCleanUp(Schema schema, NodeRuntime runtime) {
        return new BucketCleanUp(new RateLimitStore(schema, runtime.control()));
    }

    /** Concurrent calls share one statement, so more connections would only wait for the same rows. */
    private static final int CONNECTIONS = 1;

    @Bean
    @ConditionalOnMissingBean(RateLimiterBackend.class)
    SharedBuckets clusterSharedBuckets(Schema schema, NodeRuntime runtime) {
        return new SharedBuckets(schema, runtime.control().apart(CONNECTIONS));
    }

    @Bean
    @ConditionalOnMissingBean
    RateLimiter clusterRateLimiter(
            ClusterProperties properties, RateLimiterBackend backend, ObjectProvider<RateLimitMonitor> monitors) {
        RateLimitProperties limits = properties.rateLimit();
        return new RateLimits(
                new RateLimits.Settings(
                        limits.mode() == RateLimitProperties.Mode.STRICT,
                        RateLimits.Loss.valueOf(limits.onDatabaseLoss().name()),
                        limits.maxLocalBuckets()),
                backend,
                name -> monitors.forEach(monitor -> monitor.accept(name)));
    }

    @Bean
    RateLimitCaller clusterRateLimitCaller(ClusterProperties properties, BeanFactory beans) {
        return new RateLimitCaller(beans, properties.rateLimit().trustedRanges());
    }

    @Bean
    RateLimitRules clusterRateLimitRules(ConfigurableListableBeanFactory beans, RateLimitCaller caller) {
        return new RateLimitRules(beans, caller);
    }

    // Static and with lazy dependencies, because a bean post-processor is created before other beans.
    @Bean
    static RateLimitedPostProcessor clusterRateLimitedPostProcessor(
            ObjectProvider<RateLimiter> limiter,
            ObjectProvider<RateLimitRules> rules,
            ObjectProvider<RateLimitCaller> caller) {
        return new RateLimitedPostProcessor(limiter::getObject, rules::getObject, caller::getObject);
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    @ConditionalOnBean(MeterRegistry.class)
    static class MeterConfiguration {

        @Bean
        RateLimitMonitor clusterRateLimitMeters(MeterRegistry registry, ClusterAutoConfiguration.ClusterName name) {
            return limit -> Counter.builder("forge.cluster.ratelimit.rejections")
                    .description("Calls that a limit denied on this node")
                    .tag("cluster", name.text())
                    .tag("limit", limit)
                    .register(registry)
                    .increment();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({RestControllerAdvice.class, ProblemDetail.class})
    @ConditionalOnWebApplication
    static class AnswerConfiguration {

        @Bean
        @ConditionalOnMissingBean
        RateLimitAdvice clusterRateLimitAdvice() {
            return new RateLimitAdvice();
        }
    }

    /** Ordered before exception handlers that treat every exception as a failure of the application. */
    @Order(0)
    @RestControllerAdvice
    static final class RateLimitAdvice {

        @ExceptionHandler
        ResponseEntity<ProblemDetail> tooManyRequests(RateLimitExceededException denied) {
            long seconds = retryAfter(denied);
            ProblemDetail problem = ProblemDetail.forStatusAndDetail(
                    HttpStatus.TOO_MANY_REQUESTS,
                    "At most %d calls per %s. Try again in %d s."
                            .formatted(
                                    denied.decision().limit().requests(),
                                    PropertyRules.text(denied.decision().limit().per()),
                                    seconds));
            problem.setProperty("limit", denied.limitName());
            problem.setProperty("retryAfterSeconds", seconds);
            return ResponseEntity.status(HttpStatus.TOO_MANY_REQUESTS)
                    .header(HttpHeaders.RETRY_AFTER, String.valueOf(seconds))
                    .contentType(MediaType.APPLICATION_PROBLEM_JSON)
                    .body(problem);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({ServerWebExchangeContextFilter.class, Mono.class})
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
    static class ReactiveConfiguration {

        /** Lets limits find the response of their subscriber. */
        @Bean
        @ConditionalOnMissingBean
        ServerWebExchangeContextFilter clusterExchangeContextFilter() {
            return new ServerWebExchangeContextFilter();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HandlerExceptionResolver.class, HttpServletResponse.class})
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    static class FallbackConfiguration {

        @Bean
        Fallback clusterRateLimitFallback() {
            return new Fallback();
        }
    }

    /** For handlers that are not controllers: an advice does not see their exceptions. */
    static final class Fallback implements HandlerExceptionResolver, Ordered {

        private static final Logger log = LoggerFactory.getLogger(Fallback.class);

        @Override
        public @Nullable ModelAndView resolveException(
                HttpServletRequest request, HttpServletResponse response, @Nullable Object handler, Exception e) {
            if (!(e instanceof RateLimitExceededException denied)) {
                return null;
            }
            try {
                response.setHeader(HttpHeaders.RETRY_AFTER, String.valueOf(retryAfter(denied)));
                response.sendError(HttpStatus.TOO_MANY_REQUESTS.value());
            } catch (IOException gone) {
                log.debug("Client disconnected before it received the response of a denied call", gone);
            }
            return new ModelAndView();
        }

        @Override
        public int getOrder() {
            return LOWEST_PRECEDENCE;
        }
    }

    private static long retryAfter(RateLimitExceededException denied) {
        return Math.max(1, PropertyRules.wholeSeconds(denied.decision().retryAfter()));
    }
}
