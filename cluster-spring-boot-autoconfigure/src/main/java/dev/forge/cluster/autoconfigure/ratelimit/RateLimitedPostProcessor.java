// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import dev.forge.cluster.ratelimit.RateLimited;
import dev.forge.cluster.ratelimit.RateLimiter;
import java.io.Serial;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.function.Supplier;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.util.ClassUtils;

/** Applies the limiter to {@link RateLimited} methods, outside of their transactions. */
final class RateLimitedPostProcessor extends AbstractBeanFactoryAwareAdvisingPostProcessor {

    @Serial
    private static final long serialVersionUID = 1L;

    RateLimitedPostProcessor(
            Supplier<RateLimiter> limiter, Supplier<RateLimitRules> rules, Supplier<RateLimitCaller> caller) {
        setBeforeExistingAdvisors(true);
        this.advisor = new DefaultPointcutAdvisor(
                new StaticMethodMatcherPointcut() {
                    @Override
                    public boolean matches(Method method, Class<?> type) {
                        return RateLimitRules.annotation(method, type) != null;
                    }
                },
                new Limit(limiter, rules, caller));
    }

    /** Returns whether calls of the bean pass the limiter. */
    static boolean limits(Object bean) {
        return bean instanceof Advised advised
                && Arrays.stream(advised.getAdvisors()).anyMatch(advisor -> advisor.getAdvice() instanceof Limit);
    }

    private record Limit(
            Supplier<RateLimiter> limiter, Supplier<RateLimitRules> rules, Supplier<RateLimitCaller> caller)
            implements MethodInterceptor {

        @Override
        @SuppressWarnings("NullAway") // A method may return null, though the interface does not say so.
        public @Nullable Object invoke(MethodInvocation call) throws Throwable {
            Object target = call.getThis();
            Class<?> type = target != null
                    ? ClassUtils.getUserClass(target)
                    : call.getMethod().getDeclaringClass();
            RateLimitRule rule = rules.get().of(call.getMethod(), type);
            String key = caller.get().key(rule, call);
            if (RateLimitCaller.REACTIVE
                    && ReactiveLimit.isReactive(call.getMethod())
                    && !RateLimitCaller.isInServletRequest()) {
                return ReactiveLimit.of(call, rule.name(), () -> acquire(rule, key));
            }
            RateLimitDecision decision = acquire(rule, key);
            RateLimitCaller.tell(rule.name(), decision);
            if (!decision.allowed()) {
                throw new RateLimitExceededException(rule.name(), decision);
            }
            return call.proceed();
        }

        private RateLimitDecision acquire(RateLimitRule rule, @Nullable String key) {
            return key == null
                    ? limiter.get().tryAcquire(rule.name(), rule.limit())
                    : limiter.get().tryAcquire(rule.name(), key, rule.limit());
        }
    }
}
