// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.internal.node.OffendsAsSlice;
import dev.forge.cluster.workflow.Workflows;

/** A public type that depends on an internal type, in a cycle, and on the API of a higher capability. */
public class OffendsAsApi {
    OffendsAsSlice slice;
    Workflows workflows;
}
