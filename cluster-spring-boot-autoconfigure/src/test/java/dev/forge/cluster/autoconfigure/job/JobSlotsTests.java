// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.job.JobSlots.Choice;
import dev.forge.cluster.autoconfigure.job.JobSlots.Demand;
import dev.forge.cluster.autoconfigure.job.JobSlots.Kind;
import dev.forge.cluster.autoconfigure.job.JobSlots.Pool;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class JobSlotsTests {

    // Size of the pool, configured slots for jobs and crons, whether jobs and crons are transactional, slots of others;
    // expected slots for jobs and crons, and whether a warning is expected.
    @ParameterizedTest
    @CsvSource({
        "10,   ,   , true,  false, 0, 6,  4, false",
        "10,   ,   , false, false, 0, 10, 4, false",
        "10,   ,   , false, true,  0, 10, 4, false",
        "10,   ,   , true,  true,  0, 4,  2, false",
        "10,   ,   , true,  false, 4, 2,  4, false",
        "10,   ,   , true,  false, 6, 1,  4, true",
        "10,   , 4 , true,  true,  0, 2,  4, false",
        "10, 10,   , true,  false, 0, 10, 4, true",
        "10, 6 ,   , true,  true,  0, 6,  2, true",
        "10, 4 ,   , true,  true,  0, 4,  2, false",
        "10, 10, 4 , false, false, 0, 10, 4, false",
        "30,   ,   , true,  true,  0, 10, 4, false",
        "5,    ,   , true,  false, 0, 3,  4, false",
        "5,    ,   , false, true,  0, 10, 3, false",
        "3,    ,   , true,  false, 0, 1,  4, false",
        "3,    ,   , true,  true,  0, 1,  1, true",
        "2,    ,   , true,  false, 0, 1,  4, true",
        "1,    ,   , true,  false, 0, 1,  4, true"
    })
    void defaults_leave_a_third_of_the_pool_free_and_other_settings_are_a_warning(
            int pool,
            Integer configuredJobs,
            Integer configuredCrons,
            boolean transactionalJobs,
            boolean transactionalCrons,
            int others,
            int jobs,
            int crons,
            boolean warned) {
        Choice choice = JobSlots.choice(
                new Demand(
                        new Kind(true, configuredJobs, transactionalJobs),
                        new Kind(true, configuredCrons, transactionalCrons),
                        others),
                pool("pool", pool));
        assertThat(choice.jobs()).as("jobs").isEqualTo(jobs);
        assertThat(choice.crons()).as("crons").isEqualTo(crons);
        assertThat(choice.warning() != null).as("%s", choice.warning()).isEqualTo(warned);
    }

    private static Pool pool(String name, int size) {
        return new Pool(name, size, "spring.datasource.hikari.maximum-pool-size (DataSource bean 'dataSource')");
    }

    @Test
    void warning_about_a_pool_of_two_says_what_is_left_and_what_to_do() {
        Choice choice = JobSlots.choice(
                new Demand(new Kind(true, null, true), new Kind(true, null, true), 0), pool("small", 2));
        assertThat(choice.warning())
                .isEqualTo(
                        "Pool 'small' is too small: transactional jobs, runs of crons and steps of workflows may hold 2 of"
                                + " its 2 connections at once. Requests and health checks, which then have none, may time out. Raise"
                                + " spring.datasource.hikari.maximum-pool-size (DataSource bean 'dataSource') to 4.");
        assertThat(choice.explanation())
                .as("the warning is enough")
                .isEqualTo("1 for jobs (default), 1 for crons (default)");
    }

    @Test
    void warning_names_the_settings_that_can_be_lowered() {
        Choice choice =
                JobSlots.choice(new Demand(new Kind(true, 10, true), new Kind(true, 1, true), 0), pool("small", 10));
        assertThat(choice.warning()).endsWith(" to 17, or lower forge.cluster.worker.max-concurrent-jobs.");
    }

    @Test
    void lowered_default_is_explained_in_the_log() {
        Choice choice = JobSlots.choice(
                new Demand(new Kind(true, null, true), new Kind(true, null, false), 0), pool("small", 5));
        assertThat(choice.explanation())
                .startsWith("3 for jobs (default), 4 for crons (default). ")
                .contains("2 of the 5 connections of the pool 'small' stay free")
                .endsWith("or set forge.cluster.worker.max-concurrent-jobs.");
    }

    @Test
    void pool_of_unknown_size_changes_nothing() {
        Choice choice = JobSlots.choice(new Demand(new Kind(true, null, true), new Kind(true, 2, true), 0), null);
        assertThat(choice).isEqualTo(new Choice(10, 2, "10 for jobs (default), 2 for crons", null));
    }

    @Test
    void node_without_slots_logs_none() {
        Choice choice = JobSlots.choice(
                new Demand(new Kind(false, null, true), new Kind(false, null, true), 0), pool("pool", 1));
        assertThat(choice).isEqualTo(new Choice(10, 4, "", null));
    }
}
