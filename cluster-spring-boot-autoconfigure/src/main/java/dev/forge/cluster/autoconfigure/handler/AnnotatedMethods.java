// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import java.lang.annotation.Annotation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.SpringProxy;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.annotation.AnnotatedBeanDefinition;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfigurationPackages;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/** Finds the annotated methods of all beans without creating lazy beans. */
public final class AnnotatedMethods {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");
    /** The number of beans that a message lists. */
    private static final int LISTED = 10;

    private AnnotatedMethods() {}

    /**
     * An annotated method.
     *
     * @param type the class of the bean, behind its proxies
     */
    public record Found<A extends Annotation>(String bean, Class<?> type, Method method, A annotation) {

        /** Returns the class and the method, for messages. */
        public String place() {
            return type.getName() + "." + method.getName();
        }

        /** Returns the simple name of the annotation. */
        public String kind() {
            return annotation.annotationType().getSimpleName();
        }

        /** Rejects final methods of a CGLIB proxy: they would run on the proxy itself, whose fields are null. */
        private void requireOverridable(Class<?> proxy) {
            if (Modifier.isFinal(method.getModifiers()) && !Proxy.isProxyClass(proxy)) {
                throw new IllegalArgumentException(
                        "it is final, but bean '%s' is a CGLIB proxy (because of @Transactional, @RateLimited or another aspect): the call would run on the proxy, whose fields are null. Remove final from the method"
                                .formatted(bean));
            }
        }

        /** Returns a call of the method on the bean, which may be a proxy. The first call creates a lazy bean. */
        public Call call(ConfigurableListableBeanFactory beans) {
            AsynchronousHandlers.refuseAsync(this, beans);
            OtherSchedulers.refuse(this);
            if (Modifier.isPrivate(method.getModifiers()) || Modifier.isStatic(method.getModifiers())) {
                throw new IllegalArgumentException("it is private or static");
            }
            Class<?> exposed = beans.getType(bean);
            if (exposed != null && SpringProxy.class.isAssignableFrom(exposed)) {
                requireOverridable(exposed);
            }
            Method invocable = AopUtils.selectInvocableMethod(method, exposed != null ? exposed : type);
            ReflectionUtils.makeAccessible(invocable);
            return arguments -> {
                try {
                    Object target = beans.getBean(bean);
                    // A lazy bean: it was unknown before whether it has a proxy.
                    if (target instanceof SpringProxy) {
                        requireOverridable(target.getClass());
                    }
                    return invocable.invoke(target, arguments);
                } catch (InvocationTargetException e) {
                    throw e.getTargetException();
                }
            };
        }
    }

    /** Calls the method and throws its exceptions unwrapped. */
    @FunctionalInterface
    public interface Call {
        @Nullable
        Object with(@Nullable Object... arguments) throws Throwable;
    }

    /**
     * Warns about lazy beans of the application that are declared as interfaces: their class, and so their annotated methods, is
     * unknown until the bean is created, which may never happen.
     */
    public static void warnOfHidden(ConfigurableListableBeanFactory beans) {
        List<String> hidden = new ArrayList<>();
        for (String bean : beans.getBeanDefinitionNames()) {
            BeanDefinition definition = beans.getMergedBeanDefinition(bean);
            Class<?> type = definition.isLazyInit() && !beans.containsSingleton(bean) ? typeOf(beans, bean) : null;
            if (type != null && type.isInterface() && isOwn(beans, definition)) {
                hidden.add("%s (%s)".formatted(bean, type.getName()));
            }
        }
        if (!hidden.isEmpty()) {
            log.warn(
                    "Lazy beans declared as interfaces: {}{}. If methods of their classes have @ClusterJob, @ClusterCron,"
                            + " @ClusterDaemon or @ClusterWorkflow, they are not found and never run. Declare the class as the"
                            + " return type of the @Bean method, or remove @Lazy.",
                    hidden.subList(0, Math.min(hidden.size(), LISTED)),
                    hidden.size() > LISTED ? " and %d more".formatted(hidden.size() - LISTED) : "");
        }
    }

    /** Returns whether a method of the application, and not of a library, creates the bean. */
    private static boolean isOwn(ConfigurableListableBeanFactory beans, BeanDefinition definition) {
        String factory =
                definition instanceof AnnotatedBeanDefinition annotated && annotated.getFactoryMethodMetadata() != null
                        ? annotated.getFactoryMethodMetadata().getDeclaringClassName()
                        : null;
        if (factory == null || definition.getRole() != BeanDefinition.ROLE_APPLICATION) {
            return false;
        }
        return AutoConfigurationPackages.has(beans)
                ? AutoConfigurationPackages.get(beans).stream().anyMatch(own -> factory.startsWith(own + "."))
                : !factory.startsWith("org.springframework.");
    }

    public static <A extends Annotation> List<Found<A>> find(
            ConfigurableListableBeanFactory beans, Class<A> annotation) {
        List<Found<A>> found = new ArrayList<>();
        for (String bean : beans.getBeanNamesForType(Object.class, true, false)) {
            Class<?> type = ScopedProxyUtils.isScopedTarget(bean) ? null : typeOf(beans, bean);
            if (type != null && AnnotationUtils.isCandidateClass(type, annotation)) {
                of(type, annotation).forEach((method, a) -> found.add(new Found<>(bean, type, method, a)));
            }
        }
        return found;
    }

    /** Returns the beans that may be the application's by name, with their classes behind their proxies. */
    public static Map<String, Class<?>> types(ConfigurableListableBeanFactory beans) {
        Map<String, Class<?>> types = new LinkedHashMap<>();
        for (String bean : beans.getBeanNamesForType(Object.class, true, false)) {
            Class<?> type = typeOf(beans, bean);
            if (type != null && !type.getName().startsWith("org.springframework.")) {
                types.put(bean, ClassUtils.getUserClass(type));
            }
        }
        return types;
    }

    public static <A extends Annotation> Map<Method, A> of(Class<?> type, Class<A> annotation) {
        return MethodIntrospector.selectMethods(type, (MethodIntrospector.MetadataLookup<A>)
                method -> AnnotatedElementUtils.findMergedAnnotation(method, annotation));
    }

    private static @Nullable Class<?> typeOf(ConfigurableListableBeanFactory beans, String bean) {
        try {
            return AutoProxyUtils.determineTargetClass(beans, bean);
        } catch (RuntimeException | LinkageError e) {
            // Such a bean has no annotated methods.
            return null;
        }
    }
}
