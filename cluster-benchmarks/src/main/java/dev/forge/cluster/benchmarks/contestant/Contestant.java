// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;

/** A scheduler, or a set of bare statements, that runs a queue of trivial jobs. */
public interface Contestant {

    String name();

    /** Returns the number of jobs for one drain, chosen so that a drain takes a few seconds. */
    int jobs();

    /** Empties the tables of the contestant and inserts the given number of jobs, all due. */
    void fill(int jobs);

    /** Runs jobs until all are finished, and returns the measurement. */
    Race.Result drain(Race race);
}
