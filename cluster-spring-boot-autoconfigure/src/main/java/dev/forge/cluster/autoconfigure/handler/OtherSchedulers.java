// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import dev.forge.cluster.ClusterStartupException;
import java.util.Map;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;

/** Rejects handlers that still have the annotation of another scheduler. */
final class OtherSchedulers {

    private static final String RUNS_IT_TOO = "The method would also run by that schedule, on every node.";
    private static final String RUNS_IT_ONCE_TOO = "The method would also run by that schedule.";
    private static final String SKIPS_IT =
            "While ShedLock denies the lock, the call does nothing, and the job would be completed.";

    /** By name, because all but the first may be absent. */
    private static final Map<String, String> CONSEQUENCES = Map.of(
            "org.springframework.scheduling.annotation.Scheduled", RUNS_IT_TOO,
            "org.jobrunr.jobs.annotations.Recurring", RUNS_IT_ONCE_TOO,
            "net.javacrumbs.shedlock.spring.annotation.SchedulerLock", SKIPS_IT);

    private OtherSchedulers() {}

    /**
     * Rejects methods that another scheduler runs or suppresses.
     *
     * @throws ClusterStartupException if the method has an annotation of another scheduler
     */
    public static void refuse(AnnotatedMethods.Found<?> found) {
        MergedAnnotations annotations = MergedAnnotations.from(found.method(), SearchStrategy.TYPE_HIERARCHY);
        CONSEQUENCES.forEach((annotation, consequence) -> {
            if (annotations.isPresent(annotation)) {
                String name = ClassUtils.getShortName(annotation);
                throw new ClusterStartupException(
                        "@%s on %s: the method is also @%s. %s"
                                .formatted(found.kind(), found.place(), name, consequence),
                        "Remove @%s from the method. If you need both for a while, call it from a second method."
                                .formatted(name));
            }
        });
    }
}
