// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.annotation.Autowired;

/**
 * Everything that the pages can change: done with buttons and dialogs, checked in the cluster and in the audit trail. {@link
 * DashboardPermissionTests} has a list of all changes, which must be tested here.
 */
class DashboardOperationsTests extends DashboardPages {

    /** A time in a dialog, in the time zone of the browser. */
    private static final String LATER = "2041-02-03T04:05:06";

    @Autowired
    private AuditTrail trail;

    @Autowired
    private Crons crons;

    @Autowired
    private Daemons daemons;

    @AfterEach
    void bankCloses() {
        application.bankIsUp.set(false);
    }

    /** Returns the only entry with that reason, which the page shows. */
    private AuditEntry audited(String action, String reason) {
        List<AuditEntry> entries = trail.list(AuditFilter.all().withAction(action), 100).items().stream()
                .filter(entry -> reason.equals(entry.reason()))
                .toList();
        assertThat(entries).as("%s because of %s", action, reason).hasSize(1);
        AuditEntry entry = entries.get(0);
        assertThat(entry.who()).isEqualTo("ada");
        assertThat(entry.source()).isEqualTo(AuditSource.DASHBOARD);
        assertThat(entry.address()).isNotBlank();
        open("?page=audit&action=" + action);
        browser.await(
                "[...document.querySelectorAll('tbody tr')].some((row) => [...arguments].every((each) => row.innerText.includes(each)))",
                "ada",
                "dashboard",
                action,
                reason);
        return entry;
    }

    private void assertAudited(String action, Object target, String reason) {
        assertThat(audited(action, reason).target()).isEqualTo(target.toString());
    }

    private Instant later() {
        return Instant.parse(browser.run("return new Date(arguments[0]).toISOString()", LATER)
                .asString());
    }

    private void awaitBadge(String status) {
        browser.await("document.querySelector('h1 .badge').innerText === arguments[0]", status);
    }

    // One job ------------------------------------------------------------------------------------------------

    @Test
    void job_is_cancelled_with_a_reason() {
        UUID job = pending();
        open("?page=jobs&id=" + job);
        choose("Cancel job " + job);
        browser.click("dialog button[type=submit]");
        browser.await("document.querySelector('dialog .invalid')");
        assertThat(status(job)).as("without a reason").isEqualTo(JobStatus.PENDING);
        browser.fill("#dialog-reason", "no longer needed");
        browser.click("dialog button[type=submit]");
        browser.await("!document.querySelector('dialog')");
        awaitBadge("cancelled");
        assertThat(status(job)).isEqualTo(JobStatus.CANCELLED);
        assertAudited("job.cancel", job, "no longer needed");
        open("?page=jobs&id=" + job);
        browser.await("document.querySelector('main').innerText.includes('no longer needed')");
        assertCleanConsole();
    }

    @Test
    void dialog_that_is_closed_changes_nothing() {
        UUID job = pending();
        open("?page=jobs&id=" + job);
        choose("Cancel job " + job);
        browser.fill("#dialog-reason", "perhaps not");
        browser.click("dialog .buttons button[type=button]");
        browser.await("!document.querySelector('dialog')");
        assertThat(status(job)).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void cancelled_job_is_retried() {
        UUID job = pending();
        jobs.cancel(job);
        open("?page=jobs&id=" + job);
        operate("Retry job " + job, "needed after all");
        awaitStatus(job, JobStatus.COMPLETED);
        awaitBadge("completed");
        assertAudited("job.retry", job, "needed after all");
    }

    @Test
    void failed_job_is_retried_with_another_payload() {
        UUID job = ended("charge", Map.of("card", "stolen"), JobStatus.FAILED);
        open("?page=jobs&id=" + job);
        choose("Retry with payload… job " + job);
        assertThat(browser.run("return document.querySelector('#dialog-payload').value")
                        .asString())
                .contains("stolen");
        for (String invalid : List.of("", "{", "{\"card\": \"******\"}")) {
            browser.fill("#dialog-payload", invalid);
            browser.click("dialog button[type=submit]");
            browser.await("document.querySelector('#dialog-payload-error')");
        }
        assertThat(status(job)).isEqualTo(JobStatus.FAILED);
        browser.fill("#dialog-payload", "{\"card\": \"valid\"}");
        browser.fill("#dialog-reason", "new card");
        browser.click("dialog button[type=submit]");
        awaitStatus(job, JobStatus.COMPLETED);
        assertThat(jobs.find(job).orElseThrow().payload()).contains("valid").doesNotContain("stolen");
        // The number of the attempt is the same again.
        browser.await(
                "[...document.querySelectorAll('.timeline .badge')].map((one) => one.innerText).join() === 'failed,completed'");
        assertAudited("job.retry", job, "new card");
    }

    @Test
    void edited_payload_keeps_its_lines_and_all_digits_of_its_numbers() {
        UUID job = ended(
                "charge",
                Map.of(
                        "card",
                        "stolen",
                        "order",
                        9007199254740993L,
                        "price",
                        new BigDecimal("10.00000000000000000001")),
                JobStatus.FAILED);
        open("?page=jobs&id=" + job);
        assertThat(text()).contains("9007199254740993", "10.00000000000000000001");
        choose("Retry with payload… job " + job);
        String shown = browser.run("return document.querySelector('#dialog-payload').value")
                .asString();
        assertThat(shown.lines()).hasSize(5);
        browser.fill("#dialog-payload", shown.replace("stolen", "valid"));
        browser.click("dialog button[type=submit]");
        awaitStatus(job, JobStatus.COMPLETED);
        assertThat(jobs.find(job).orElseThrow().payload())
                .contains("valid", "9007199254740993", "10.00000000000000000001");
    }

    @Test
    void job_of_a_run_that_waits_without_an_end_has_a_page() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        open("?page=jobs&id=" + run);
        browser.await("document.querySelector('h1').innerText.includes('approval')");
        browser.click("main a[href='?page=workflows&id=%s']".formatted(run));
        browser.await("document.querySelector('h1').innerText.includes('approval')");
        assertCleanConsole();
    }

