// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.autoconfigure.properties.KnownKeys;
import dev.forge.cluster.internal.runtime.ErrorText;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.UnboundConfigurationPropertiesException;
import org.springframework.boot.context.properties.source.ConfigurationProperty;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** Prints unknown keys of the cluster with the keys that were probably meant, instead of the list of Spring Boot. */
@Order(Ordered.HIGHEST_PRECEDENCE)
public final class UnknownKeyFailureAnalyzer extends AbstractFailureAnalyzer<UnboundConfigurationPropertiesException> {

    @Override
    protected @Nullable FailureAnalysis analyze(Throwable rootFailure, UnboundConfigurationPropertiesException cause) {
        if (cause.getUnboundProperties().stream()
                .noneMatch(property -> KnownKeys.isOfCluster(property.getName().toString()))) {
            return null;
        }
        String description = cause.getUnboundProperties().stream()
                .map(property -> property.getName().toString())
                .map(key -> KnownKeys.isOfCluster(key)
                        ? "Unknown key %s. %s".formatted(key, KnownKeys.advice(key))
                        : "Unknown key %s.".formatted(key))
                .collect(Collectors.joining("\n"));
        String origins = cause.getUnboundProperties().stream()
                .map(UnknownKeyFailureAnalyzer::origin)
                .distinct()
                .collect(Collectors.joining(", "));
        return new FailureAnalysis(
                ErrorText.bounded(description, ErrorText.LONGEST_MESSAGE),
                ErrorText.bounded("Correct or remove it in %s.".formatted(origins), ErrorText.LONGEST_MESSAGE),
                cause);
    }

    private static String origin(ConfigurationProperty property) {
        return property.getOrigin() == null ? "the application's configuration" : "" + property.getOrigin();
    }
}
