// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import java.time.Duration;

/**
 * The pauses and timeouts of {@link BrokerCoordinator}.
 *
 * @param probe the pause between two probes that a node sends to itself
 * @param patience how long no probe may return before the link counts as lost; three times as long while a link is opened, which
 *     may mean to load and start the client library
 * @param firstRetry the pause before the next link; doubled after each link that did not work, up to {@code lastRetry}
 * @param lastRetry the longest pause before the next link
 */
record BrokerTiming(Duration probe, Duration patience, Duration firstRetry, Duration lastRetry) {

    static final BrokerTiming DEFAULT = new BrokerTiming(
            Duration.ofSeconds(2), Duration.ofSeconds(5), Duration.ofMillis(250), Duration.ofSeconds(5));

    Duration patience(boolean serving) {
        return serving ? patience : patience.multipliedBy(3);
    }

    /** Returns the pause between two checks of the link. */
    Duration watch() {
        return patience.dividedBy(10);
    }

    Duration nextRetry(Duration retry) {
        Duration doubled = retry.multipliedBy(2);
        return doubled.compareTo(lastRetry) < 0 ? doubled : lastRetry;
    }
}
