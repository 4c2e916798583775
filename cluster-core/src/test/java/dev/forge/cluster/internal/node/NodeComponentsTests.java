// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.runtime.Loop;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.slf4j.event.Level;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** The drain of components, on a clock that only they move. */
class NodeComponentsTests {

    private final AtomicLong nanos = new AtomicLong();
    private final DeferredInterrupts interrupts = new DeferredInterrupts();
    private final NodeComponents components = new NodeComponents(
            new Loop.Environment(new ThreadPoolTaskScheduler(), nanos::get, since -> true),
            interrupts,
            Runnable::run,
            () -> false);
    private final List<String> calls = new ArrayList<>();

    /** A component whose executions take that long to end. */
    private final class Busy implements NodeComponent {

        private final String name;
        private final Duration takes;

        private Busy(String name, Duration takes) {
            this.name = name;
            this.takes = takes;
        }

        @Override
        public void quiesce() {
            calls.add(name + " quiesces");
        }

        @Override
        public boolean awaitIdle(Duration patience) {
            calls.add(name + " may take " + patience.toSeconds() + " s");
            boolean idle = takes.compareTo(patience) <= 0;
            nanos.addAndGet((idle ? takes : patience).toNanos());
            return idle;
        }

        @Override
        public void release() {
            calls.add(name + " releases");
        }
    }

    private void drain() {
        components.drain(UUID.randomUUID(), Duration.ofSeconds(30), Level.DEBUG);
    }

    @Test
    void components_share_the_drain_timeout_and_nothing_begins_meanwhile() {
        components.register(new Busy("one", Duration.ofSeconds(20)));
        components.register(new Busy("two", Duration.ofSeconds(20)));
        components.register(new Busy("three", Duration.ZERO));
        drain();
        assertThat(calls)
                .containsExactly(
                        "one quiesces",
                        "two quiesces",
                        "three quiesces",
                        "one may take 30 s",
                        "two may take 10 s",
                        "two releases",
                        "three may take 0 s");
    }

    @Test
    void interrupt_ends_the_wait_but_returns_the_work_of_each_component() {
        components.register(new Busy("one", Duration.ofSeconds(20)));
        interrupts.run(() -> {
            Thread.currentThread().interrupt();
            interrupts.absorb();
            drain();
        });
        assertThat(Thread.interrupted()).isTrue();
        assertThat(calls).containsExactly("one quiesces", "one may take 0 s", "one releases");
    }
}
