// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.job.ClusterJob;

/** A handler that beans inherit from an interface. */
interface Exporting {

    record Export(String file) {}

    @ClusterJob(name = "export-file")
    default void run(Export file) {}
}
