// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

/**
 * Provides the identity of this node. A bean of this type replaces the default, which uses {@code forge.cluster.node.id} and
 * {@code forge.cluster.node.name} and falls back to the host name.
 */
@FunctionalInterface
public interface NodeIdentityProvider {

    /** Returns the identity. Called each time the node joins the cluster. */
    NodeIdentity identity();
}