    @Test
    void time_that_no_browser_knows_does_not_keep_the_page_from_opening() {
        UUID job = pending();
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = '294276-12-31' WHERE id = ?")
                .param(job)
                .update();
        open("?page=jobs&id=" + job);
        choose("Reschedule job " + job);
        browser.click("dialog .buttons button[type=button]");
        operate("Cancel job " + job, "too far away");
        awaitBadge("cancelled");
        assertCleanConsole();
    }

    @Test
    void job_is_found_by_its_id() {
        UUID job = pending();
        open("?page=jobs");
        browser.click("details.more summary");
        browser.type("#filter-id", job.toString());
        browser.await("document.querySelector('h1').innerText.includes('waits')");
    }

    @Test
    void job_is_duplicated() {
        UUID job = ended("completes", Map.of("text", "once more"), JobStatus.COMPLETED);
        open("?page=jobs&id=" + job);
        operate("Duplicate job " + job, "lost parcel");
        browser.await("document.querySelector('#toast a')");
        UUID copy = UUID.fromString(browser.run("return document.querySelector('#toast a').innerText")
                .asString());
        assertThat(copy).isNotEqualTo(job);
        awaitStatus(copy, JobStatus.COMPLETED);
        assertThat(jobs.find(copy).orElseThrow().payload()).contains("once more");
        assertAudited("job.copy", job, "lost parcel");
    }

    @Test
    void job_is_rescheduled() {
        UUID job = pending();
        open("?page=jobs&id=" + job);
        operate("Reschedule job " + job, "after the sale", Map.of("at", LATER));
        await().atMost(PATIENCE)
                .until(() -> jobs.find(job).orElseThrow().scheduledAt().equals(later()));
        assertAudited("jobs.reschedule-all", job, "after the sale");
        open("?page=jobs&id=" + job);
        browser.await("document.querySelector('main').innerText.includes('after the sale')");
    }

    @Test
    void job_is_deleted() {
        UUID job = ended("completes", Map.of("text", "secret"), JobStatus.COMPLETED);
        open("?page=jobs&id=" + job);
        operate("Delete job " + job, "personal data");
        browser.await("document.querySelector('h1').innerText === 'Jobs' && !location.search.includes('id=')");
        assertThat(jobs.find(job)).isEmpty();
        assertAudited("jobs.delete-all", job, "personal data");
    }

    // Many jobs ----------------------------------------------------------------------------------------------

