// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.node.NodeRole;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.springframework.boot.autoconfigure.condition.ConditionMessage;
import org.springframework.boot.autoconfigure.condition.ConditionOutcome;
import org.springframework.boot.autoconfigure.condition.SpringBootCondition;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;

/** The condition of {@link ConditionalOnClusterRole}. */
public final class OnClusterRole extends SpringBootCondition {

    @Override
    public ConditionOutcome getMatchOutcome(ConditionContext context, AnnotatedTypeMetadata metadata) {
        Set<NodeRole> asked = Set.of(
                metadata.getAnnotations().get(ConditionalOnClusterRole.class).getEnumArray("value", NodeRole.class));
        Set<NodeRole> own = roles(context.getEnvironment());
        var message = ConditionMessage.forCondition(ConditionalOnClusterRole.class, asked);
        return own.stream().anyMatch(asked::contains)
                ? ConditionOutcome.match(message.found("roles").items(own))
                : ConditionOutcome.noMatch(
                        message.didNotFind("any of them among roles").items(own));
    }

    public static Set<NodeRole> roles(Environment environment) {
        return OnClusterEnabled.isEnabled(environment)
                ? Binder.get(environment)
                        .bind("forge.cluster.node.roles", Bindable.setOf(NodeRole.class))
                        .orElseGet(() -> EnumSet.copyOf(Arrays.asList(NodeRole.values())))
                : Set.of();
    }
}
