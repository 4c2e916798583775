// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import io.micrometer.core.instrument.observation.DefaultMeterObservationHandler;
import io.micrometer.observation.GlobalObservationConvention;
import io.micrometer.observation.ObservationFilter;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationPredicate;
import io.micrometer.observation.ObservationRegistry;
import java.util.Arrays;
import java.util.Map;
import org.springframework.beans.factory.annotation.AnnotatedBeanDefinition;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.core.env.Environment;
import org.springframework.core.type.MethodMetadata;
import org.springframework.util.ClassUtils;

/**
 * Finds out whether observations would become meters and nothing else, as in an application with Spring Boot's metrics that has
 * neither tracing nor observation beans of its own. Whatever looks unusual counts as another use.
 */
final class ObservationUse {

    private static final String BOOT = "org.springframework.boot.";
    private static final String CUSTOMIZER =
            BOOT + "micrometer.observation.autoconfigure.ObservationRegistryCustomizer";

    /** Properties that change the meters of observations, with their types. */
    private static final Map<String, Bindable<?>> PROPERTIES = Map.of(
            "management.observations.key-values", Bindable.mapOf(String.class, String.class),
            "management.observations.enable", Bindable.mapOf(String.class, String.class),
            "management.metrics.observations.ignored-meters", Bindable.listOf(String.class));

    private final ConfigurableListableBeanFactory beans;

    private ObservationUse(ConfigurableListableBeanFactory beans) {
        this.beans = beans;
    }

    static boolean isForMetersOnly(ConfigurableListableBeanFactory beans, Environment environment) {
        var binder = Binder.get(environment);
        return PROPERTIES.entrySet().stream()
                        .noneMatch(property -> binder.bind(property.getKey(), property.getValue())
                                .isBound())
                && new ObservationUse(beans).isForMetersOnly();
    }

    private boolean isForMetersOnly() {
        return names(ObservationRegistry.class).length == 1
                && isOfBoot(ObservationRegistry.class)
                && isOfBoot(ObservationPredicate.class)
                && isOfBoot(ObservationFilter.class)
                && isOfBoot(GlobalObservationConvention.class)
                && hasNoCustomizer()
                && names(ObservationHandler.class).length > 0
                && isOfBoot(ObservationHandler.class)
                && Arrays.stream(names(ObservationHandler.class))
                        .allMatch(name -> DefaultMeterObservationHandler.class.equals(beans.getType(name, false)));
    }

    private boolean hasNoCustomizer() {
        ClassLoader loader = beans.getBeanClassLoader();
        return !ClassUtils.isPresent(CUSTOMIZER, loader)
                || names(ClassUtils.resolveClassName(CUSTOMIZER, loader)).length == 0;
    }

    private String[] names(Class<?> type) {
        return beans.getBeanNamesForType(type, true, false);
    }

    /** Returns whether all beans of a type are declared by Spring Boot. */
    private boolean isOfBoot(Class<?> type) {
        return Arrays.stream(names(type)).allMatch(this::isOfBoot);
    }

    private boolean isOfBoot(String name) {
        if (!beans.containsBeanDefinition(name)) {
            return false;
        }
        BeanDefinition definition = beans.getBeanDefinition(name);
        MethodMetadata method =
                definition instanceof AnnotatedBeanDefinition annotated ? annotated.getFactoryMethodMetadata() : null;
        return method != null && method.getDeclaringClassName().startsWith(BOOT);
    }
}