    /** Changes two of three jobs that are selected, or all three that match. */
    @ParameterizedTest
    @CsvSource({
        "Cancel, jobs.cancel-all, true", "Cancel, jobs.cancel-all, false",
        "Retry, jobs.retry-all, true", "Retry, jobs.retry-all, false",
        "Reschedule, jobs.reschedule-all, true", "Reschedule, jobs.reschedule-all, false",
        "Delete, jobs.delete-all, true", "Delete, jobs.delete-all, false"
    })
    void many_jobs_are_counted_and_changed(String verb, String action, boolean selects) {
        String tag = "%s-%s".formatted(verb, selects);
        List<UUID> all = List.of(pending(tag), pending(tag), pending(tag));
        UUID other = pending("other-" + tag);
        boolean ended = verb.equals("Retry") || verb.equals("Delete");
        JobStatus before = ended ? JobStatus.CANCELLED : JobStatus.PENDING;
        if (ended) {
            all.forEach(jobs::cancel);
            jobs.cancel(other);
        }
        open("?page=jobs&tag=" + tag);
        browser.await("document.querySelectorAll('tbody tr').length === 3");
        List<UUID> affected = selects ? all.subList(0, 2) : all;
        if (selects) {
            affected.forEach(job -> browser.click("input[aria-label='Select job %s']".formatted(job)));
            browser.await("document.querySelector('.scope').innerText.includes('2 selected')");
        }
        choose(verb + (selects ? " 2 selected jobs" : " all matching jobs"));
        browser.await(
                "document.querySelector('dialog .preview').innerText === arguments[0] + ' jobs match.'",
                affected.size());
        assertThat(all).allSatisfy(job -> assertThat(status(job)).isEqualTo(before));
        if (verb.equals("Reschedule")) {
            browser.fill("#dialog-at", LATER);
        }
        String reason = "many: " + tag;
        browser.fill("#dialog-reason", reason);
        browser.click("dialog button[type=submit]");
        browser.await("!document.querySelector('dialog')");
        browser.await("document.querySelector('#toast').innerText.startsWith(arguments[0] + ' jobs')", affected.size());
        assertThat(all)
                .allSatisfy(job -> assertThat(isChanged(job, verb))
                        .as("%s of %s", verb, job)
                        .isEqualTo(affected.contains(job)));
        assertThat(isChanged(other, verb)).as("job with another tag").isFalse();
        AuditEntry entry = audited(action, reason);
        assertThat(entry.count()).isEqualTo(affected.size());
        assertThat(entry.target()).contains(selects ? all.get(0).toString() : tag);
        assertCleanConsole();
    }

    private boolean isChanged(UUID job, String verb) {
        return switch (verb) {
            case "Cancel" -> status(job) == JobStatus.CANCELLED;
            case "Retry" -> status(job) != JobStatus.CANCELLED;
            case "Reschedule" -> jobs.find(job).orElseThrow().scheduledAt().equals(later());
            case "Delete" -> jobs.find(job).isEmpty();
            default -> throw new IllegalArgumentException(verb);
        };
    }

    @Test
    void selected_job_is_changed_alone() {
        UUID job = pending("alone");
        pending("alone");
        open("?page=jobs&tag=alone");
        browser.click("input[aria-label='Select job %s']".formatted(job));
        operate("Cancel 1 selected job", "one of two");
        assertThat(operations
                        .count(JobFilter.all().withTags("alone").withStatuses(JobStatus.CANCELLED))
                        .jobs())
                .isOne();
        assertAudited("jobs.cancel-all", job, "one of two");
    }

