// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.core.io.Resource;
import org.springframework.core.io.support.PathMatchingResourcePatternResolver;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** What users without the permission to operate, or to see values, can do on the pages. */
class DashboardPermissionTests extends DashboardPages {

    private static final JsonMapper JSON = JsonMapper.builder().build();
    private static final String SECRET = "4711-0815";

    @Autowired
    private AuditTrail trail;

    @Autowired
    private Crons crons;

    @Autowired
    private Daemons daemons;

    private UUID pending;
    private UUID failed;
    private UUID completed;
    private UUID batch;
    private UUID failedBatch;
    private UUID waitingRun;
    private UUID failedRun;
    private UUID node;

    /** One of everything that can be changed. */
    @BeforeEach
    void addOneOfEverything() {
        pending = pending("permitted");
        failed = ended("charge", Map.of("card", SECRET), JobStatus.FAILED);
        completed = ended("completes", Map.of("text", SECRET), JobStatus.COMPLETED);
        batch = jobs.batch(JobBatchOptions.named(SECRET)).id();
        failedBatch = jobs.batch(JobBatchOptions.named(SECRET)).id();
        jobs.enqueueNamed("waits", null, JobOptions.defaults().withBatch(batch).withDelay(Duration.ofDays(1)));
        awaitStatus(
                jobs.enqueueNamed("call-bank", null, JobOptions.defaults().withBatch(failedBatch))
                        .id(),
                JobStatus.FAILED);
        waitingRun = run("approval", WorkflowStatus.WAITING);
        failedRun = run("payment", WorkflowStatus.FAILED);
        node = addNode("node-" + UUID.randomUUID());
        jobs.pause("blocks");
        crons.pause("nightly-report");
    }

    /** Returns the addresses of all pages and of one of each thing. */
    private List<String> pages() {
        return List.of(
                "",
                "?page=jobs",
                "?page=jobs&id=" + pending,
                "?page=jobs&id=" + failed,
                "?page=jobs&id=" + completed,
                "?page=job-names",
                "?page=job-names&id=waits",
                "?page=batches",
                "?page=batches&id=" + batch,
                "?page=batches&id=" + failedBatch,
                "?page=crons",
                "?page=crons&id=nightly-report",
                "?page=daemons",
                "?page=workflows",
                "?page=workflows&tab=versions",
                "?page=workflows&id=" + waitingRun,
                "?page=workflows&id=" + failedRun,
                "?page=nodes",
                "?page=locks",
                "?page=rate-limits",
                "?page=audit");
    }

    /** All changes of the pages: resource and body. */
    private List<Map.Entry<String, Map<String, String>>> changes() {
        String later = "2041-02-03T04:05:06Z";
        return List.of(
                change("jobs", "cancelled", "id", pending),
                change("jobs", "cancelled", "ids", pending),
                change("jobs", "cancelled", "tag", "permitted"),
                change("jobs", "retry", "id", failed),
                change("jobs", "retry", "id", failed, "payload", "{\"card\": \"valid\"}"),
                change("jobs", "retry", "name", "charge", "status", "failed"),
                change("jobs", "duplicated", "id", completed),
                change("jobs", "rescheduled", "ids", pending, "at", later),
                change("jobs", "rescheduled", "everyJob", "true", "at", later),
                change("jobs", "deleted", "ids", completed),
                change("jobs", "deleted", "everyJob", "true"),
                change("jobs", "deleted", "everyJob", "true", "preview", "true"),
                change("jobs", "paused", "id", "waits"),
                change("jobs", "running", "id", "blocks"),
                change("limits", "overridden", "id", "waits", "concurrency", "9"),
                change("limits", "declared", "id", "waits"),
                change("limits", "weighted", "id", "waits", "group", "acme", "weight", "9"),
                change("batches", "retry", "id", failedBatch),
                change("batches", "closed", "id", batch),
                change("batches", "cancelled", "id", batch),
                change("crons", "triggered", "id", "new-year"),
                change("crons", "paused", "id", "new-year"),
                change("crons", "running", "id", "nightly-report"),
                change("daemons", "paused", "id", "feed"),
                change("daemons", "running", "id", "feed"),
                change("workflows", "signalled", "id", waitingRun, "signal", "approve", "value", "\"yes\""),
                change("workflows", "cancelled", "id", waitingRun),
                change("workflows", "retry", "id", failedRun),
                change("nodes", "draining", "id", node));
    }

    private static Map.Entry<String, Map<String, String>> change(String resource, String state, Object... parameters) {
        var body = new LinkedHashMap<String, String>(Map.of("state", state, "reason", "not allowed"));
        for (int i = 0; i < parameters.length; i += 2) {
            body.put(parameters[i].toString(), parameters[i + 1].toString());
        }
        return Map.entry(resource, body);
    }

