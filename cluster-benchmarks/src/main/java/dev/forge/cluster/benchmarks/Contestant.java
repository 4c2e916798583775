// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

/** A scheduler that works through a queue of trivial jobs. */
interface Contestant {

    String name();

    /** Returns the number of jobs for one drain, which takes a few seconds. */
    int jobs();

    /** Empties the tables of the contestant and inserts that many jobs, all due. */
    void fill(int jobs);

    /** Works until all jobs are finished. */
    Race.Result drain(Race race);
}
