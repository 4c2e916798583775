// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.observe.JobInterceptor;
import dev.forge.cluster.job.observe.JobListener;
import dev.forge.cluster.workflow.ClusterWorkflow;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.springframework.boot.test.context.filter.annotation.StandardAnnotationCustomizableTypeExcludeFilter;
import org.springframework.core.type.AnnotationMetadata;
import org.springframework.core.type.classreading.MetadataReader;
import org.springframework.core.type.classreading.MetadataReaderFactory;

/** Leaves out beans of the application that are not the cluster's. */
final class ClusterTypeExcludeFilter extends StandardAnnotationCustomizableTypeExcludeFilter<ClusterTest> {

    private static final Set<Class<?>> TYPES =
            Set.of(JobInterceptor.class, JobListener.class, PayloadCodec.class, BackoffStrategy.class);

    private static final Set<Class<?>> ANNOTATIONS =
            Set.of(ClusterJob.class, ClusterCron.class, ClusterDaemon.class, ClusterWorkflow.class);

    ClusterTypeExcludeFilter(Class<?> testClass) {
        super(testClass);
    }

    @Override
    protected Set<Class<?>> getKnownIncludes() {
        return TYPES;
    }

    @Override
    protected boolean defaultInclude(MetadataReader reader, MetadataReaderFactory factory) throws IOException {
        return hasHandlers(reader, factory) || super.defaultInclude(reader, factory);
    }

    /** Looks where the cluster finds the methods of a bean: in its class, its superclasses and its interfaces. */
    private static boolean hasHandlers(MetadataReader reader, MetadataReaderFactory factory) throws IOException {
        AnnotationMetadata type = reader.getAnnotationMetadata();
        if (ANNOTATIONS.stream().anyMatch(annotation -> type.hasAnnotatedMethods(annotation.getName()))) {
            return true;
        }
        for (String parent : parents(type)) {
            if (!parent.startsWith("java.") && hasHandlers(parent, factory)) {
                return true;
            }
        }
        return false;
    }

    private static boolean hasHandlers(String type, MetadataReaderFactory factory) throws IOException {
        MetadataReader reader;
        try {
            reader = factory.getMetadataReader(type);
        } catch (FileNotFoundException e) {
            // An optional dependency that is absent; such a bean cannot be created.
            return false;
        }
        return hasHandlers(reader, factory);
    }

    private static List<String> parents(AnnotationMetadata type) {
        var parents = new ArrayList<>(List.of(type.getInterfaceNames()));
        if (type.getSuperClassName() != null) {
            parents.add(type.getSuperClassName());
        }
        return parents;
    }
}
