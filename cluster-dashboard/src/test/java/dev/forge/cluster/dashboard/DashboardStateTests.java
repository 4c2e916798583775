// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What the pages say about the state of jobs, runs and nodes, and which actions they offer in it. */
class DashboardStateTests extends DashboardPages {

    private List<String> buttons() {
        return browser.run(
                        "return [...document.querySelectorAll('main .actions button')].map((each) => each.innerText)")
                .valueStream()
                .map(each -> each.asString())
                .toList();
    }

    private void awaitText(String text) {
        browser.await("document.querySelector('main').innerText.includes(arguments[0])", text);
    }

    private String cell(UUID row, String title) {
        return browser.run(
                        "return document.querySelector(`td[data-label='Id'] a[aria-label$='${arguments[0]}']`).closest('tr').querySelector(`td[data-label='${arguments[1]}']`).innerText",
                        row.toString(),
                        title)
                .asString();
    }

    // What needs attention ----------------------------------------------------------------------------------

    @Test
    void overview_leads_to_the_failed_runs_of_a_workflow() {
        UUID run = run("payment", WorkflowStatus.FAILED);
        open("");
        browser.click("a[aria-label='Open failed workflows payment@1']");
        browser.await("location.search.includes('status=failed')");
        browser.await("document.querySelector(`a[aria-label='Run ${arguments[0]}']`)", run.toString());
        assertCleanConsole();
    }

    @Test
    void overview_leads_to_the_only_failed_job_of_a_name() {
        UUID job = ended("charge", Map.of("card", "invalid"), JobStatus.FAILED);
        open("");
        browser.click("a[aria-label='Open failed jobs charge']");
        browser.await("document.querySelector(`a[aria-label='Job ${arguments[0]}']`)", job.toString());
        assertCleanConsole();
    }

    private void deadNode(String name, String key, String lastHeartbeat) {
        jdbc.sql("""
                        INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, started_at, last_heartbeat,
                                                 stale_at, dead_at)
                        VALUES (gen_random_uuid(), :key, :name, 'far-away', '{worker}', 'dead', '1', now() - interval '2 days',
                                now() - :age::interval, now(), now() + interval '1 day')
                        """)
                .param("key", key)
                .param("name", name)
                .param("age", lastHeartbeat)
                .update();
    }

    @Test
    void dead_rows_of_a_node_that_has_restarted_are_not_on_the_overview() {
        for (int i = 1; i <= 5; i++) {
            deadNode("shop-1", "shop-1-former-" + i, i + " days");
        }
        deadNode("lost", "lost-1", "30 minutes");
        open("");
        String rows = "[...document.querySelectorAll(\"[aria-label='Nodes'] tbody tr\")]";
        browser.await(rows + ".some((row) => row.innerText.includes('lost'))");
        assertThat(browser.run("return " + rows + ".filter((row) => row.innerText.includes('shop-1')).length")
                        .asInt())
                .isEqualTo(1);
        open("?page=nodes&q=shop-1");
        browser.await("document.querySelectorAll('tbody tr').length === 6");
        jdbc.sql("DELETE FROM forge_nodes WHERE hostname = 'far-away'").update();
    }

    // Runs --------------------------------------------------------------------------------------------------

    /** Pretends that the method had another step before all others. */
    private void changeHistory(UUID run) {
        jdbc.sql("UPDATE forge_workflow_steps SET position = position + 1 WHERE run_id = ?")
                .param(run)
                .update();
        jdbc.sql("""
                INSERT INTO forge_workflow_steps (run_id, position, name, status, started_at, finished_at)
                VALUES (?, 0, 'removed', 'completed', now(), now())
                """).param(run).update();
    }

    private void restoreHistory(UUID run) {
        jdbc.sql("DELETE FROM forge_workflow_steps WHERE run_id = ? AND position = 0")
                .param(run)
                .update();
        jdbc.sql("UPDATE forge_workflow_steps SET position = position - 1 WHERE run_id = ?")
                .param(run)
                .update();
    }

