// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.runtime.ErrorText;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** Prints the description and the action of a failed start instead of a stack trace. First in order, because binding errors wrap it. */
@Order(Ordered.HIGHEST_PRECEDENCE)
public final class ClusterStartupFailureAnalyzer extends AbstractFailureAnalyzer<ClusterStartupException> {

    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, ClusterStartupException cause) {
        // The message may quote a value or another exception of any length.
        return new FailureAnalysis(bounded(cause.getMessage()), bounded(cause.action()), cause);
    }

    private static @Nullable String bounded(@Nullable String text) {
        return text == null ? null : ErrorText.bounded(text, ErrorText.LONGEST_MESSAGE);
    }
}
