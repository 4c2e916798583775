// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

/** A {@link dev.forge.cluster.job.ClusterCoordinator} of the library's own, with the name that health shows. */
public interface WakeupChannel {

    /** Returns the value of {@code forge.cluster.wakeup.type}. */
    String type();
}
