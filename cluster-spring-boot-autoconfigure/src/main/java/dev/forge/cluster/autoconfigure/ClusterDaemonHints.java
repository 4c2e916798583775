package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterDaemon;
import java.lang.reflect.Method;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aot.hint.ExecutableMode;
import org.springframework.aot.hint.ReflectionHints;
import org.springframework.beans.factory.aot.BeanRegistrationAotContribution;
import org.springframework.beans.factory.aot.BeanRegistrationAotProcessor;
import org.springframework.beans.factory.support.RegisteredBean;
import org.springframework.util.ClassUtils;

/** What a native image must know of daemons: their methods are called by reflection. */
final class ClusterDaemonHints implements BeanRegistrationAotProcessor {

    @Override
    public @Nullable BeanRegistrationAotContribution processAheadOfTime(RegisteredBean bean) {
        Class<?> target = AutoProxyUtils.determineTargetClass(bean.getBeanFactory(), bean.getBeanName());
        Class<?> type = ClassUtils.getUserClass(target != null ? target : bean.getBeanClass());
        Set<Method> methods = AnnotatedMethods.of(type, ClusterDaemon.class).keySet();
        return methods.isEmpty()
                ? null
                : (context, code) -> methods.forEach(
                        method -> register(context.getRuntimeHints().reflection(), type, method));
    }

    private static void register(ReflectionHints hints, Class<?> type, Method method) {
        hints.registerMethod(method, ExecutableMode.INVOKE);
        // Behind a JDK proxy it is the interface's method that is called.
        for (Class<?> face : ClassUtils.getAllInterfacesForClass(type)) {
            Method declared = ClassUtils.getMethodIfAvailable(face, method.getName(), method.getParameterTypes());
            if (declared != null) {
                hints.registerMethod(declared, ExecutableMode.INVOKE);
            }
        }
    }
}
