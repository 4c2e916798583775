// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobInterceptor;
import dev.forge.cluster.job.JobListener;
import dev.forge.cluster.workflow.ClusterWorkflow;
import java.io.IOException;
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
        AnnotationMetadata type = reader.getAnnotationMetadata();
        return ANNOTATIONS.stream().anyMatch(annotation -> type.hasAnnotatedMethods(annotation.getName()))
                || super.defaultInclude(reader, factory);
    }
}