    /** Returns what the changes above would change. */
    private String state() {
        return jdbc.sql("""
                SELECT jsonb_build_object(
                    'jobs', (SELECT jsonb_agg(jsonb_build_array(id, status, scheduled_at, payload) ORDER BY id)
                             FROM forge_jobs WHERE id IN (:pending, :failed, :completed)
                                OR batch_id IN (:batch, :failedBatch)),
                    'pauses', (SELECT jsonb_agg(name ORDER BY name) FROM forge_job_pauses),
                    'limits', (SELECT jsonb_agg(to_jsonb(l) ORDER BY name) FROM forge_job_limits l),
                    'weights', (SELECT jsonb_agg(to_jsonb(w) ORDER BY name) FROM forge_job_weights w),
                    'batches', (SELECT jsonb_agg(jsonb_build_array(closed_at, cancelled_at, retried_at) ORDER BY id)
                                FROM forge_job_batches),
                    'crons', (SELECT jsonb_agg(jsonb_build_array(name, paused) ORDER BY name) FROM forge_crons),
                    'triggered', (SELECT count(*) FROM forge_cron_runs WHERE cron = 'new-year'),
                    'daemons', (SELECT jsonb_agg(name) FROM forge_daemon_pauses),
                    'runs', (SELECT jsonb_agg(jsonb_build_array(id, status) ORDER BY id) FROM forge_workflow_runs),
                    'signals', (SELECT count(*) FROM forge_workflow_signals),
                    'node', (SELECT status FROM forge_nodes WHERE id = :node),
                    'audit', (SELECT count(*) FROM forge_audit))::text
                """)
                .param("pending", pending)
                .param("failed", failed)
                .param("completed", completed)
                .param("batch", batch)
                .param("failedBatch", failedBatch)
                .param("node", node)
                .query(String.class)
                .single();
    }

    /** Sends changes with a valid CSRF token, which the login page has for everybody; returns status and code of each. */
    private List<String> send(List<Map.Entry<String, Map<String, String>>> changes) {
        String bodies = JSON.writeValueAsString(changes.stream()
                .map(each -> List.of(each.getKey(), each.getValue()))
                .toList());
        return browser.runAsync("""
                        const done = arguments[arguments.length - 1];
                        (async () => {
                          const login = new DOMParser().parseFromString(
                            await (await fetch('../../login')).text(), 'text/html');
                          const token = login.querySelector('input[name=_csrf]').value;
                          const results = [];
                          for (const [resource, body] of %s) {
                            const response = await fetch(`api/v1/${resource}`, { method: 'POST', body: JSON.stringify(body),
                              headers: { 'Content-Type': 'application/json', 'X-CSRF-TOKEN': token } });
                            results.push(`${response.status} ${(await response.json()).code}`);
                          }
                          return results;
                        })().then(done, (error) => done([String(error)]));
                        """.formatted(bodies))
                .valueStream()
                .map(JsonNode::asString)
                .toList();
    }

    @Test
    void list_of_changes_is_complete() throws IOException {
        var states = new TreeSet<String>();
        // state: 'cancelled' in the body of a request, or action('cancelled', ...) for many jobs.
        Pattern state = Pattern.compile("\\b(?:state: |action\\()'([a-z]+)'");
        for (Resource page : new PathMatchingResourcePatternResolver()
                .getResources("classpath:dev/forge/cluster/dashboard/web/pages/*.js")) {
            state.matcher(page.getContentAsString(StandardCharsets.UTF_8))
                    .results()
                    .forEach(found -> states.add(found.group(1)));
        }
        Set<String> listed =
                changes().stream().map(each -> each.getValue().get("state")).collect(Collectors.toSet());
        assertThat(listed).isEqualTo(states);
    }

    @Test
    void viewer_finds_no_button_and_every_change_is_refused() {
        logIn("vic");
        for (String page : pages()) {
            open(page);
            assertThat(browser.run("""
                            return [...document.querySelectorAll(
                              'main .actions, main [aria-haspopup=dialog], main button.danger, main input[type=checkbox]')]
                              .map((each) => each.outerHTML);
                            """).valueStream().map(JsonNode::asString))
                    .as(page)
                    .isEmpty();
            assertThat(text()).as(page).contains("Read-only").doesNotContain(SECRET);
        }
        String before = state();
        assertThat(send(changes())).hasSameSizeAs(changes()).containsOnly("403 forbidden");
        assertThat(state()).isEqualTo(before);
        assertNoViolation();
    }

