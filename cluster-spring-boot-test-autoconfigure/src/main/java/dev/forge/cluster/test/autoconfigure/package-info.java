// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/** Tests of applications that use the cluster: {@code @ClusterTest}. */
@org.jspecify.annotations.NullMarked
package dev.forge.cluster.test.autoconfigure;
