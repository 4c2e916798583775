// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal;

import java.time.Duration;
import org.awaitility.Awaitility;
import org.awaitility.core.ConditionFactory;

/** Waits up to a minute for conditions, so that a busy machine delays a test instead of failing it. */
public final class PatientAwaits {

    private PatientAwaits() {}

    public static ConditionFactory await() {
        return Awaitility.await().atMost(Duration.ofMinutes(1));
    }

    /** Polls every few milliseconds, for short-lived states. */
    public static ConditionFactory awaitOften() {
        return await().pollDelay(Duration.ZERO).pollInterval(Duration.ofMillis(5));
    }
}
