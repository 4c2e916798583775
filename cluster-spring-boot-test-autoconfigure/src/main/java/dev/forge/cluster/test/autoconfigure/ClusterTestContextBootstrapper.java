// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import org.jspecify.annotations.Nullable;
import org.springframework.boot.test.context.SpringBootTestContextBootstrapper;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.test.context.TestContextAnnotationUtils;

/** Applies the properties of a {@link ClusterTest}. */
final class ClusterTestContextBootstrapper extends SpringBootTestContextBootstrapper {

    @Override
    protected String @Nullable [] getProperties(Class<?> testClass) {
        return MergedAnnotations.search(SearchStrategy.TYPE_HIERARCHY)
                .withEnclosingClasses(TestContextAnnotationUtils::searchEnclosingClass)
                .from(testClass)
                .get(ClusterTest.class)
                .getValue("properties", String[].class)
                .orElse(null);
    }
}
