// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.autoconfigure.handler.AttributeReader;
import dev.forge.cluster.autoconfigure.handler.RateText;
import dev.forge.cluster.internal.job.handler.JobHandler.GroupOfPayload;
import dev.forge.cluster.internal.job.handler.JobHandler.Grouping;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import java.beans.PropertyDescriptor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.BeanUtils;
import org.springframework.core.ResolvableType;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.CompoundExpression;
import org.springframework.expression.spel.ast.PropertyOrFieldReference;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.expression.spel.support.DataBindingPropertyAccessor;
import org.springframework.expression.spel.support.MapAccessor;
import org.springframework.expression.spel.support.SimpleEvaluationContext;

/** The groups of a handler and their limits, as its annotation declares them. */
final class JobGroups {

    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final String PAYLOAD = "payload";

    private final AttributeReader attributes;

    JobGroups(AttributeReader attributes) {
        this.attributes = attributes;
    }

    /**
     * Returns the groups of a handler.
     *
     * @param payloadType the type of the payload of one job; null: there is none
     * @throws IllegalArgumentException naming the invalid attribute
     */
    Grouping of(ClusterJob job, @Nullable Type payloadType) {
        GroupOfPayload group = attributes.valueOrNull("group", job.group(), text -> group(text, payloadType), null);
        Integer concurrency = concurrency("concurrency", job.concurrency(), job.concurrencyString());
        Integer ofGroup = concurrency("groupConcurrency", job.groupConcurrency(), job.groupConcurrencyString());
        int burst = attributes.value(
                "groupBurst",
                attributes.either("groupBurst", job.groupBurst(), 1, job.groupBurstString()),
                AttributeReader.atLeast(1),
                1);
        RateLimit rate =
                attributes.valueOrNull("groupRate", job.groupRate(), text -> RateText.parse(text, burst), null);
        if (rate == null && burst > 1) {
            throw new IllegalArgumentException("groupBurst (%d) needs a groupRate".formatted(burst));
        }
        if (job.ordered() && ofGroup != null && ofGroup > 1) {
            throw new IllegalArgumentException(
                    "groupConcurrency (%d): the jobs of a group run one after the other if they are ordered"
                            .formatted(ofGroup));
        }
        return new Grouping(group, new JobLimits(concurrency, ofGroup, rate), job.ordered());
    }

    private @Nullable Integer concurrency(String attribute, int typed, String text) {
        return attributes.valueOrNull(
                attribute, attributes.either(attribute, typed, 0, text), AttributeReader.atLeast(1), null);
    }

    private static GroupOfPayload group(String text, @Nullable Type payloadType) {
        if (payloadType == null) {
            throw new IllegalArgumentException("the handler takes no payload; use JobOptions.withGroup");
        }
        Expression expression = parsed(text);
        if (expression instanceof SpelExpression spel) {
            requireKnown(spel.getAST(), ResolvableType.forType(payloadType).toClass());
        }
        return payload -> {
            // Reads properties and calls methods of the payload, and nothing else.
            EvaluationContext context = SimpleEvaluationContext.forPropertyAccessors(
                            DataBindingPropertyAccessor.forReadOnlyAccess(), new MapAccessor(false))
                    .withInstanceMethods()
                    .build();
            context.setVariable(PAYLOAD, payload);
            try {
                Object value = expression.getValue(context);
                return value == null ? null : value.toString();
            } catch (RuntimeException e) {
                throw new IllegalArgumentException(
                        "the group cannot be determined with %s: %s".formatted(text, e.getMessage()), e);
            }
        };
    }

    private static Expression parsed(String text) {
        try {
            return PARSER.parseExpression(text);
        } catch (ParseException e) {
            throw new IllegalArgumentException(e.getSimpleMessage(), e);
        }
    }

    /** Rejects other variables, and properties that the payload does not have. */
    private static void requireKnown(SpelNode node, Class<?> payloadType) {
        for (int i = 0; i < node.getChildCount(); i++) {
            SpelNode child = node.getChild(i);
            boolean isPayload = i > 0
                    && node instanceof CompoundExpression
                    && node.getChild(i - 1).toStringAST().equals("#" + PAYLOAD);
            if (isPayload && child instanceof PropertyOrFieldReference property) {
                requireProperty(property.getName(), payloadType);
            }
            requireKnown(child, payloadType);
        }
        if (node instanceof VariableReference && !node.toStringAST().equals("#" + PAYLOAD)) {
            throw new IllegalArgumentException("%s is unknown; use #%s".formatted(node.toStringAST(), PAYLOAD));
        }
    }

    private static void requireProperty(String name, Class<?> type) {
        var properties = new TreeSet<String>();
        for (PropertyDescriptor property : BeanUtils.getPropertyDescriptors(type)) {
            if (property.getReadMethod() != null && !property.getName().equals("class")) {
                properties.add(property.getName());
            }
        }
        RecordComponent[] components = type.getRecordComponents();
        for (RecordComponent component : components == null ? new RecordComponent[0] : components) {
            properties.add(component.getName());
        }
        for (Field field : type.getFields()) {
            properties.add(field.getName());
        }
        // A subclass, or a map, may have it nevertheless.
        if (!properties.contains(name) && Modifier.isFinal(type.getModifiers())) {
            throw new IllegalArgumentException(
                    "%s has no property '%s'; it has %s".formatted(type.getName(), name, properties));
        }
    }
}
