// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import dev.forge.cluster.autoconfigure.DisabledClusterAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.database.connection.PromptSocketFactory;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import java.lang.annotation.Annotation;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aot.hint.BindingReflectionHintsRegistrar;
import org.springframework.aot.hint.ExecutableMode;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.ReflectionHints;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.beans.factory.aot.BeanRegistrationAotContribution;
import org.springframework.beans.factory.aot.BeanRegistrationAotProcessor;
import org.springframework.beans.factory.support.RegisteredBean;
import org.springframework.core.GenericTypeResolver;
import org.springframework.core.ResolvableType;
import org.springframework.util.ClassUtils;

/**
 * Registers hints for native images: the methods of handlers, crons, daemons and workflows are called by reflection, and payloads and
 * results become JSON. Types of checkpoints and of step results appear in no signature, so the application names them with
 * {@code @RegisterReflectionForBinding} on the handler.
 */
final class ClusterHints implements BeanRegistrationAotProcessor {

    private static final BindingReflectionHintsRegistrar BINDING = new BindingReflectionHintsRegistrar();
    private static final List<Class<? extends Annotation>> OURS =
            List.of(ClusterJob.class, ClusterCron.class, ClusterDaemon.class, ClusterWorkflow.class);
    private static final Set<Class<?>> CONTEXTS =
            Set.of(JobContext.class, CronContext.class, DaemonContext.class, WorkflowContext.class);

    @Override
    public @Nullable BeanRegistrationAotContribution processAheadOfTime(RegisteredBean bean) {
        // The bean factory does not know inner beans by name.
        Class<?> target = bean.isInnerBean()
                ? null
                : AutoProxyUtils.determineTargetClass(bean.getBeanFactory(), bean.getBeanName());
        Class<?> type = ClassUtils.getUserClass(target != null ? target : bean.getBeanClass());
        Set<Method> methods = new LinkedHashSet<>();
        OURS.forEach(annotation ->
                methods.addAll(AnnotatedMethods.of(type, annotation).keySet()));
        return methods.isEmpty()
                ? null
                : (context, code) -> methods.forEach(
                        method -> register(context.getRuntimeHints().reflection(), type, method));
    }

    private static void register(ReflectionHints hints, Class<?> type, Method method) {
        hints.registerMethod(method, ExecutableMode.INVOKE);
        // On a JDK proxy the method of the interface is called.
        for (Class<?> face : ClassUtils.getAllInterfacesForClass(type)) {
            Method declared = ClassUtils.getMethodIfAvailable(face, method.getName(), method.getParameterTypes());
            if (declared != null) {
                hints.registerMethod(declared, ExecutableMode.INVOKE);
            }
        }
        List<Type> bound = new ArrayList<>();
        for (int i = 0; i < method.getParameterCount(); i++) {
            Type parameter = GenericTypeResolver.resolveType(method.getGenericParameterTypes()[i], type);
            if (!isContext(ResolvableType.forType(parameter))) {
                bound.add(parameter);
            }
        }
        ResolvableType result = result(GenericTypeResolver.resolveType(method.getGenericReturnType(), type));
        Class<?> raw = result.resolve(Object.class);
        if (raw != void.class
                && !Outcome.class.isAssignableFrom(raw)
                && !Outcome.class.isAssignableFrom(element(result))) {
            bound.add(result.getType());
        }
        BINDING.registerReflectionHints(hints, bound.toArray(Type[]::new));
    }

    private static boolean isContext(ResolvableType parameter) {
        return CONTEXTS.contains(parameter.toClass()) || CONTEXTS.contains(element(parameter));
    }

    /** Returns the type of the elements of a list, which a handler of many jobs takes and returns. */
    private static Class<?> element(ResolvableType list) {
        return list.as(List.class).getGeneric().toClass();
    }

    /** Returns the type that is stored: for a future or a reactive type, that of its value. */
    private static ResolvableType result(Type returned) {
        ResolvableType type = ResolvableType.forType(returned);
        return AsyncResults.isAsync(type.resolve(Object.class)) && type.hasGenerics() ? type.getGeneric(0) : type;
    }

    /** Registers the JSON types of the cluster, its socket factory, the scripts of its schema and the proxies of a disabled cluster. */
    static final class OwnHints implements RuntimeHintsRegistrar {

        @Override
        public void registerHints(RuntimeHints hints, @Nullable ClassLoader loader) {
            BINDING.registerReflectionHints(
                    hints.reflection(),
                    ClassUtils.resolveClassName("dev.forge.cluster.internal.job.run.AttemptNotes$Progress", loader));
            // The driver creates it by its name.
            hints.reflection().registerType(PromptSocketFactory.class, MemberCategory.INVOKE_PUBLIC_CONSTRUCTORS);
            hints.resources().registerPattern("dev/forge/cluster/db/*.sql");
            DisabledClusterAutoConfiguration.TYPES.forEach(
                    type -> hints.proxies().registerJdkProxy(type));
        }
    }
}
