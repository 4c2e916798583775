// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.enqueue.JobAnnouncements.Received;
import dev.forge.cluster.internal.job.row.Queue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JobAnnouncementsTests {

    @Test
    void announcement_of_one_queue_names_it() {
        assertThat(JobAnnouncements.received("work node\n50\n\ngpu\nrender: a film"))
                .isEqualTo(new Received("node", Queue.ungrouped("render: a film", "gpu", 50)));
        assertThat(JobAnnouncements.received("work node\n50\n\n\nrender"))
                .isEqualTo(new Received("node", Queue.ungrouped("render", "", 50)));
        assertThat(JobAnnouncements.received("work node\n50\ngrouped\n\nrender"))
                .isEqualTo(new Received("node", new Queue("render", "", 50, true)));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"work node", "work node\nhigh\n\n\nrender", "work node\n50", "work node\n99999999999\n\n\nx"})
    void announcement_of_an_unknown_queue_requests_a_search(String news) {
        assertThat(JobAnnouncements.received(news)).isEqualTo(new Received("node", null));
    }

    @Test
    void other_notifications_announce_no_jobs() {
        assertThat(JobAnnouncements.received("crons")).isNull();
        assertThat(JobAnnouncements.received("")).isNull();
    }
}