    /** The browser logs refused requests, and those for the limits of a name that has none. */
    private void assertNoViolation() {
        assertThat(browser.console())
                .noneMatch(line -> line.contains("Content Security")
                        || (line.startsWith("SEVERE") && !line.matches(".*status of 40[34].*")));
    }

    @Test
    void operator_without_values_sees_masks_on_every_page() {
        logIn("olga");
        for (String page : pages()) {
            open(page);
            assertThat(text()).as(page).contains("Values are hidden").doesNotContain(SECRET);
        }
        open("?page=jobs&id=" + completed);
        assertThat(text()).contains("******");
        assertThat(buttons()).noneMatch(label -> label.contains("payload") || label.startsWith("Copy"));
        choose("Duplicate job " + completed);
        assertThat(browser.run("return document.querySelector('#dialog-payload') === null")
                        .asBoolean())
                .isTrue();
        assertThat(send(List.of(change("jobs", "retry", "id", failed, "payload", "{}"))))
                .as("a payload that replaces one that is hidden")
                .containsExactly("400 invalid");
        assertThat(status(failed)).isEqualTo(JobStatus.FAILED);
    }

    private Stream<String> buttons() {
        return browser.run(
                        "return [...document.querySelectorAll('main button')].map((b) => b.ariaLabel || b.innerText)")
                .valueStream()
                .map(JsonNode::asString);
    }

    @Test
    void operator_without_values_operates() {
        logIn("olga");
        application.bankIsUp.set(true);
        try {
            open("?page=jobs&id=" + failed);
            operate("Duplicate job " + failed, "olga copies");
            open("?page=jobs&tag=permitted");
            operate("Cancel all matching jobs", "olga cancels");
            assertThat(status(pending)).isEqualTo(JobStatus.CANCELLED);
            open("?page=jobs&id=" + pending);
            operate("Retry job " + pending, "olga retries");
            awaitStatus(pending, JobStatus.COMPLETED);
            open("?page=jobs&id=" + completed);
            operate("Delete job " + completed, "olga deletes");
            assertThat(jobs.find(completed)).isEmpty();
            open("?page=job-names&id=blocks");
            operate("Resume blocks", "olga resumes a name");
            assertThat(operations.paused()).doesNotContain("blocks");
            open("?page=job-names&id=waits");
            operate("Change limits of waits", "olga limits", Map.of("concurrency", "4"));
            assertThat(operations.limits("waits").concurrency()).isEqualTo(4);
            operations.resetLimits("waits");
            open("?page=crons");
            operate("Resume cron nightly-report", "olga resumes a cron");
            assertThat(crons.find("nightly-report").orElseThrow().paused()).isFalse();
            open("?page=daemons");
            operate("Pause daemon feed", "olga pauses");
            assertThat(daemons.find("feed").orElseThrow().paused()).isTrue();
            daemons.resume("feed");
            open("?page=workflows&id=" + waitingRun);
            operate(
                    "Send signal to run " + waitingRun,
                    "olga signals",
                    Map.of("signal", "approve", "value", "\"yes\""));
            awaitRun(waitingRun, WorkflowStatus.COMPLETED);
            open("?page=workflows&id=" + failedRun);
            operate("Retry run " + failedRun, "olga retries a run");
            awaitRun(failedRun, WorkflowStatus.COMPLETED);
            open("?page=batches&id=" + batch);
            operate("Cancel batch " + batch, "olga cancels a batch");
            open("?page=nodes");
            operate("Drain node " + nodeName(), "olga drains");
            assertThat(nodeStatus(node)).isEqualTo("draining");
        } finally {
            application.bankIsUp.set(false);
        }
        assertThat(trail.list(AuditFilter.all().withWho("olga"), 100).items())
                .extracting(entry -> entry.action() + " " + entry.reason())
                .containsExactlyInAnyOrder(
                        "job.copy olga copies",
                        "jobs.cancel-all olga cancels",
                        "job.retry olga retries",
                        "jobs.delete-all olga deletes",
                        "name.resume olga resumes a name",
                        "limit.change olga limits",
                        "cron.resume olga resumes a cron",
                        "daemon.pause olga pauses",
                        "workflow.signal olga signals",
                        "workflow.retry olga retries a run",
                        "batch.cancel olga cancels a batch",
                        "node.drain olga drains");
        open("?page=audit&action=jobs.delete-all");
        assertThat(text())
                .as("the id of the job that is gone")
                .contains(completed.toString().substring(24));
        open("?page=audit&action=jobs.cancel-all");
        assertThat(text()).as("a filter may contain values").contains("******").doesNotContain("permitted");
        assertNoViolation();
    }

    private String nodeName() {
        return jdbc.sql("SELECT name FROM forge_nodes WHERE id = ?")
                .param(node)
                .query(String.class)
                .single();
    }
}
