package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.engine.AsyncResults;
import java.util.Set;
import org.springframework.core.GenericTypeResolver;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;

/** Refuses handlers whose work would go on, unwatched, after they have returned. */
final class AsynchronousHandlers {

    /** By name: those of Jakarta, which Spring heeds as well, may be absent. */
    private static final Set<String> ASYNC = Set.of(
            "org.springframework.scheduling.annotation.Async",
            "jakarta.ejb.Asynchronous",
            "jakarta.enterprise.concurrent.Asynchronous");

    private AsynchronousHandlers() {}

    /** @throws ClusterStartupException if the method or its class is {@code @Async}, itself or by a meta-annotation */
    static void refuseAsync(AnnotatedMethods.Found<?> found) {
        boolean onMethod = ASYNC.stream()
                .anyMatch(MergedAnnotations.from(found.method(), SearchStrategy.TYPE_HIERARCHY)::isPresent);
        boolean onClass =
                ASYNC.stream().anyMatch(MergedAnnotations.from(found.type(), SearchStrategy.TYPE_HIERARCHY)::isPresent);
        if (onMethod || onClass) {
            throw new ClusterStartupException(
                    "@%s on %s: its %s is @Async. The call would return before the work is done, and the cluster would take it for completed, whatever becomes of it."
                            .formatted(found.kind(), found.place(), onMethod ? "method" : "class"),
                    "Remove @Async from the handler: the cluster calls it on a thread of its own. If other callers need"
                            + " it, move the handler to a method of a bean without @Async.");
        }
    }

    /** Whether the method returns a future or a reactive type. */
    static boolean returnsFuture(AnnotatedMethods.Found<?> found) {
        return AsyncResults.isAsync(GenericTypeResolver.resolveReturnType(found.method(), found.type()));
    }

    /** @throws ClusterStartupException if the method returns a future or a reactive type, which it must not because of that */
    static void refuseFuture(AnnotatedMethods.Found<?> found, String reason, String action) {
        if (returnsFuture(found)) {
            throw new ClusterStartupException(
                    "@%s on %s: it returns %s. %s"
                            .formatted(
                                    found.kind(),
                                    found.place(),
                                    found.method().getReturnType().getName(),
                                    reason),
                    action);
        }
    }
}
