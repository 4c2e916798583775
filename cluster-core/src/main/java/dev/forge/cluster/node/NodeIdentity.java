// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

/**
 * The identity of a node across restarts.
 *
 * @param id stable and unique among live nodes; shown as {@code node_key}
 * @param name the name that people read; need not be unique
 */
public record NodeIdentity(String id, String name) {

    public NodeIdentity {
        if (id.isBlank() || name.isBlank()) {
            throw new IllegalArgumentException("A node needs an id and a name: id '%s', name '%s'".formatted(id, name));
        }
    }
}
