// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.operate.JobDemandReports.Due;
import dev.forge.cluster.internal.job.operate.JobDemandReports.GroupedPlace;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Held;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Limits;
import dev.forge.cluster.internal.job.operate.JobDemandReports.NameState;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Names;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Place;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Waiting;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Workers;
import dev.forge.cluster.internal.job.row.JobStoreFixture;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** What the demand for workers is calculated from, and how many rows that reads. */
@ClusterPostgres
class JobDemandReportsTests extends JobStoreFixture {

    JobDemandReportsTests(TestDatabase database) {
        super(database);
    }

    private static Place any(String name) {
        return new Place(name, "");
    }

    @Test
    void workers_that_publish_the_same_are_counted_together() {
        jdbc.sql("UPDATE forge_nodes SET executors = ARRAY[E'default\\t10'], worker_capabilities = '{general}'")
                .update();
        for (String status : List.of("joining", "stale", "draining", "dead")) {
            node(UUID.randomUUID(), status);
        }
        jdbc.sql("UPDATE forge_nodes SET executors = ARRAY[E'default\\t99'] WHERE status <> 'active'")
                .update();
        node(UUID.randomUUID(), "active");
        assertThat(demand.workers())
                .as("neither inactive nodes nor one that publishes nothing")
                .containsExactly(new Workers(List.of("default\t10"), Set.of("general"), 2));
    }

    @Test
    void due_jobs_are_counted_by_name_and_capability() {
        rows(3, "name, priority", "'job', 10 * n");
        rows(2, "name, worker_capability, job_group", "'job', 'gpu', 'g'");
        rows(4, "name, scheduled_at", "'job', now() + interval '1 hour'");
        rows(5, "name, unique_key, waits_for", "'job', n::text, gen_random_uuid()");
        rows(6, "name, worker_capability", "'job', '@leader'");
        rows(7, "name, status", "'job', 'completed'");
        rows(1, "name, scheduled_at", "'later', now() + interval '1 hour'");
        rows(1, "name, scheduled_at", "'old', now() - interval '1 hour'");
        Map<Place, Due> due = demand.dueOf(List.of("idle", "job", "later", "old"), List.of(""))
                .places();
        assertThat(due).containsOnlyKeys(any("job"), new Place("job", "gpu"), any("old"));
        assertThat(due.get(any("job"))).extracting(Due::jobs, Due::ungrouped).containsExactly(3L, 3L);
        assertThat(due.get(new Place("job", "gpu")))
                .extracting(Due::jobs, Due::ungrouped)
                .containsExactly(2L, 0L);
        assertThat(due.get(any("old")).oldest()).isBetween(Duration.ofMinutes(60), Duration.ofMinutes(61));
    }

    @Test
    void count_of_due_jobs_stops_and_reads_nothing_else() {
        rows(15_000, "name, priority", "'many', n % 3");
        rows(15_000, "name, scheduled_at", "'future', now() + n * interval '1 second' + interval '1 hour'");
        rows(15_000, "name, status, finished_at", "'many', 'completed', now()");
        rows(5_000, "name, unique_key, waits_for", "'many', n::text, gen_random_uuid()");
        rows(3, "name", "'few'");
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var due = new HashMap<Place, Due>();
        assertThat(reads(() -> due.putAll(demand.dueOf(List.of("few", "future", "many", "nothing"), List.of("", "gpu"))
                        .places())))
                .isLessThan(JobDemandReports.MOST_COUNTED + 200);
        assertThat(due.get(any("many")))
                .extracting(Due::jobs, Due::exact)
                .containsExactly((long) JobDemandReports.MOST_COUNTED, false);
        assertThat(due.get(any("few")).jobs()).isEqualTo(3);
        assertThat(due).doesNotContainKey(any("future"));
    }

