package dev.forge.cluster.autoconfigure;

import java.lang.annotation.Annotation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/** Methods with an annotation of ours on all beans, found without creating those that are lazy. */
final class AnnotatedMethods {

    private AnnotatedMethods() {}

    /**
     * A method that was found.
     *
     * @param type the bean's own class, behind its proxies
     */
    record Found<A extends Annotation>(String bean, Class<?> type, Method method, A annotation) {

        /** For people. */
        String place() {
            return type.getName() + "." + method.getName();
        }

        /** The simple name of the annotation. */
        String kind() {
            return annotation.annotationType().getSimpleName();
        }

        /** How to call it on the bean, which may be a proxy, and is created by the first call if it is lazy. */
        Call call(ConfigurableListableBeanFactory beans) {
            AsynchronousHandlers.refuseAsync(this);
            if (Modifier.isPrivate(method.getModifiers()) || Modifier.isStatic(method.getModifiers())) {
                throw new IllegalArgumentException("it is private or static");
            }
            Class<?> exposed = beans.getType(bean);
            Method invocable = AopUtils.selectInvocableMethod(method, exposed != null ? exposed : type);
            ReflectionUtils.makeAccessible(invocable);
            return arguments -> {
                try {
                    return invocable.invoke(beans.getBean(bean), arguments);
                } catch (InvocationTargetException e) {
                    throw e.getTargetException();
                }
            };
        }
    }

    /** A call that throws what the method throws. */
    @FunctionalInterface
    interface Call {
        @Nullable
        Object with(@Nullable Object... arguments) throws Throwable;
    }

    static <A extends Annotation> List<Found<A>> find(ConfigurableListableBeanFactory beans, Class<A> annotation) {
        List<Found<A>> found = new ArrayList<>();
        for (String bean : beans.getBeanNamesForType(Object.class, true, false)) {
            Class<?> type = ScopedProxyUtils.isScopedTarget(bean) ? null : typeOf(beans, bean);
            if (type != null && AnnotationUtils.isCandidateClass(type, annotation)) {
                of(type, annotation).forEach((method, a) -> found.add(new Found<>(bean, type, method, a)));
            }
        }
        return found;
    }

    /** The beans that could be the application's, by name, with their classes behind their proxies. */
    static Map<String, Class<?>> types(ConfigurableListableBeanFactory beans) {
        Map<String, Class<?>> types = new LinkedHashMap<>();
        for (String bean : beans.getBeanNamesForType(Object.class, true, false)) {
            Class<?> type = typeOf(beans, bean);
            if (type != null && !type.getName().startsWith("org.springframework.")) {
                types.put(bean, ClassUtils.getUserClass(type));
            }
        }
        return types;
    }

    static <A extends Annotation> Map<Method, A> of(Class<?> type, Class<A> annotation) {
        return MethodIntrospector.selectMethods(type, (MethodIntrospector.MetadataLookup<A>)
                method -> AnnotatedElementUtils.findMergedAnnotation(method, annotation));
    }

    private static @Nullable Class<?> typeOf(ConfigurableListableBeanFactory beans, String bean) {
        try {
            return AutoProxyUtils.determineTargetClass(beans, bean);
        } catch (RuntimeException | LinkageError e) {
            // Not a bean whose methods could be ours.
            return null;
        }
    }
}