    @Test
    void all_jobs_are_counted_before_they_are_changed() {
        UUID job = pending();
        open("?page=jobs");
        choose("Cancel all jobs");
        browser.await("/^[1-9][0-9,]* jobs? match(es)?\\./.test(document.querySelector('dialog .preview').innerText)");
        browser.click("dialog button[type=submit]");
        browser.await("document.querySelector('dialog .invalid')");
        browser.click("dialog .buttons button[type=button]");
        browser.await("!document.querySelector('dialog')");
        assertThat(status(job)).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void filter_without_matching_jobs_offers_no_change() {
        open("?page=jobs&tag=nobody-has-this-tag");
        browser.await("document.querySelector('main').innerText.includes('No job matches')");
        assertThat(browser.run(
                                "return [...document.querySelectorAll('.toolbar .actions button')].every((b) => b.disabled)")
                        .asBoolean())
                .isTrue();
    }

    // Names of jobs ------------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(strings = {"?page=job-names&q=charge", "?page=job-names&id=charge"})
    void job_name_is_paused_and_resumed(String page) {
        String reason = "for " + page;
        open(page);
        operate("Pause charge", reason);
        assertThat(operations.paused()).contains("charge");
        // The page that is read after the change shows it, not a later one.
        browser.await("document.querySelector('main .badge').innerText === 'paused'");
        assertAudited("name.pause", "charge", reason);
        open(page);
        operate("Resume charge", reason);
        assertThat(operations.paused()).doesNotContain("charge");
        browser.await("document.querySelector('main .badge').innerText === 'active'");
        assertAudited("name.resume", "charge", reason);
    }

    /** The demand, which the page shows, too, is some seconds old. */
    @Test
    void pause_is_shown_at_once() {
        open("?page=job-names&id=charge");
        operate("Pause charge", "at once");
        assertThat(browser.runAsync("""
                        const done = arguments[arguments.length - 1];
                        fetch('api/v1/job-names').then((r) => r.json()).then((data) => done(
                          data.names.find((each) => each.name === 'charge').paused));
                        """).asBoolean()).isTrue();
        jobs.resume("charge");
    }

    /** Nobody could resume it otherwise. */
    @Test
    void paused_name_without_a_handler_is_shown_and_resumed() {
        jdbc.sql("INSERT INTO forge_job_pauses (name) VALUES ('of-yesterday')").update();
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('of-yesterday')").update();
        open("?page=job-names&state=paused");
        operate("Resume of-yesterday", "cleaned up");
        assertThat(operations.paused()).doesNotContain("of-yesterday");
        assertAudited("name.resume", "of-yesterday", "cleaned up");
    }

    @Test
    void limits_are_changed_and_removed() {
        open("?page=job-names&id=waits");
        operate(
                "Change limits of waits",
                "bank is slow",
                Map.of("concurrency", "5", "groupConcurrency", "2", "groupRate", "10/m", "groupBurst", "3"));
        browser.await("document.querySelector('main').innerText.includes('These limits were set at run time')");
        assertThat(operations.limits("waits").concurrency()).isEqualTo(5);
        assertThat(operations.limits("waits").groupConcurrency()).isEqualTo(2);
        assertThat(operations.limits("waits").groupRate()).isNotNull();
        assertAudited("limit.change", "waits", "bank is slow");
        open("?page=job-names&id=waits");
        operate("Use declared limits of waits", "bank is fast");
        browser.await("!document.querySelector('main').innerText.includes('These limits were set at run time')");
        assertThat(operations.limits("waits").concurrency()).isEqualTo(2);
        assertThat(operations.limits("waits").groupRate()).isNull();
        assertAudited("limit.reset", "waits", "bank is fast");
    }

    @Test
    void limit_that_the_server_refuses_is_explained() {
        open("?page=job-names&id=waits");
        choose("Change limits of waits");
        browser.fill("#dialog-concurrency", "none");
        browser.click("dialog button[type=submit]");
        browser.await("document.querySelector('#dialog-concurrency-error')");
        browser.fill("#dialog-concurrency", "2");
        browser.fill("#dialog-groupBurst", "3");
        browser.click("dialog button[type=submit]");
        browser.await("document.querySelector('dialog [role=alert]').innerText.includes('needs a groupRate')");
        assertThat(operations.limits("waits").concurrency()).isEqualTo(2);
    }

    @Test
    void weight_of_a_group_is_set_and_changed() {
        open("?page=job-names&id=charge");
        operate("Set weight of a group of charge", "good customer", Map.of("group", "acme", "weight", "7"));
        assertThat(weight("acme")).isEqualTo(7);
        assertAudited("weight.change", "charge", "good customer");
        open("?page=job-names&id=charge");
        operate("Set weight of group acme", "very good customer", Map.of("weight", "9"));
        assertThat(weight("acme")).isEqualTo(9);
        assertAudited("weight.change", "charge", "very good customer");
    }

    private int weight(String group) {
        return jdbc.sql("SELECT weight FROM forge_job_weights WHERE name = 'charge' AND job_group = ?")
                .param(group)
                .query(Integer.class)
                .single();
    }

    // Crons, daemons, workflows, batches, nodes --------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(strings = {"?page=crons&q=new-year", "?page=crons&id=new-year"})
    void cron_is_triggered_paused_and_resumed(String page) {
        String reason = "for " + page;
        open(page);
        operate("Run now: cron new-year", reason);
        browser.await("document.querySelector('#toast a')");
        UUID job = UUID.fromString(browser.run("return document.querySelector('#toast a').innerText")
                .asString());
        awaitStatus(job, JobStatus.COMPLETED);
        assertAudited("cron.trigger", "new-year", reason);
        open(page);
        operate("Pause cron new-year", reason);
        assertThat(cron().paused()).isTrue();
        browser.await("document.querySelector('main .badge').innerText === 'paused'");
        assertAudited("cron.pause", "new-year", reason);
        open(page);
        operate("Resume cron new-year", reason);
        assertThat(cron().paused()).isFalse();
        browser.await("document.querySelector('main .badge').innerText === 'active'");
        assertAudited("cron.resume", "new-year", reason);
        assertCleanConsole();
    }

    private CronInfo cron() {
        return crons.find("new-year").orElseThrow();
    }

    @Test
    void daemon_is_paused_and_resumed() {
        open("?page=daemons");
        operate("Pause daemon feed", "too much news");
        assertThat(daemon().paused()).isTrue();
        browser.await("document.querySelector('main .badge').innerText === 'paused'");
        assertAudited("daemon.pause", "feed", "too much news");
        open("?page=daemons");
        operate("Resume daemon feed", "no news");
        assertThat(daemon().paused()).isFalse();
        await().atMost(PATIENCE)
                .until(() -> daemon().instances().stream().anyMatch(each -> each.status() == DaemonStatus.RUNNING));
        browser.await("document.querySelector('main .badge').innerText === 'running'");
        assertAudited("daemon.resume", "feed", "no news");
    }

    private DaemonInfo daemon() {
        return daemons.find("feed").orElseThrow();
    }

    @Test
    void run_receives_the_signal_that_it_awaits() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        open("?page=workflows&id=" + run);
        operate("Send signal to run " + run, "boss agreed", Map.of("value", "\"yes\""));
        awaitRun(run, WorkflowStatus.COMPLETED);
        assertThat(workflows.result(run, String.class)).hasValue("yes");
        awaitBadge("completed");
        AuditEntry entry = audited("workflow.signal", "boss agreed");
        assertThat(entry.target()).isEqualTo(run.toString());
        assertThat(entry.detail()).isEqualTo("approve");
    }

