// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import shop.Mailing.Ship;

@ClusterTest
@ExtendWith(OutputCaptureExtension.class)
class MovedTimeTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @Autowired
    private Crons crons;

    @Test
    void crons_fire_at_their_slots_across_a_clock_change() {
        // On 28 March 2027 the clocks of Berlin go from 2:00 to 3:00: there is no 2:30.
        cluster.beginAt(Instant.parse("2027-03-27T12:00:00Z"));
        assertThat(crons)
                .fires("nightly-report")
                .at(LocalDateTime.of(2027, 3, 27, 2, 30), LocalDateTime.of(2027, 3, 29, 2, 30))
                .notAt(Instant.parse("2027-03-28T01:30:00Z"))
                .timesIn(2027, 364);
        cluster.runFor(Duration.ofDays(3));
        assertThat(slots()).containsExactly("2027-03-29T00:30:00Z", "2027-03-30T00:30:00Z");
    }

    @Test
    void misfire_after_three_days_fires_once() {
        cluster.beginAt(Instant.parse("2027-06-01T12:00:00Z"));
        cluster.runAllDue();
        cluster.clock().advance(Duration.ofDays(3));
        assertThat(cluster.runAllDue()).hasSize(1);
    }

    @Test
    void slots_of_a_part_without_crons_are_left_out_for_good() {
        cluster.beginAt(Instant.parse("2027-06-01T12:00:00Z"));
        cluster.withoutCrons(
                () -> assertThat(cluster.runFor(Duration.ofDays(3))).isEmpty());
        assertThat(cluster.runAllDue()).isEmpty();
        assertThat(cluster.runFor(Duration.ofDays(1))).hasSize(1);
        assertThat(slots()).containsExactly("2027-06-05T00:30:00Z");
    }

    @Test
    void moved_time_is_nothing_to_warn_of(CapturedOutput output) {
        jobs.enqueue(new Ship("ada"), JobOptions.defaults().withDelay(Duration.ofDays(2)));
        cluster.runFor(Duration.ofDays(7));
        cluster.clock().advance(Duration.ofDays(3));
        cluster.runAllDue();
        cluster.beginAt(Instant.parse("2027-06-01T12:00:00Z"));
        cluster.runAllDue();
        cluster.beginAt(Instant.parse("2040-06-01T12:00:00Z"));
        cluster.runAllDue();
        cluster.cleanUp();
        // Pools of other tests, whose server has gone, warn meanwhile.
        assertThat(output.getAll().lines().filter(line -> line.contains(".forge.cluster")))
                .noneMatch(line -> line.contains(" WARN ") || line.contains(" ERROR "));
    }

    @Test
    void unique_window_follows() {
        JobOptions once = JobOptions.defaults().withUniqueKey("eve").withUniqueFor(Duration.ofHours(1));
        UUID first = jobs.enqueue(new Ship("eve"), once).id();
        cluster.runAllDue();
        assertThat(jobs.enqueue(new Ship("eve"), once).created()).isFalse();
        cluster.clock().advance(Duration.ofMinutes(59));
        assertThat(jobs.enqueue(new Ship("eve"), once).id()).isEqualTo(first);
        cluster.clock().advance(Duration.ofMinutes(2));
        assertThat(jobs.enqueue(new Ship("eve"), once).created()).isTrue();
    }

    @Test
    void retention_follows() {
        UUID id = cluster.perform(new Ship("ada")).id();
        cluster.cleanUp();
        assertThat(jobs.find(id)).isPresent();
        cluster.clock().advance(Duration.ofDays(60));
        cluster.cleanUp();
        assertThat(jobs.find(id)).isEmpty();
    }

    @Test
    void lock_of_a_live_holder_stays_held(@Autowired ClusterLocks locks) {
        try (ClusterLock held = locks.tryLock("stock").orElseThrow()) {
            cluster.clock().advance(Duration.ofDays(1));
            assertThat(locks.tryLock("stock")).as("beside %s", held).isEmpty();
        }
    }

    @Test
    void time_does_not_go_back() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> cluster.clock().advance(Duration.ofSeconds(-1)))
                .withMessageContaining("beginAt");
    }

    private List<String> slots() {
        return crons.runs("nightly-report", 100).items().stream()
                .map(CronRun::slot)
                .sorted()
                .map(Instant::toString)
                .toList();
    }
}
