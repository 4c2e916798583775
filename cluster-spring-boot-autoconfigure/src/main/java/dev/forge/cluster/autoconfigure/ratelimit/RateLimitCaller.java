// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.autoconfigure.ClientAddress;
import dev.forge.cluster.autoconfigure.properties.value.AddressRange;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimitKey;
import jakarta.servlet.http.HttpServletResponse;
import java.lang.reflect.Method;
import java.security.Principal;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.expression.EvaluationException;
import org.springframework.expression.Expression;
import org.springframework.security.authentication.AuthenticationTrustResolver;
import org.springframework.security.authentication.AuthenticationTrustResolverImpl;
import org.springframework.security.core.Authentication;
import org.springframework.security.core.context.SecurityContextHolder;
import org.springframework.util.ClassUtils;
import org.springframework.web.context.request.RequestContextHolder;
import org.springframework.web.context.request.ServletRequestAttributes;

/** Determines the caller of a limited method, and reports the state of its bucket in the response. */
final class RateLimitCaller {

    private static final ClassLoader LOADER = RateLimitCaller.class.getClassLoader();
    private static final boolean SERVLET =
            ClassUtils.isPresent("org.springframework.web.context.request.ServletRequestAttributes", LOADER)
                    && ClassUtils.isPresent("jakarta.servlet.http.HttpServletRequest", LOADER);

    /** Whether {@link ReactiveLimit} can be used. */
    static final boolean REACTIVE = ClassUtils.isPresent("reactor.core.publisher.Mono", LOADER)
            && ClassUtils.isPresent("org.springframework.web.filter.reactive.ServerWebExchangeContextFilter", LOADER);

    private static final boolean SECURITY =
            ClassUtils.isPresent("org.springframework.security.core.context.SecurityContextHolder", LOADER);

    private final BeanFactory beans;
    private final List<AddressRange> trusted;
    private final ParameterNameDiscoverer parameters = new DefaultParameterNameDiscoverer();

    RateLimitCaller(BeanFactory beans, List<AddressRange> trusted) {
        this.beans = beans;
        this.trusted = trusted;
    }

    /** @throws IllegalArgumentException if this application can never determine the caller */
    void require(RateLimitRule rule) {
        if (rule.key() == RateLimitKey.IP && !SERVLET) {
            throw new IllegalArgumentException("key (IP): addresses are known only with Spring MVC");
        }
        if (rule.key() == RateLimitKey.USER && !SERVLET && !SECURITY) {
            throw new IllegalArgumentException("key (USER): users are known only with Spring MVC or Spring Security");
        }
    }

    /** Returns the key of the bucket; null for the bucket of all callers. */
    @Nullable
    String key(RateLimitRule rule, MethodInvocation call) {
        if (rule.expression() != null) {
            return evaluate(rule, call);
        }
        return switch (rule.key()) {
            case GLOBAL -> null;
            case USER -> {
                String user = user();
                yield user != null ? "user:" + user : address(rule);
            }
            case IP -> address(rule);
        };
    }

    private String evaluate(RateLimitRule rule, MethodInvocation call) {
        Object target = call.getThis();
        Method method = target == null
                ? call.getMethod()
                : ClassUtils.getMostSpecificMethod(call.getMethod(), ClassUtils.getUserClass(target));
        var context = new MethodBasedEvaluationContext(
                target != null ? target : call, method, call.getArguments(), parameters);
        context.setBeanResolver(new BeanFactoryResolver(beans));
        Expression expression = Objects.requireNonNull(rule.expression());
        Object value;
        try {
            value = expression.getValue(context);
        } catch (EvaluationException e) {
            throw new IllegalStateException(
                    "@RateLimited on %s: expression (%s) cannot be evaluated: %s"
                            .formatted(rule.place(), expression.getExpressionString(), e.getMessage()),
                    e);
        }
        if (value == null) {
            throw new IllegalStateException("@RateLimited on %s: expression (%s) is null, so there is no bucket"
                    .formatted(rule.place(), expression.getExpressionString()));
        }
        return value.toString();
    }

    private static @Nullable String user() {
        String user = SECURITY ? Security.user() : null;
        return user == null && SERVLET ? Web.user() : user;
    }

    private String address(RateLimitRule rule) {
        String address = SERVLET ? Web.address(trusted) : null;
        if (address == null) {
            throw new IllegalStateException("@RateLimited on %s: key (%s), but it was called outside of a request"
                    .formatted(rule.place(), rule.key()));
        }
        return "ip:" + address;
    }

    /** Returns whether this thread serves a request of Spring MVC. */
    static boolean isInServletRequest() {
        return SERVLET && Web.current() != null;
    }

    /** Adds the headers to the response of the current request, if there is one. */
    static void tell(String name, RateLimitDecision decision) {
        if (SERVLET) {
            Web.tell(name, decision);
        }
    }

    /** A class of its own, because Spring MVC may be absent. */
    private static final class Web {

        private static @Nullable ServletRequestAttributes current() {
            return RequestContextHolder.getRequestAttributes() instanceof ServletRequestAttributes current
                    ? current
                    : null;
        }

        static @Nullable String user() {
            ServletRequestAttributes current = current();
            Principal principal = current == null ? null : current.getRequest().getUserPrincipal();
            return principal == null ? null : principal.getName();
        }

        static @Nullable String address(List<AddressRange> trusted) {
            ServletRequestAttributes current = current();
            return current == null ? null : new ClientAddress(trusted).of(current.getRequest());
        }

        static void tell(String name, RateLimitDecision decision) {
            ServletRequestAttributes current = current();
            HttpServletResponse response = current == null ? null : current.getResponse();
            if (current == null || response == null) {
                return;
            }
            Map<String, String> headers =
                    RateLimitHeaders.of(current.getRequest().getAttribute(RateLimitHeaders.TOLD), name, decision);
            if (!headers.isEmpty()) {
                current.getRequest().setAttribute(RateLimitHeaders.TOLD, decision);
                headers.forEach(response::setHeader);
            }
        }
    }

    /** A class of its own, because Spring Security may be absent. */
    private static final class Security {

        private static final AuthenticationTrustResolver TRUST = new AuthenticationTrustResolverImpl();

        static @Nullable String user() {
            Authentication authentication = SecurityContextHolder.getContext().getAuthentication();
            return authentication != null && TRUST.isAuthenticated(authentication) ? authentication.getName() : null;
        }
    }
}
