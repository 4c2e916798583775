// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.handler.AnnotatedMethods;
import dev.forge.cluster.autoconfigure.handler.AttributeException;
import dev.forge.cluster.autoconfigure.handler.AttributeReader;
import dev.forge.cluster.ratelimit.RateLimited;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.expression.AnnotatedElementKey;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.util.ReflectionUtils;

/** The rules of {@link RateLimited} methods. All are read at the start, so that an invalid one fails the start. */
final class RateLimitRules implements SmartInitializingSingleton {

    private final ConfigurableListableBeanFactory beans;
    private final AttributeReader attributes;
    private final RateLimitCaller callers;
    private final Map<AnnotatedElementKey, RateLimitRule> rules = new ConcurrentHashMap<>();

    RateLimitRules(ConfigurableListableBeanFactory beans, RateLimitCaller callers) {
        this.beans = beans;
        this.attributes = new AttributeReader(beans);
        this.callers = callers;
    }

    /** Returns the rule of a method: its own annotation or, for a public method, that of its class. */
    static @Nullable RateLimited annotation(Method method, Class<?> type) {
        Method specific = AopUtils.getMostSpecificMethod(method, type);
        if (ReflectionUtils.isObjectMethod(specific) || specific.isSynthetic()) {
            return null;
        }
        RateLimited own = AnnotatedElementUtils.findMergedAnnotation(specific, RateLimited.class);
        int modifiers = specific.getModifiers();
        return own != null || !Modifier.isPublic(modifiers) || Modifier.isStatic(modifiers)
                ? own
                : AnnotatedElementUtils.findMergedAnnotation(type, RateLimited.class);
    }

    RateLimitRule of(Method method, Class<?> type) {
        // The name of the class of a JDK proxy differs between nodes.
        Method declared = Proxy.isProxyClass(type) ? declared(method, type) : method;
        Class<?> owner = Proxy.isProxyClass(type) ? declared.getDeclaringClass() : type;
        return rules.computeIfAbsent(new AnnotatedElementKey(declared, owner), key -> read(declared, owner));
    }

    private static Method declared(Method method, Class<?> proxy) {
        for (Class<?> face : proxy.getInterfaces()) {
            Method candidate = ReflectionUtils.findMethod(face, method.getName(), method.getParameterTypes());
            if (candidate != null && annotation(candidate, face) != null) {
                return candidate;
            }
        }
        return method;
    }

    private RateLimitRule read(Method method, Class<?> type) {
        RateLimited limited = annotation(method, type);
        if (limited == null) {
            throw new IllegalStateException(type.getName() + "." + method.getName() + " is not limited");
        }
        try {
            RateLimitRule rule =
                    RateLimitRule.of(limited, type, AopUtils.getMostSpecificMethod(method, type), attributes);
            callers.require(rule);
            return rule;
        } catch (IllegalArgumentException e) {
            throw refusal(type, method, e.getMessage(), e);
        }
    }

    @Override
    public void afterSingletonsInstantiated() {
        Map<String, RateLimitRule> byName = new HashMap<>();
        AnnotatedMethods.types(beans).forEach((bean, type) -> {
            ReflectionUtils.doWithMethods(
                    type,
                    method -> {
                        refuseUnlessProxied(bean, type, method);
                        RateLimitRule rule = of(method, type);
                        RateLimitRule other = byName.putIfAbsent(rule.name(), rule);
                        if (other != null) {
                            refuseUnlessShared(type, method, rule, other);
                        }
                    },
                    method -> !method.isBridge() && annotation(method, type) != null && isOwn(method, type));
        });
    }

    /** Ignores the annotation of an overridden method. */
    private static boolean isOwn(Method method, Class<?> type) {
        return AopUtils.getMostSpecificMethod(method, type).equals(method);
    }

    private void refuseUnlessProxied(String bean, Class<?> type, Method method) {
        int modifiers = method.getModifiers();
        // Methods of a JDK proxy are final, but callers use those of its interfaces.
        boolean hidden = Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers) || Modifier.isFinal(modifiers);
        if (hidden && !Proxy.isProxyClass(type)) {
            throw refusal(type, method, "it is private, static or final, so its calls bypass the proxy", null);
        }
        // The post-processor sees all beans that are created later.
        if (beans.containsSingleton(bean) && !RateLimitedPostProcessor.limits(beans.getBean(bean))) {
            throw refusal(
                    type,
                    method,
                    "calls of bean '%s' bypass the limiter: the bean was created too early, or has a proxy of its own"
                            .formatted(bean),
                    null);
        }
    }

    private static void refuseUnlessShared(Class<?> type, Method method, RateLimitRule rule, RateLimitRule other) {
        // Overloads share one limit.
        if ((!rule.named() || !other.named()) && !rule.place().equals(other.place())) {
            throw refusal(
                    type, method, "its derived name %s is that of %s, too".formatted(rule.name(), other.place()), null);
        }
        if (!rule.isLike(other)) {
            throw refusal(
                    type,
                    method,
                    "it has the same name %s as %s, but another limit".formatted(rule.name(), other.place()),
                    null);
        }
    }

    private static ClusterStartupException refusal(
            Class<?> type, Method method, @Nullable String reason, @Nullable RuntimeException cause) {
        String message = "@RateLimited on %s.%s: %s".formatted(type.getName(), method.getName(), reason);
        String usual =
                "Set requests and per, and a key or an expression for separate buckets. Set name if classes and methods"
                        + " have the same names.";
        String action = cause == null ? usual : AttributeException.action(cause, usual);
        return cause == null
                ? new ClusterStartupException(message, action)
                : new ClusterStartupException(message, action, cause);
    }
}
