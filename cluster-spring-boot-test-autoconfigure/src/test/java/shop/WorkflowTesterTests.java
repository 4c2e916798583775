// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.WorkflowReplayer.Difference;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.jdbc.core.simple.JdbcClient;

@ClusterTest
class WorkflowTesterTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Workflows workflows;

    @Autowired
    private Checkout checkout;

    @Autowired
    private JdbcClient jdbc;

    @BeforeEach
    void forgetCalls() {
        checkout.calls.clear();
    }

    private UUID start() {
        return workflows.start("checkout", new Checkout.Order("ada"));
    }

    @Test
    void waits_three_days_and_completes() {
        UUID run = start();
        cluster.runAllDue();
        assertThat(cluster.workflow(run))
                .waitsUntil(cluster.clock().instant().plus(Duration.ofDays(3)))
                .hasCompletedSteps("reserve", "charge");
        assertThat(cluster.skipWait(run)).waitsForSignal("confirmed");
        assertThat(cluster.signal(run, "confirmed", null)).isCompleted().hasExecuted("reserve", "charge", "ship");
        assertThat(workflows.result(run, String.class)).contains("shipped to ada");
        assertThat(cluster.workflow(run)).hasResult("shipped to ada");
    }

    @Test
    void timeout_of_the_signal_compensates_in_reverse_order() {
        UUID run = start();
        cluster.skipWait(run);
        assertThat(cluster.skipWait(run)).hasStatus(WorkflowStatus.COMPENSATED).hasCompensated("charge", "reserve");
        assertThat(checkout.calls).containsExactly("reserve", "charge", "refund", "release");
        assertThat(cluster.workflow(run)).hasErrorContaining("not confirmed");
    }

    @Test
    void step_that_fails_is_tried_again() {
        UUID run = start();
        cluster.failStep("charge", 2);
        cluster.skipWait(run);
        cluster.skipWait(run);
        assertThat(cluster.workflow(run)).hasExecuted("reserve", "charge");
        assertThat(checkout.calls).containsExactly("reserve", "charge");
    }

    @Test
    void crash_before_a_step_repeats_nothing() {
        UUID run = start();
        cluster.crashBeforeStep("charge");
        cluster.runFor(Duration.ofMinutes(1));
        assertThat(cluster.workflow(run)).hasExecuted("reserve", "charge");
        assertThat(checkout.calls).containsExactly("reserve", "charge");
    }

    @Test
    void crash_after_a_step_repeats_nothing() {
        UUID run = start();
        cluster.crashAfterStep("reserve");
        cluster.crashAfterStep("charge");
        cluster.runFor(Duration.ofMinutes(1));
        assertThat(checkout.calls).containsExactly("reserve", "charge");
        assertThat(cluster.workflow(run)).hasStatus(WorkflowStatus.WAITING);
    }

    @Test
    void replay_of_a_compatible_run_passes() {
        UUID completed = start();
        cluster.skipWait(completed);
        cluster.signal(completed, "confirmed", null);
        UUID waiting = start();
        cluster.runAllDue();
        checkout.calls.clear();
        assertThat(cluster.replayer().replay(exported(completed) + "\n" + exported(waiting)))
                .isEmpty();
        cluster.replayer().requireCompatible("[%s, %s]".formatted(exported(completed), exported(waiting)));
        assertThat(checkout.calls).as("replays execute nothing").isEmpty();
    }

    @Test
    void replay_of_an_incompatible_run_names_the_first_difference() {
        UUID run = start();
        cluster.runAllDue();
        String renamed = exported(run).replace("\"charge\"", "\"bill\"");
        List<Difference> differences = cluster.replayer().replay(renamed);
        assertThat(differences)
                .extracting(Difference::message)
                .containsExactly(
                        "History mismatch at position 1: recorded step 'bill', but the method calls step 'charge'");
        assertThatThrownBy(() -> cluster.replayer().requireCompatible(renamed))
                .isInstanceOf(AssertionError.class)
                .hasMessageContaining("checkout@1")
                .hasMessageContaining(run.toString());
    }

    @Test
    void replay_of_a_run_that_ended_earlier_names_the_new_call() {
        UUID run = start();
        cluster.runAllDue();
        jdbc.sql("UPDATE forge_workflow_runs SET status = 'completed'").update();
        jdbc.sql("DELETE FROM forge_workflow_steps WHERE kind = 'sleep'").update();
        assertThat(cluster.replayer().replay(exported(run)))
                .extracting(Difference::message)
                .containsExactly("The recorded run completed after 2 calls, but the method calls sleep 'cooling-off'");
    }

    @Test
    void replay_refuses_what_is_no_export() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> cluster.replayer().replay(" "))
                .withMessageContaining("empty");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> cluster.replayer().replay("{"))
                .withMessageContaining("JSON");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> cluster.replayer().replay("{\"id\": \"%s\"}".formatted(UUID.randomUUID())))
                .withMessageContaining("'name'");
        String other = exported(start()).replace("\"checkout\"", "\"unknown\"");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> cluster.replayer().replay(other))
                .withMessageContaining("unknown@1");
    }

    /** The statement of the guide. */
    private String exported(UUID run) {
        return jdbc.sql("""
                SELECT jsonb_build_object('id', r.id, 'name', r.workflow_name, 'version', r.workflow_version, 'status', r.status,
                    'input', r.input, 'steps', coalesce((
                        SELECT jsonb_agg(jsonb_build_object('position', s.position, 'name', s.name, 'kind', s.kind,
                            'status', s.status, 'attempts', s.attempts, 'result', s.result, 'lastError', s.last_error,
                            'wakeAt', s.wake_at) ORDER BY s.position)
                        FROM forge_workflow_steps s WHERE s.run_id = r.id), '[]'))
                FROM forge_workflow_runs r WHERE r.id = ?
                """).params(run).query(String.class).single();
    }
}
