// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.async.AsyncResults;
import java.lang.annotation.Annotation;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.springframework.aop.framework.Advised;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.GenericTypeResolver;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.scheduling.annotation.AsyncAnnotationAdvisor;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.util.ClassUtils;

/** Rejects handlers whose work would continue unobserved after they have returned. */
public final class AsynchronousHandlers {

    /** By name, because the annotation of Jakarta, which Spring supports, too, may be absent. */
    private static final Set<String> ASYNC = Set.of(
            "org.springframework.scheduling.annotation.Async",
            "jakarta.ejb.Asynchronous",
            "jakarta.enterprise.concurrent.Asynchronous");

    private AsynchronousHandlers() {}

    /**
     * @throws ClusterStartupException if the method or its class is {@code @Async}, directly or by a meta-annotation, has the
     *     annotation that {@code @EnableAsync} names instead, or its proxy makes calls asynchronous for another reason
     */
    static void refuseAsync(AnnotatedMethods.Found<?> found, ConfigurableListableBeanFactory beans) {
        Set<String> annotations = new LinkedHashSet<>(ASYNC);
        annotations.addAll(named(beans));
        MergedAnnotations onMethod = MergedAnnotations.from(found.method(), SearchStrategy.TYPE_HIERARCHY);
        MergedAnnotations onClass = MergedAnnotations.from(found.type(), SearchStrategy.TYPE_HIERARCHY);
        for (String annotation : annotations) {
            if (onMethod.isPresent(annotation) || onClass.isPresent(annotation)) {
                String name = ClassUtils.getShortName(annotation);
                throw new ClusterStartupException(
                        "@%s on %s: its %s is @%s. The call would return before the work is done, and the job would be completed even if the work fails."
                                .formatted(
                                        found.kind(),
                                        found.place(),
                                        onMethod.isPresent(annotation) ? "method" : "class",
                                        name),
                        "Remove @%s from the handler: the cluster calls it on a thread of its own. If other callers need it, move the handler to a method of a bean without the annotation."
                                .formatted(name));
            }
        }
        if (isAsyncByProxy(found, beans)) {
            throw new ClusterStartupException(
                    "@%s on %s: the proxy of bean '%s' makes the call asynchronous. The call would return before the work is done, and the job would be completed even if the work fails."
                            .formatted(found.kind(), found.place(), found.bean()),
                    "Find the annotation that an AsyncAnnotationBeanPostProcessor of the application is configured with, and remove it from the handler: the cluster calls it on a thread of its own.");
        }
    }

    /** Returns whether its proxy makes calls asynchronous: an application may configure that without {@code @EnableAsync}. */
    private static boolean isAsyncByProxy(AnnotatedMethods.Found<?> found, ConfigurableListableBeanFactory beans) {
        return beans.getSingleton(found.bean()) instanceof Advised proxy
                && Stream.of(proxy.getAdvisors())
                        .anyMatch(advisor -> advisor instanceof AsyncAnnotationAdvisor async
                                && async.getPointcut().getClassFilter().matches(found.type())
                                && async.getPointcut().getMethodMatcher().matches(found.method(), found.type()));
    }

    /** Returns the annotation that {@code @EnableAsync(annotation = ...)} names. */
    private static List<String> named(ConfigurableListableBeanFactory beans) {
        return Stream.of(beans.getBeanNamesForAnnotation(EnableAsync.class))
                .map(bean -> beans.findAnnotationOnBean(bean, EnableAsync.class))
                .filter(Objects::nonNull)
                .map(EnableAsync::annotation)
                .filter(annotation -> annotation != Annotation.class)
                .map(Class::getName)
                .toList();
    }

    /** Returns whether the method returns a future or a reactive type. */
    static boolean returnsFuture(AnnotatedMethods.Found<?> found) {
        return AsyncResults.isAsync(GenericTypeResolver.resolveReturnType(found.method(), found.type()));
    }

    /**
     * Rejects methods that return a future or a reactive type.
     *
     * @throws ClusterStartupException with the given reason and action, if the method returns a future or a reactive type
     */
    public static void refuseFuture(AnnotatedMethods.Found<?> found, String reason, String action) {
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
