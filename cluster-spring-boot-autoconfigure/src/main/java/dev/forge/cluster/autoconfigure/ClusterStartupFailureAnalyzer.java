package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.runtime.ErrorText;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** Shows what was found and what to do, instead of a stack trace. First in line: binding errors wrap ours. */
@Order(Ordered.HIGHEST_PRECEDENCE)
public final class ClusterStartupFailureAnalyzer extends AbstractFailureAnalyzer<ClusterStartupException> {

    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, ClusterStartupException cause) {
        // It may quote a value or another exception, of any length.
        return new FailureAnalysis(bounded(cause.getMessage()), bounded(cause.action()), cause);
    }

    private static @Nullable String bounded(@Nullable String text) {
        return text == null ? null : ErrorText.bounded(text, ErrorText.LONGEST_MESSAGE);
    }
}
