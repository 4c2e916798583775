// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonStore.Change;
import dev.forge.cluster.internal.daemon.DaemonStore.Tenure;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class DaemonRowStateTests {

    private static final Duration RAN = Duration.ofSeconds(3);

    private final DaemonRowState row = new DaemonRowState(0);

    private Change change(DaemonStatus status) {
        return row.unwritten(new Tenure("feed", 0, UUID.randomUUID(), 1), status, RAN, false);
    }

    @Test
    void start_is_written_even_if_the_method_has_failed_by_then() {
        row.startAgain();
        row.error("broken");
        row.touch();
        Change failed = change(DaemonStatus.FAILED);
        assertThat(failed.ranFor()).isEqualTo(RAN);
        assertThat(failed.error()).isEqualTo("broken");
    }

    @Test
    void start_is_written_once() {
        row.startAgain();
        row.written(change(DaemonStatus.RUNNING), row.revision());
        assertThat(change(DaemonStatus.RUNNING)).isNull();
        row.note("fed");
        assertThat(change(DaemonStatus.RUNNING).ranFor()).isNull();
    }

    @Test
    void start_that_follows_while_another_is_being_written_is_written_too() {
        row.startAgain();
        Change first = change(DaemonStatus.RUNNING);
        int revision = row.revision();
        row.startAgain();
        row.written(first, revision);
        assertThat(change(DaemonStatus.RUNNING).ranFor()).isEqualTo(RAN);
    }

    @Test
    void instance_that_was_never_started_has_no_start() {
        row.touch();
        assertThat(change(DaemonStatus.PENDING).ranFor()).isNull();
    }
}