    @Test
    void other_names_do_not_hide_those_that_a_node_has_or_had_a_handler_for() {
        rows(12_000, "name", "'junk-' || n");
        rows(2, "name", "'known'");
        rows(1, "name", "'left'");
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('left'), ('idle')").update();
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var names = new AtomicReference<Names>();
        assertThat(reads(() -> names.set(demand.names(List.of("known"))))).isLessThan(25_000);
        assertThat(names.get().known()).containsExactlyInAnyOrder("known", "left");
        assertThat(names.get().others()).hasSize(10_000).allMatch(name -> name.startsWith("junk-"));
        Waiting due = demand.dueOf(names.get().others(), Set.of());
        assertThat(due.places())
                .hasSize(1_000)
                .allSatisfy((place, jobs) -> assertThat(jobs.jobs()).isOne());
        assertThat(due.rest()).hasSize(9_000);
    }

    @Test
    void given_capabilities_come_first_and_the_rest_is_counted_together() {
        rows(12_000, "name, worker_capability", "'job', 'junk-' || n");
        rows(2_000, "name, worker_capability, priority", "'job', 'junk-1', n % 101");
        rows(500, "name, worker_capability, priority", "'job', 'zgpu', n % 7");
        rows(1, "name, worker_capability", "'other', 'tpu'");
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var waiting = new AtomicReference<Waiting>();
        assertThat(reads(() -> waiting.set(demand.dueOf(List.of("job", "other"), List.of("", "zgpu")))))
                .isLessThan(30_000);
        Map<Place, Due> due = waiting.get().places();
        assertThat(due).hasSize(1 + 1_000);
        assertThat(due.get(new Place("job", "zgpu")))
                .extracting(Due::jobs, Due::exact, Due::ungrouped)
                .containsExactly(500L, true, 500L);
        assertThat(due.get(new Place("other", "tpu")).exact())
                .as("the names take turns")
                .isTrue();
        assertThat(due.get(new Place("job", "junk-1")))
                .as("many jobs with a capability that nobody offers")
                .extracting(Due::jobs, Due::exact)
                .containsExactly(100L, false);
        assertThat(waiting.get().rest()).containsOnlyKeys("job");
        assertThat(waiting.get().rest().get("job").exact()).isFalse();
        assertThat(waiting.get().rest().get("job").jobs()).isBetween(8_990L, 9_010L);
    }

    @Test
    void held_jobs_are_those_of_workers() {
        rows(2, "name, status", "'job', 'running'");
        rows(3, "name, status", "'job', 'claimed'");
        rows(1, "name, status, worker_capability", "'job', 'running', 'gpu'");
        rows(1, "name, status, worker_capability", "'cron', 'running', '@leader'");
        rows(1, "name", "'job'");
        assertThat(demand.held())
                .isEqualTo(Map.of(any("job"), new Held(2, 3), new Place("job", "gpu"), new Held(1, 0)));
    }

    @Test
    void states_tell_which_names_are_registered_and_paused() {
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('a'), ('b')").update();
        names.pause("b");
        names.pause("c");
        assertThat(demand.states(List.of("a", "b", "c", "d")))
                .isEqualTo(Map.of(
                        "a", new NameState(true, false),
                        "b", new NameState(true, true),
                        "c", new NameState(false, true),
                        "d", new NameState(false, false)));
    }

    private void limit(String name, String columns, String values) {
        jdbc.sql("INSERT INTO forge_job_limits (name, %s) VALUES ('%s', %s)".formatted(columns, name, values))
                .update();
    }

    @Test
    void limits_are_those_of_handlers() {
        limit("all", "concurrency", "3");
        limit("groups", "group_concurrency", "2");
        limit("rate", "group_rate, group_period, group_burst", "1, interval '1 minute', 4");
        limit("ordered", "ordered", "true");
        assertThat(demand.limits(List.of("all", "groups", "rate", "ordered", "none")))
                .isEqualTo(Map.of(
                        "all", new Limits(3, false),
                        "groups", new Limits(null, true),
                        "rate", new Limits(null, true),
                        "ordered", new Limits(null, true)));
    }

    /** @param names pairs of the name of jobs and that of their handler */
    private Map<Place, Long> startable(String... names) {
        var places = new ArrayList<GroupedPlace>();
        for (int i = 0; i < names.length; i += 2) {
            places.add(new GroupedPlace(any(names[i]), names[i + 1], 1_000));
            places.add(new GroupedPlace(new Place(names[i], "gpu"), names[i + 1], 1_000));
        }
        return demand.startableInGroups(places);
    }

