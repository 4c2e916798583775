// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Server;

/** A group of figures that can be measured on its own. */
interface Part {

    void run(Server server, Report report) throws Exception;
}
