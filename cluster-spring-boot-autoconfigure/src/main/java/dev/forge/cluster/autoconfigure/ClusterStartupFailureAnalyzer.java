package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** Shows what was found and what to do, instead of a stack trace. First in line: binding errors wrap ours. */
@Order(Ordered.HIGHEST_PRECEDENCE)
final class ClusterStartupFailureAnalyzer extends AbstractFailureAnalyzer<ClusterStartupException> {

    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, ClusterStartupException cause) {
        return new FailureAnalysis(cause.getMessage(), cause.action(), cause);
    }
}
