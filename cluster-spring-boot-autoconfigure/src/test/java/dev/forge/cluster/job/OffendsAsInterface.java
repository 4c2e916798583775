// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

/** Breaks the rules for interfaces of the API. */
interface OffendsAsInterface {

    default void forgotten() {
        throw new UnsupportedOperationException("not implemented");
    }
}
