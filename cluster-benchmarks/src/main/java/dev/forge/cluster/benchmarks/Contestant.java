package dev.forge.cluster.benchmarks;

/** Something that works through a queue of trivial jobs. */
interface Contestant {

    String name();

    /** How many jobs to give it: few seconds' worth. */
    int jobs();

    /** Empties its tables and adds that many jobs, all due. */
    void fill(int jobs);

    /** Works until all of them are finished. */
    Race.Result drain(Race race);
}
