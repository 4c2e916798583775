// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import org.springframework.boot.autoconfigure.condition.ConditionMessage;
import org.springframework.boot.autoconfigure.condition.ConditionOutcome;
import org.springframework.boot.autoconfigure.condition.SpringBootCondition;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;

/** Matches unless {@code forge.cluster.enabled} is false. A value that is not a boolean fails the start. */
public final class OnClusterEnabled extends SpringBootCondition {

    @Override
    public ConditionOutcome getMatchOutcome(ConditionContext context, AnnotatedTypeMetadata metadata) {
        boolean enabled = isEnabled(context.getEnvironment());
        return new ConditionOutcome(
                enabled, ConditionMessage.forCondition("forge.cluster.enabled").because("" + enabled));
    }

    static boolean isEnabled(Environment environment) {
        return Binder.get(environment)
                .bind("forge.cluster.enabled", Boolean.class)
                .orElse(true);
    }
}