    @Test
    void groups_may_start_what_their_limits_allow() {
        limit("shared", "group_concurrency", "3");
        rows(20, "name, job_group", "'shared', 'a'");
        rows(1, "name, job_group", "'shared', 'b'");
        rows(9, "name, job_group", "'shared', 'full'");
        rows(3, "name, job_group, status", "'shared', 'full', 'running'");
        rows(9, "name, job_group, priority", "'shared', 'c', 80");
        rows(1, "name, job_group, status", "'shared', 'c', 'claimed'");
        rows(9, "name, job_group, scheduled_at", "'shared', 'later', now() + interval '1 hour'");
        rows(9, "name, job_group, worker_capability", "'shared', 'd', 'gpu'");
        rows(9, "name", "'shared'");
        assertThat(startable("shared", "shared"))
                .isEqualTo(Map.of(any("shared"), 3L + 1 + 2, new Place("shared", "gpu"), 3L));
    }

    @Test
    void rates_and_orders_of_groups_limit_what_may_start() {
        limit("rate", "group_rate, group_period, group_burst", "1, interval '1 minute', 4");
        rows(20, "name, job_group", "'rate', 'quiet'");
        rows(20, "name, job_group", "'rate', 'spent'");
        rows(20, "name, job_group", "'alias', 'half'");
        jdbc.sql("""
                INSERT INTO forge_job_rates (name, job_group, next_at)
                VALUES ('rate', 'spent', now() + interval '1 hour'), ('rate', 'half', now() + interval '110 seconds')
                """).update();
        limit("ordered", "ordered", "true");
        rows(5, "name, job_group", "'ordered', 'one'");
        rows(
                1,
                "name, job_group, scheduled_at, created_at",
                "'ordered', 'retry', now() + interval '1 hour', now() - interval '1 day'");
        rows(5, "name, job_group", "'ordered', 'retry'");
        rows(1, "name, job_group, status, created_at", "'ordered', 'busy', 'running', now() - interval '1 day'");
        rows(5, "name, job_group", "'ordered', 'busy'");
        assertThat(startable("rate", "rate", "alias", "rate", "ordered", "ordered"))
                .isEqualTo(Map.of(any("rate"), 4L, any("alias"), 2L, any("ordered"), 1L));
    }

    @Test
    void walk_around_many_groups_is_bounded() {
        limit("shared", "group_concurrency", "1");
        rows(30_000, "name, job_group", "'shared', 'g' || n % 3000");
        rows(3_000, "name, job_group, worker_capability", "'shared', 'g' || n, 'a-' || n");
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var startable = new HashMap<Place, Long>();
        assertThat(reads(() -> startable.putAll(startable("shared", "shared")))).isLessThan(2_500);
        assertThat(startable).isEqualTo(Map.of(any("shared"), 1_000L));
    }

    @Test
    void durations_are_those_of_the_last_completed_jobs() {
        rows(
                10,
                "name, status, started_at, finished_at",
                "'old', 'completed', now() - interval '1 hour', now() - interval '30 minutes'");
        rows(
                20_000,
                "name, status, started_at, finished_at",
                "'crowd', 'completed', now() - interval '9 minutes', now() - interval '9 minutes' + n * interval '1 ms'");
        rows(2, "name, status, started_at, finished_at", "'job', 'completed', now() - n * interval '2 seconds', now()");
        rows(
                1,
                "name, status, started_at, finished_at, retention",
                "'kept', 'completed', now() - interval '4 seconds', now(), interval '1 day'");
        rows(1, "name, status, started_at, finished_at", "'job', 'failed', now() - interval '8 minutes', now()");
        rows(1, "name, status, started_at, finished_at", "'job', 'completed', NULL, now()");
        rows(1, "name, status, started_at, finished_at", "'odd', 'completed', '-infinity', 'infinity'");
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var durations = new HashMap<String, Duration>();
        assertThat(reads(() -> durations.putAll(demand.durations()))).isLessThan(2_100);
        assertThat(durations).containsOnlyKeys("crowd", "job", "kept");
        assertThat(durations.get("job")).isEqualTo(Duration.ofSeconds(3));
        assertThat(durations.get("kept")).isEqualTo(Duration.ofSeconds(4));
    }
}
