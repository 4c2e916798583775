// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import static org.assertj.core.api.Assertions.assertThat;
import static org.mockito.Mockito.mock;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.resource.DemandResource.Demand;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.job.operations.JobDemand.Entry;
import dev.forge.cluster.job.operations.JobDemand.Total;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The demand in the endpoint. */
class DemandResourceTests {

    private static Entry train(@Nullable String capability, long due, int slots, @Nullable Duration mean) {
        return new Entry(
                "train",
                capability,
                "ml",
                new JobCount(due, due < 10),
                Duration.ofSeconds(due),
                due,
                1,
                slots,
                1,
                mean,
                false);
    }

    @Test
    void name_has_one_total_of_all_its_capabilities() {
        List<Entry> entries =
                List.of(train(null, 4, 7, Duration.ofSeconds(30)), train("gpu", 10, 5, Duration.ofSeconds(30)));
        var demand = new JobDemand(entries, List.of(new Total("ml", 7, entries)), List.of());
        Demand read = new DemandResource(() -> demand, Duration.ofMinutes(1), () -> 0).read();
        Map<String, Object> total = Map.of(
                "due",
                14L,
                "dueIsExact",
                false,
                "oldestDueSeconds",
                10.0,
                "startable",
                14L,
                "running",
                2L,
                "slots",
                7,
                "neededSlots",
                1L + 2 + 1 + 5,
                "drainSeconds",
                60.0);
        assertThat(read.names().get("train"))
                .containsAllEntriesOf(total)
                .containsEntry("executor", "ml")
                .containsEntry("paused", false);
        assertThat(read.all().get("total")).isEqualTo(total);
        assertThat(read.all().get("executors")).isEqualTo(Map.of("ml", total));
    }

    @Test
    void unknown_time_to_drain_is_absent() {
        List<Entry> entries = List.of(train(null, 4, 7, null));
        var demand = new JobDemand(entries, List.of(new Total("ml", 7, entries)), List.of());
        assertThat((JsonObject) new DemandResource(() -> demand, Duration.ofMinutes(1), () -> 0)
                        .read()
                        .all()
                        .get("total"))
                .containsKey("due")
                .doesNotContainKey("drainSeconds");
    }

    @Test
    void recent_response_waits_for_no_other_reader() throws Exception {
        var clock = new AtomicLong();
        var reading = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        var reads = new AtomicInteger();
        var resource = new DemandResource(
                () -> {
                    if (reads.incrementAndGet() == 2) {
                        reading.countDown();
                        await(go);
                    }
                    return new JobDemand(List.of(), List.of(), List.of());
                },
                Duration.ofMinutes(1),
                clock::get);
        var operations = new ClusterOperations(mock(AuditTrail.class), List.of(resource));
        Caller caller = new Caller(true, "scaler", null, AuditSource.ENDPOINT);
        operations.read(caller, List.of("demand"), Map.of());
        clock.set(Duration.ofSeconds(6).toNanos());
        var late = new Thread(() -> operations.read(caller, List.of("demand"), Map.of()));
        late.start();
        try {
            await(reading);
            // A reader that looked at the clock a little earlier.
            clock.set(Duration.ofSeconds(5).toNanos());
            assertThat(operations.read(caller, List.of("demand"), Map.of()))
                    .isNotInstanceOf(OperationResult.Busy.class);
        } finally {
            go.countDown();
            late.join();
        }
        assertThat(reads).hasValue(2);
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(1, TimeUnit.MINUTES)).isTrue();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void response_is_used_again_for_five_seconds() {
        var clock = new AtomicLong();
        var reads = new AtomicInteger();
        var resource = new DemandResource(
                () -> {
                    reads.incrementAndGet();
                    return new JobDemand(List.of(), List.of(), List.of());
                },
                Duration.ofMinutes(1),
                clock::get);
        resource.read();
        clock.set(Duration.ofSeconds(5).toNanos());
        resource.read();
        assertThat(reads).hasValue(1);
        clock.incrementAndGet();
        resource.read();
        assertThat(reads).hasValue(2);
    }
}
