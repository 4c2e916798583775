// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestInstance;

/** Measures how long a hundred tests take; the subclasses differ in their means. To be run one by one, each in a new JVM. */
@Tag("soak")
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class MeasuredTests {

    static final int TESTS = 100;

    private final List<Long> ends = new ArrayList<>();

    /** Called at the end of each test: the time between two ends includes what happens before a test. */
    void ended() {
        ends.add(System.nanoTime());
    }

    @AfterAll
    void print() {
        long sinceStart = System.currentTimeMillis()
                - ManagementFactory.getRuntimeMXBean().getStartTime();
        Duration further = Duration.ofNanos(ends.get(ends.size() - 1) - ends.get(0));
        System.out.printf(
                "%s: first test %d ms after the start of the JVM, %d further tests %d ms, %.1f ms each%n",
                getClass().getSimpleName(),
                sinceStart - further.toMillis(),
                ends.size() - 1,
                further.toMillis(),
                further.toNanos() / 1e6 / (ends.size() - 1));
    }
}
