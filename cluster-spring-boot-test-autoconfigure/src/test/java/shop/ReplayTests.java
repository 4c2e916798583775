// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.WorkflowReplayer.Difference;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.transaction.annotation.Transactional;

/** Replays of exported runs: the texts that are accepted, and where a replay may be called. */
@ClusterTest
class ReplayTests {

    private static final String WAITING = """
            {
              "id": "01a1efbf-0000-7000-8000-000000000001", "name": "checkout", "version": "1", "status": "waiting",
              "input": {"customer": "x"},
              "steps": [
                {"position": 0, "name": "reserve", "kind": "step", "status": "completed", "attempts": 1, "result": "x"},
                {"position": 1, "name": "charge", "kind": "step", "status": "completed", "attempts": 2, "result": "x"},
                {"position": 2, "name": "cooling-off", "kind": "sleep", "status": "waiting", "attempts": 0,
                 "wakeAt": "2026-11-20T08:00:00+00:00"}
              ]
            }
            """;

    @Autowired
    private ClusterTester cluster;

    @Test
    @Transactional
    void transaction_of_the_test_does_not_disturb_a_replay() {
        assertThat(cluster.replayer().replay(WAITING)).isEmpty();
        assertThat(cluster.replayer().replay(WAITING.replace("charge", "bill")))
                .extracting(Difference::message)
                .containsExactly(
                        "History mismatch at position 1: recorded step 'bill', but the method calls step 'charge'");
    }

    @Test
    void one_printed_run_or_an_array_of_them_is_replayed() {
        assertThat(cluster.replayer().replay(WAITING)).isEmpty();
        assertThat(cluster.replayer().replay("[%s, %s]".formatted(WAITING, WAITING)))
                .isEmpty();
    }

    @Test
    void several_printed_runs_without_an_array_are_refused() {
        for (String text : new String[] {WAITING + WAITING, "[%s] [%s]".formatted(WAITING, WAITING)}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> cluster.replayer().replay(text))
                    .withMessageStartingWith(
                            "The export is not valid JSON. Expected one run as an object, several as an array, or one object per line: ");
        }
    }

    @Test
    void replay_that_would_compare_nothing_is_refused() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> cluster.replayer().requireCompatible("[]"))
                .withMessage("The export is an empty array: there is no run to replay");
        String run = WAITING.substring(0, WAITING.indexOf("\"steps\"")).stripTrailing();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> cluster.replayer().requireCompatible(run.substring(0, run.length() - 1) + "}"))
                .withMessageStartingWith("The export lacks 'steps'");
        assertThatIllegalArgumentException()
                .isThrownBy(() ->
                        cluster.replayer().requireCompatible(WAITING.replace("\"position\": 1", "\"position\": 0")))
                .withMessageContaining("position 0 twice");
    }
}
