// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.autoconfigure.handler.AttributeReader;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitKey;
import dev.forge.cluster.ratelimit.RateLimited;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.Assign;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.util.ClassUtils;

/**
 * The attributes of a {@link RateLimited}.
 *
 * @param named whether the name is set, and not derived from the method
 * @param expression replaces the key
 */
record RateLimitRule(
        String name,
        boolean named,
        RateLimitKey key,
        @Nullable Expression expression,
        RateLimit limit,
        String place) {

    private static final ParameterNameDiscoverer PARAMETERS = new DefaultParameterNameDiscoverer();
    private static final SpelExpressionParser PARSER = new SpelExpressionParser();

    /** @throws IllegalArgumentException naming the invalid attribute */
    static RateLimitRule of(RateLimited limited, Class<?> type, Method method, AttributeReader attributes) {
        String name = attributes.textOrNull(limited.name());
        Expression expression =
                attributes.valueOrNull("expression", limited.expression(), RateLimitRule::expression, null);
        if (expression != null && limited.key() != RateLimitKey.GLOBAL) {
            throw new IllegalArgumentException("it has both key (%s) and expression (%s)"
                    .formatted(limited.key(), expression.getExpressionString()));
        }
        if (expression != null) {
            requireKnownVariables(expression, method);
        }
        long requests = required(
                attributes,
                "requests",
                attributes.either("requests", limited.requests(), 0L, limited.requestsString()),
                Long::valueOf);
        Duration per = required(attributes, "per", limited.per(), AttributeReader::positive);
        return new RateLimitRule(
                name != null
                        ? name
                        : AttributeReader.kebab(ClassUtils.getShortName(type).replace(".", ""))
                                + "."
                                + AttributeReader.kebab(method.getName()),
                name != null,
                limited.key(),
                expression,
                new RateLimit(
                        requests,
                        per,
                        attributes.value(
                                "burst",
                                attributes.either("burst", limited.burst(), 0L, limited.burstString()),
                                Long::valueOf,
                                requests)),
                type.getName() + "." + method.getName());
    }

    /** Returns whether both can share buckets. */
    boolean isLike(RateLimitRule other) {
        return limit.equals(other.limit)
                && key == other.key
                && Objects.equals(
                        expression == null ? null : expression.getExpressionString(),
                        other.expression == null ? null : other.expression.getExpressionString());
    }

    private static <T> T required(
            AttributeReader attributes, String attribute, String text, Function<String, T> reading) {
        T value = attributes.valueOrNull(attribute, text, reading, null);
        if (value == null) {
            throw new IllegalArgumentException(attribute + " is missing");
        }
        return value;
    }

    /** Rejects variables that are not parameters of the method, if the names of the parameters are known. */
    private static void requireKnownVariables(Expression expression, Method method) {
        @Nullable String @Nullable [] names = PARAMETERS.getParameterNames(method);
        if (names == null || !(expression instanceof SpelExpression spel)) {
            return;
        }
        Set<String> known = new LinkedHashSet<>();
        for (int i = 0; i < names.length; i++) {
            known.add(String.valueOf(names[i]));
            known.add("a" + i);
            known.add("p" + i);
        }
        known.addAll(List.of("root", "this"));
        for (String variable : variables(spel.getAST())) {
            if (!known.contains(variable)) {
                throw new IllegalArgumentException("expression (%s) uses #%s, but the parameters of the method are %s"
                        .formatted(expression.getExpressionString(), variable, List.of(names)));
            }
        }
    }

    /** Returns the variables that the expression reads and does not assign itself. */
    private static Set<String> variables(SpelNode node) {
        Set<String> variables = new LinkedHashSet<>();
        if (node instanceof VariableReference) {
            variables.add(node.toStringAST().substring(1));
        }
        boolean assigned = node instanceof Assign;
        for (int i = assigned ? 1 : 0; i < node.getChildCount(); i++) {
            variables.addAll(variables(node.getChild(i)));
        }
        return variables;
    }

    private static Expression expression(String text) {
        try {
            return PARSER.parseExpression(text);
        } catch (ParseException e) {
            throw new IllegalArgumentException(e.getSimpleMessage(), e);
        }
    }
}
