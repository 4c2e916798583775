// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.job.claim.Worker;

/** Calls up, from the rows of jobs to what claims them. */
public class OffendsAsRow {

    int load(Worker worker) {
        return worker.load();
    }
}
