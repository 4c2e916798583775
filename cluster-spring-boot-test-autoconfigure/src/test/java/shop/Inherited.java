// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.job.ClusterJob;

/** Handlers that beans inherit. */
abstract class Inherited {

    record Import(String file) {}

    @ClusterJob(name = "import")
    void run(Import file) {}
}