    @Test
    void run_is_cancelled() {
        UUID run = run("approval", WorkflowStatus.WAITING);
        open("?page=workflows&id=" + run);
        operate("Cancel run " + run, "boss is on holiday");
        await().atMost(PATIENCE).until(() -> workflows.find(run).orElseThrow().finishedAt() != null);
        browser.await("document.querySelector('main').innerText.includes('boss is on holiday')");
        assertAudited("workflow.cancel", run, "boss is on holiday");
    }

    @Test
    void failed_run_is_retried() {
        UUID run = run("payment", WorkflowStatus.FAILED);
        application.bankIsUp.set(true);
        open("?page=workflows&id=" + run);
        operate("Retry run " + run, "bank is back");
        awaitRun(run, WorkflowStatus.COMPLETED);
        awaitBadge("completed");
        assertAudited("workflow.retry", run, "bank is back");
    }

    @Test
    void failed_jobs_of_a_batch_are_retried() {
        JobBatch batch = jobs.batch(JobBatchOptions.named("payments"));
        UUID job = jobs.enqueueNamed("call-bank", null, JobOptions.defaults().withBatch(batch.id()))
                .id();
        batch.close();
        awaitStatus(job, JobStatus.FAILED);
        application.bankIsUp.set(true);
        open("?page=batches&id=" + batch.id());
        operate("Retry failed jobs of batch " + batch.id(), "bank is back again");
        awaitStatus(job, JobStatus.COMPLETED);
        awaitBadge("succeeded");
        assertAudited("batch.retry", batch.id(), "bank is back again");
    }

    @Test
    void batch_is_closed_and_cancelled() {
        JobBatch batch = jobs.batch(JobBatchOptions.named("import"));
        UUID job = jobs.enqueueNamed(
                        "waits",
                        null,
                        JobOptions.defaults()
                                .withDelay(PATIENCE.multipliedBy(1000))
                                .withBatch(batch.id()))
                .id();
        open("?page=batches&id=" + batch.id());
        operate("Close batch " + batch.id(), "file is complete");
        assertThat(batch.info().orElseThrow().closedAt()).isNotNull();
        awaitBadge("running");
        assertAudited("batch.close", batch.id(), "file is complete");
        open("?page=batches&id=" + batch.id());
        operate("Cancel batch " + batch.id(), "wrong file");
        awaitStatus(job, JobStatus.CANCELLED);
        awaitBadge("cancelled");
        assertAudited("batch.cancel", batch.id(), "wrong file");
    }

    @Test
    void node_is_drained() {
        UUID node = addNode("to-drain");
        open("?page=nodes&q=to-drain");
        operate("Drain node to-drain", "new disk");
        browser.await("document.querySelector('main .badge').innerText === 'draining'");
        assertThat(nodeStatus(node)).isEqualTo("draining");
        assertAudited("node.drain", node, "new disk");
    }
}
