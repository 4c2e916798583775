// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.job.operations.JobDemand.Entry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The gauges of the demand. */
class DemandGaugesTests {

    private static Entry entry(String name, @Nullable String capability, long due, int slots) {
        return new Entry(
                name,
                capability,
                "default",
                new JobCount(due, true),
                Duration.ofSeconds(due),
                due,
                0,
                slots,
                1,
                null,
                false);
    }

    @Test
    void names_and_capabilities_that_anybody_may_make_up_have_few_gauges() {
        var entries = new ArrayList<Entry>();
        for (int i = 0; i < 3_000; i++) {
            entries.add(entry("train", "junk-" + i, 1, 0));
        }
        for (int i = 0; i < 200; i++) {
            entries.add(entry("job-" + i, "gpu", 0, 4));
        }
        entries.add(entry("left", "tpu", 7, 0));
        var registry = new SimpleMeterRegistry();
        var gauges = new DemandGauges(registry, "orders", Duration.ofMinutes(1));
        gauges.publish(new JobDemand(entries, List.of(), List.of()));
        assertThat(registry.get("forge.cluster.jobs.due").gauges()).hasSize(200 + 100 + 1);
        assertThat(registry.get("forge.cluster.jobs.due")
                        .tags("job", "left", "capability", "tpu")
                        .gauge()
                        .value())
                .isEqualTo(7);
        assertThat(registry.get("forge.cluster.jobs.due")
                        .tags("job", "(other)", "executor", "(other)", "capability", "(other)")
                        .gauge()
                        .value())
                .isEqualTo(3_000 - 99);
        gauges.publish(new JobDemand(List.of(), List.of(), List.of()));
        assertThat(registry.find("forge.cluster.jobs.due").gauges()).isEmpty();
    }

    @Test
    void capability_with_the_name_of_none_hides_nothing() {
        var registry = new SimpleMeterRegistry();
        var gauges = new DemandGauges(registry, "orders", Duration.ofMinutes(1));
        gauges.publish(new JobDemand(
                List.of(entry("mail", null, 299, 6), entry("mail", "none", 1, 0), entry("mail", "'none", 2, 0)),
                List.of(),
                List.of()));
        assertThat(due(registry, "none")).isEqualTo(299);
        assertThat(due(registry, "'none")).isEqualTo(1);
        assertThat(due(registry, "''none")).isEqualTo(2);
    }

    private static double due(SimpleMeterRegistry registry, String capability) {
        return registry.get("forge.cluster.jobs.due")
                .tags("job", "mail", "capability", capability)
                .gauge()
                .value();
    }
}
