// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

@ClusterPostgres
class NodeLoadTests {

    @Test
    void busy_process_shows_its_load_in_its_heartbeat(TestDatabase database) {
        var idle = new AtomicBoolean();
        var busy = new Thread(() -> {
            while (!idle.get()) {
                Thread.onSpinWait();
            }
        });
        busy.setDaemon(true);
        busy.start();
        try {
            TestApplications.on(database)
                    .withPropertyValues("forge.cluster.heartbeat.interval=150ms")
                    .run(context -> await().until(() -> database.jdbc()
                            .sql("SELECT coalesce(max(cpu_usage), 0) > 0 FROM forge_nodes")
                            .query(Boolean.class)
                            .single()));
        } finally {
            idle.set(true);
        }
    }

    @Test
    void load_is_the_share_of_all_processors_since_the_last_measurement() {
        var used = new AtomicLong();
        var time = new AtomicLong();
        var cpu = new ProcessCpu(used::get, time::get);
        assertThat(cpu.load()).as("load before the first measurement").isNull();

        long second = Duration.ofSeconds(1).toNanos();
        time.addAndGet(second);
        used.addAndGet(second / 2 * Runtime.getRuntime().availableProcessors());
        assertThat(cpu.load()).isEqualTo(0.5, within(0.001));
        // A call a moment later returns the last result.
        time.addAndGet(1);
        assertThat(cpu.load()).isEqualTo(0.5, within(0.001));
        time.addAndGet(second);
        assertThat(cpu.load()).isEqualTo(0, within(0.001));
        time.addAndGet(second);
        used.addAndGet(10 * second * Runtime.getRuntime().availableProcessors());
        assertThat(cpu.load()).isEqualTo(1.0);
    }

    @Test
    void load_is_unknown_if_the_platform_does_not_report_it() {
        var time = new AtomicLong();
        var cpu = new ProcessCpu(() -> -1, time::get);
        time.addAndGet(Duration.ofSeconds(1).toNanos());
        assertThat(cpu.load()).isNull();
    }
}
