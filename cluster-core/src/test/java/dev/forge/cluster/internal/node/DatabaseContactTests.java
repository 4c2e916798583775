// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.runtime.Pace;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;

class DatabaseContactTests {

    private final AtomicLong nanos = new AtomicLong(Duration.ofDays(1).toNanos());
    private final Pace pace = new Pace(nanos::get, RandomGenerator.getDefault());
    private final DatabaseContact contact = new DatabaseContact(pace, Duration.ofMillis(250));

    private void pass(Duration time) {
        nanos.addAndGet(time.toNanos());
    }

    @Test
    void node_is_not_trusted_before_its_first_heartbeat() {
        contact.answered(nanos.get());
        assertThat(contact.isTrusted()).isFalse();
    }

    @Test
    void node_is_trusted_for_less_time_than_others_wait_before_they_declare_it_dead() {
        contact.beatRecorded(nanos.get(), Duration.ofSeconds(10));
        pass(Duration.ofMillis(7_999));
        assertThat(contact.isTrusted()).isTrue();
        pass(Duration.ofMillis(1));
        assertThat(contact.isTrusted()).isFalse();
    }

    @Test
    void slow_response_to_a_heartbeat_shortens_trust() {
        long sent = nanos.get();
        pass(Duration.ofSeconds(5));
        contact.beatRecorded(sent, Duration.ofSeconds(10));
        pass(Duration.ofSeconds(3));
        assertThat(contact.isTrusted()).isFalse();
    }

    @Test
    void node_with_a_slow_heartbeat_is_not_trusted_long_without_any_response() {
        contact.beatRecorded(nanos.get(), Duration.ofMinutes(3));
        pass(Duration.ofSeconds(11));
        assertThat(contact.isTrusted()).isTrue();
        contact.answered(nanos.get());
        pass(Duration.ofSeconds(11));
        assertThat(contact.isTrusted()).isTrue();
        pass(Duration.ofSeconds(1));
        assertThat(contact.isTrusted()).isFalse();
    }

    @Test
    void response_proves_contact_since_its_statement_was_sent() {
        long sent = nanos.get();
        pass(Duration.ofSeconds(1));
        contact.answered(sent);
        assertThat(contact.hasAnsweredSince(sent - 1)).isTrue();
        assertThat(contact.hasAnsweredSince(sent)).isFalse();
        assertThat(contact.sinceLastAnswer()).isZero();
    }

    @Test
    void contact_is_lost_later_in_a_large_cluster_which_looks_less_often() {
        contact.answered(nanos.get());
        pass(Duration.ofSeconds(4));
        assertThat(contact.isRecent()).isTrue();
        pass(Duration.ofSeconds(1));
        assertThat(contact.isRecent()).isFalse();
        pace.liveNodes(400);
        assertThat(contact.isRecent()).isTrue();
    }
}