    @Test
    void blocked_run_is_retried_and_does_not_wait_for_the_signal_that_it_got() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        changeHistory(run);
        workflows.signal(run, "approve", "yes");
        awaitRun(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH);
        open("?page=workflows&id=" + run);
        assertThat(text())
                .contains("Why is it blocked?", "Signals that were sent and not consumed", "approve")
                .doesNotContain("Waits for a signal");
        assertThat(browser.run("return [...document.querySelectorAll('.steps .badge')].map((each) => each.innerText)")
                        .valueStream()
                        .map(each -> each.asString())
                        .toList())
                .containsExactly("completed", "delivered");
        restoreHistory(run);
        operate("Retry run " + run, "the method is back");
        awaitRun(run, WorkflowStatus.COMPLETED);
        browser.await("!document.querySelector('#signals')");
        assertCleanConsole();
    }

    @Test
    void signals_that_nobody_has_awaited_are_named() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        workflows.signal(run, "reject", null);
        workflows.signal(run, "reject", null);
        open("?page=workflows&id=" + run);
        assertThat(browser.run("return document.querySelector('#signals').innerText")
                        .asString())
                .contains("reject (2)");
        assertThat(text()).contains("Waits for a signal", "approve");
        open("?page=workflows&name=approval");
        assertThat(cell(run, "Status")).contains("for signal approve");
        logIn("vic");
        open("?page=workflows&id=" + run);
        assertThat(text()).contains("******").doesNotContain("reject", "approve");
        open("?page=workflows&name=approval");
        assertThat(cell(run, "Status")).contains("for signal ******");
        workflows.cancel(run, "test");
    }

    @Test
    void run_that_compensates_offers_no_second_cancellation() {
        UUID run = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status, unwinding)
                VALUES (?, 'approval', '1', 'compensating', true)
                """).param(run).update();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, carries_run, scheduled_at)
                VALUES (?, 'workflow:approval@1', true, now() + interval '1 day')
                """).param(run).update();
        open("?page=workflows&id=" + run);
        assertThat(buttons()).doesNotContain("Cancel run");
    }

    @Test
    void compensation_has_a_bar_of_its_own() {
        UUID run = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status, created_at, finished_at, last_error)
                VALUES (?, 'trip', '1', 'compensated', now() - interval '100 seconds', now(), 'no seats')
                """).param(run).update();
        jdbc.sql("""
                INSERT INTO forge_workflow_steps (run_id, position, name, status, attempts, compensation_attempts, started_at,
                                                  finished_at, compensation_started_at, compensated_at)
                VALUES (?, 0, 'hotel', 'compensated', 1, 1, now() - interval '100 seconds', now() - interval '80 seconds',
                        now() - interval '50 seconds', now() - interval '25 seconds')
                """).param(run).update();
        open("?page=workflows&id=" + run);
        assertThat(browser.run(
                                "return [...document.querySelectorAll('.track span')].map((each) => each.className + ' ' + Math.round(parseFloat(each.style.left)) + ' ' + Math.round(parseFloat(each.style.width)))")
                        .valueStream()
                        .map(each -> each.asString())
                        .toList())
                .containsExactly("fill good 0 20", "fill warn 50 25");
    }

    @Test
    void end_of_a_wait_is_its_deadline() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() + interval '1 hour' WHERE id = ?")
                .param(run)
                .update();
        open("?page=workflows&id=" + run);
        assertThat(text()).contains("Deadline").doesNotContain("Resumes");
        open("?page=workflows&name=approval");
        assertThat(cell(run, "Resumes")).contains("deadline");
        open("?page=jobs&name=workflow:approval@1");
        assertThat(cell(run, "Status")).contains("for its run");
        workflows.cancel(run, "test");
    }

    @Test
    void run_that_has_ended_does_not_show_the_progress_of_its_middle() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        jdbc.sql("UPDATE forge_jobs SET progress = '{\"percent\": 40, \"message\": \"asked the boss\"}' WHERE id = ?")
                .param(run)
                .update();
        open("?page=workflows&id=" + run);
        assertThat(text()).contains("40 %", "asked the boss");
        workflows.signal(run, "approve", "yes");
        awaitRun(run, WorkflowStatus.COMPLETED);
        awaitText("completed");
        browser.await("!document.querySelector('main [aria-label=Progress]')");
        assertThat(text()).doesNotContain("40 %", "asked the boss");
    }

    // Jobs --------------------------------------------------------------------------------------------------

    @Test
    void job_of_a_run_leads_to_the_run_instead_of_offering_actions() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        open("?page=jobs&id=" + run);
        assertThat(buttons()).isEmpty();
        browser.click("#run");
        browser.await("location.search.includes('page=workflows')");
        browser.await(
                "[...document.querySelectorAll('main .actions button')].some((each) => each.innerText === 'Cancel run')");
        open("?page=jobs&name=workflow:approval@1");
        assertThat(buttons()).isEmpty();
        assertThat(text()).contains("runs of workflows");
        assertThat(cell(run, "Status")).contains("for its run");
        workflows.cancel(run, "test");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    status=pending         | Reschedule,Cancel
                    status=running         | Cancel
                    status=completed       | Delete
                    status=failed          | Retry,Delete
                    tag=state-of-pending   | Reschedule,Cancel
                    """)
    void change_of_many_jobs_is_offered_only_where_one_of_them_allows_it(String filter, String actions) {
        pending("state-of-pending");
        ended("completes", Map.of("text", "x"), JobStatus.COMPLETED);
        ended("fails", null, JobStatus.FAILED);
        UUID running = jobs.enqueueNamed("blocks", null).id();
        awaitStatus(running, JobStatus.RUNNING);
        open("?page=jobs&" + filter);
        browser.await("document.querySelector('tbody tr')");
        assertThat(buttons()).containsExactly(actions.split(",", -1));
        jobs.cancel(running);
        awaitStatus(running, JobStatus.CANCELLED);
    }

    @Test
    void change_of_selected_jobs_is_offered_only_where_one_of_them_allows_it() {
        UUID pending = pending("state-of-selected");
        UUID failed = ended("fails", null, JobStatus.FAILED);
        open("?page=jobs");
        browser.click("input[aria-label='Select job %s']".formatted(pending));
        browser.await("document.querySelector('.scope').innerText.includes('1 selected')");
        assertThat(buttons()).containsExactly("Reschedule", "Cancel");
        browser.click("input[aria-label='Select job %s']".formatted(failed));
        browser.await("document.querySelector('.scope').innerText.includes('2 selected')");
        assertThat(buttons()).containsExactly("Retry", "Reschedule", "Cancel", "Delete");
    }

    @Test
    void list_says_what_a_job_waits_for() {
        UUID first = pending("waiting-list");
        UUID second = jobs.enqueueNamed(
                        "waits",
                        null,
                        JobOptions.defaults().withStartAfterSuccessOf(first).withTags("waiting-list"))
                .id();
        jobs.pause("call-bank");
        UUID paused = jobs.enqueueNamed("call-bank", null, JobOptions.defaults().withTags("waiting-list"))
                .id();
        open("?page=jobs&tag=waiting-list");
        assertThat(cell(second, "Status"))
                .contains("after job " + first.toString().substring(24));
        assertThat(cell(paused, "Status")).contains("name is paused");
        assertThat(cell(first, "Status")).isEqualTo("pending");
        jobs.cancel(paused);
        jobs.resume("call-bank");
    }

    @Test
    void progress_shows_its_message() {
        UUID job = pending();
        jdbc.sql("UPDATE forge_jobs SET progress = '{\"percent\": 40, \"message\": \"page 4 of 10\"}' WHERE id = ?")
                .param(job)
                .update();
        open("?page=jobs&id=" + job);
        assertThat(text()).contains("40 %, page 4 of 10").doesNotContain("message");
        jdbc.sql("UPDATE forge_jobs SET progress = '{\"message\": \"begun\"}' WHERE id = ?")
                .param(job)
                .update();
        awaitText("begun");
        assertThat(text()).doesNotContain("message");
    }

    @Test
    void node_that_has_left_is_shown_by_its_name() {
        UUID node = UUID.randomUUID();
        jdbc.sql("INSERT INTO forge_former_nodes (id, name) VALUES (?, 'left-yesterday')")
                .param(node)
                .update();
        UUID job = ended("completes", Map.of("text", "x"), JobStatus.COMPLETED);
        jdbc.sql("UPDATE forge_jobs SET worker_id = ? WHERE id = ?")
                .params(node, job)
                .update();
        open("?page=jobs&id=" + job);
        assertThat(text())
                .contains("left-yesterday")
                .doesNotContain(node.toString().substring(24));
        open("?page=jobs");
        assertThat(cell(job, "Node")).isEqualTo("left-yesterday");
    }

    // Charts ------------------------------------------------------------------------------------------------

    @Test
    void charts_of_a_young_cluster_begin_with_its_first_minute() {
        ended("completes", Map.of("text", "x"), JobStatus.COMPLETED);
        jdbc.sql("DELETE FROM forge_job_history").update();
        jdbc.sql("""
                INSERT INTO forge_job_history (name, slot, minutes, completed, due, running)
                SELECT '', date_trunc('minute', now()) - n * interval '1 minute', 1, 5, 1, 1 FROM generate_series(1, 10) AS n
                """).update();
        open("");
        browser.click("button[aria-label='Show as table: throughput']");
        browser.await("document.querySelector('.chart-table tbody tr')");
        int rows = browser.run("return document.querySelectorAll('.chart-table tbody tr').length")
                .asInt();
        // A minute may have begun since.
        assertThat(rows).isBetween(10, 13);
    }
}
