package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import java.util.Map;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;

/** Refuses handlers that still have the annotation of the scheduler from which they were moved. */
final class OtherSchedulers {

    private static final String RUNS_IT_TOO = "It would run by that schedule in addition, and on every node.";
    private static final String RUNS_IT_ONCE_TOO = "It would run by that schedule in addition.";
    private static final String SKIPS_IT =
            "While ShedLock denies the lock the call does nothing, and the cluster would take it for completed.";

    /** By name: all but the first may be absent. */
    private static final Map<String, String> CONSEQUENCES = Map.of(
            "org.springframework.scheduling.annotation.Scheduled", RUNS_IT_TOO,
            "org.jobrunr.jobs.annotations.Recurring", RUNS_IT_ONCE_TOO,
            "net.javacrumbs.shedlock.spring.annotation.SchedulerLock", SKIPS_IT);

    private OtherSchedulers() {}

    /** @throws ClusterStartupException if another scheduler runs the method, too, or keeps it from running */
    static void refuse(AnnotatedMethods.Found<?> found) {
        MergedAnnotations annotations = MergedAnnotations.from(found.method(), SearchStrategy.TYPE_HIERARCHY);
        CONSEQUENCES.forEach((annotation, consequence) -> {
            if (annotations.isPresent(annotation)) {
                String name = ClassUtils.getShortName(annotation);
                throw new ClusterStartupException(
                        "@%s on %s: its method is @%s, too. %s"
                                .formatted(found.kind(), found.place(), name, consequence),
                        "Remove @%s from the method. If you need both for a while, call it from a second method."
                                .formatted(name));
            }
        });
    }
}
