// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.test.context.TestPropertySource;
import tools.jackson.databind.JsonNode;

/** Markup in every text of every table, in addresses and in settings stays text on every page. */
@TestPropertySource(
        properties =
                "forge.cluster.dashboard.trace-url=https://traces.test/\"><script>window.xss=1</script><img/src=x/onerror=window.xss=1>/{traceId}")
class DashboardMarkupTests extends DashboardPages {

    /** Columns that hold no markup, with the constraint that prevents it. */
    private static final Map<String, String> CHECKED = Map.ofEntries(
            Map.entry("forge_nodes.status", "forge_nodes_status"),
            Map.entry("forge_jobs.status", "forge_jobs_status"),
            Map.entry("forge_crons.target", "forge_crons_target"),
            Map.entry("forge_crons.misfire", "forge_crons_misfire"),
            Map.entry("forge_crons.overlap", "forge_crons_overlap"),
            Map.entry("forge_cron_runs.outcome", "forge_cron_runs_outcome"),
            Map.entry("forge_daemons.scope", "forge_daemons_scope"),
            Map.entry("forge_daemons.status", "forge_daemons_status"),
            Map.entry("forge_workflow_runs.status", "forge_workflow_runs_status"),
            Map.entry("forge_workflow_steps.kind", "forge_workflow_steps_kind"),
            Map.entry("forge_workflow_steps.status", "forge_workflow_steps_status"),
            Map.entry("forge_undeletable_rows.table_name", "forge_undeletable_rows_table_name"),
            Map.entry("forge_audit.source", "forge_audit_source"));

    /** Columns that no page shows. Those that repeat the text of another column, such as a name, do not count. */
    private static final Set<String> NOT_SHOWN = Set.of(
            "forge_nodes.node_key",
            "forge_state.state_key",
            "forge_state.state_value",
            "forge_startup_actions.name",
            "forge_startup_actions.version",
            "forge_startup_actions.node_name",
            "forge_jobs.checkpoint",
            "forge_job_rates.job_group",
            "forge_job_windows.unique_key",
            "forge_crons.payload",
            "forge_cron_runs.job_status",
            "forge_cron_sets.digest",
            "forge_cron_sets.definitions",
            "forge_cron_memories.name",
            "forge_cron_memories.expression",
            "forge_cron_memories.zone",
            "forge_workflow_signals.payload");

    private static @Nullable MarkupRows rows;

    @Autowired
    private JdbcTemplate template;

    @BeforeEach
    void insertRows() {
        if (rows == null) {
            rows = new MarkupRows(template);
            rows.insert();
        }
    }

    @AfterAll
    static void forgetRows() {
        rows = null;
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    /** Returns all pages with the columns that they show. */
    private static Map<String, List<String>> pages() {
        String job = "forge_jobs.name";
        String node = "forge_nodes.name";
        List<String> jobColumns = List.of(
                job,
                node,
                "forge_jobs.tags",
                "forge_jobs.unique_key",
                "forge_jobs.job_group",
                "forge_jobs.worker_capability",
                "forge_jobs.payload",
                "forge_jobs.metadata",
                "forge_jobs.progress",
                "forge_jobs.result",
                "forge_jobs.last_error",
                "forge_jobs.attempt_history",
                "forge_job_logs.message");
        String workflow = "forge_workflow_runs.workflow_name";
        String version = "forge_workflow_runs.workflow_version";
        List<String> step = List.of(
                workflow,
                version,
                "forge_workflow_steps.name",
                "forge_workflow_steps.result",
                "forge_workflow_steps.last_error",
                "forge_workflow_steps.attempt_history");
        List<String> cron =
                List.of("forge_crons.name", "forge_crons.handler", "forge_crons.expression", "forge_crons.zone");
        var pages = new LinkedHashMap<String, List<String>>();
        pages.put("", List.of(node, "forge_leaders.role", "forge_undeletable_rows.reason"));
        pages.put("?page=jobs", List.of(job, node, "forge_jobs.job_group", "forge_jobs.tags"));
        pages.put("?page=jobs&id=" + rows.pending, with(jobColumns, "forge_former_nodes.name"));
        pages.put(
                "?page=jobs&id=" + rows.failed,
                with(jobColumns, "forge_audit.who", "forge_audit.address", "forge_audit.action", "forge_audit.reason"));
        pages.put("?page=job-names", List.of(job, "forge_job_history.name"));
        pages.put(
                "?page=job-names&id=" + encoded(rows.text(job)),
                List.of(job, "forge_nodes.executors", "forge_job_weights.job_group"));
        pages.put("?page=batches", List.of("forge_job_batches.name"));
        pages.put("?page=batches&id=" + rows.batch, List.of("forge_job_batches.name"));
        pages.put("?page=crons", cron);
        pages.put(
                "?page=crons&id=" + encoded(rows.text("forge_crons.name")),
                with(
                        cron,
                        "forge_crons.worker_capability",
                        "forge_crons.job_group",
                        "forge_cron_runs.reason",
                        "forge_cron_runs.last_error"));
        pages.put(
                "?page=daemons",
                List.of(
                        node,
                        "forge_daemons.name",
                        "forge_daemons.note",
                        "forge_daemons.last_error",
                        "forge_daemon_pauses.name"));
        pages.put("?page=workflows", List.of(workflow, version));
        pages.put("?page=workflows&tab=versions", List.of(workflow, version));
        pages.put(
                "?page=workflows&id=" + rows.waitingRun,
                with(
                        step,
                        "forge_workflow_runs.awaits",
                        "forge_workflow_runs.run_key",
                        "forge_workflow_runs.input",
                        "forge_workflow_signals.name",
                        "forge_jobs.progress"));
        pages.put(
                "?page=workflows&id=" + rows.failedRun,
                with(
                        step,
                        "forge_workflow_runs.result",
                        "forge_workflow_runs.last_error",
                        "forge_workflow_runs.resolution_reason"));
        pages.put(
                "?page=nodes",
                List.of(
                        node,
                        "forge_nodes.hostname",
                        "forge_nodes.roles",
                        "forge_nodes.worker_capabilities",
                        "forge_nodes.version",
                        "forge_nodes.info",
                        "forge_leaders.role"));
        pages.put("?page=locks", List.of("forge_locks.lock_name", node));
        pages.put("?page=rate-limits", List.of("forge_rate_limits.bucket"));
        pages.put(
                "?page=audit",
                List.of(
                        "forge_audit.who",
                        "forge_audit.address",
                        "forge_audit.action",
                        "forge_audit.target",
                        "forge_audit.reason",
                        "forge_audit.detail"));
        return pages;
    }

    private static List<String> with(List<String> columns, String... more) {
        return Stream.concat(columns.stream(), Stream.of(more)).toList();
    }

    /** Returns the columns that hold texts, as table.column. */
    private List<String> textColumns() {
        return template.queryForList("""
                SELECT c.table_name || '.' || c.column_name FROM information_schema.columns c
                JOIN information_schema.tables t USING (table_schema, table_name)
                WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
                  AND (c.data_type IN ('text', 'character varying', 'character', 'json', 'jsonb', 'xml')
                       OR c.udt_name IN ('_text', '_varchar', '_json', '_jsonb'))
                  -- The history of Flyway is not the cluster's.
                  AND c.table_name IN (SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'forge\\_%'
                                       AND relname NOT LIKE '%history' OR relname = 'forge_job_history')
                ORDER BY 1
                """, String.class);
    }

    @Test
    void every_text_column_has_markup_or_a_constraint_against_it() {
        assertThat(textColumns())
                .hasSizeGreaterThan(80)
                .containsAll(CHECKED.keySet())
                .filteredOn(column -> !CHECKED.containsKey(column))
                .allSatisfy(column -> {
                    String[] parts = column.split("\\.", -1);
                    assertThat(template.queryForObject(
                                    "SELECT count(*) FROM %s WHERE %s::text LIKE '%%window.xss=1>%%'"
                                            .formatted(parts[0], parts[1]),
                                    Long.class))
                            .as("Fill %s in MarkupRows, and name the page that shows it", column)
                            .isPositive();
                });
        assertThat(CHECKED.values())
                .allSatisfy(constraint -> assertThat(template.queryForObject(
                                "SELECT count(*) FROM pg_constraint WHERE conname = ?", Long.class, constraint))
                        .as(constraint)
                        .isOne());
    }

    @Test
    void every_column_with_a_text_of_its_own_is_on_a_page() {
        var shown = new HashSet<String>();
        pages().values().forEach(shown::addAll);
        assertThat(shown).doesNotContainAnyElementsOf(NOT_SHOWN);
        shown.addAll(NOT_SHOWN);
        assertThat(rows.columns()).isEqualTo(shown);
    }

    @Test
    void markup_stays_text_on_every_page_and_in_every_dialog() {
        pages().forEach((page, columns) -> {
            open(page);
            awaitTexts(page, columns);
            point();
            assertHarmless(page);
            openAllDialogs(page);
            assertHarmless(page);
        });
        assertThat(browser.console()).noneMatch(line -> line.contains("Content Security"));
    }

    /** Folded texts count: a click shows them. */
    private void awaitTexts(String page, List<String> columns) {
        await().atMost(PATIENCE).untilAsserted(() -> {
            String all = browser.run("return document.querySelector('main').textContent")
                    .asString();
            assertThat(columns)
                    .as("%s: %s", page, all)
                    .allSatisfy(column -> assertThat(all.contains(rows.end(column)))
                            .as(column)
                            .isTrue());
        });
    }

    /** Unfolds everything, and moves the pointer over everything with a title. */
    private void point() {
        browser.run("""
                document.querySelectorAll('details').forEach((each) => { each.open = true; });
                for (const each of document.querySelectorAll('[title], a, button, canvas, .u-over')) {
                  for (const type of ['pointerover', 'mouseover', 'mouseenter', 'mousemove', 'focusin']) {
                    each.dispatchEvent(new MouseEvent(type, { bubbles: true }));
                  }
                }
                """);
    }

    private void openAllDialogs(String page) {
        String buttons = "[...document.querySelectorAll('main [aria-haspopup=dialog]:not([disabled])')]";
        int count = browser.run("return %s.length".formatted(buttons)).asInt();
        for (int i = 0; i < count; i++) {
            browser.run("%s[arguments[0]].click()".formatted(buttons), i);
            browser.await("document.querySelector('dialog[open]')");
            assertHarmless("%s, dialog %d".formatted(page, i));
            browser.run("document.querySelector('dialog').close()");
            browser.await("!document.querySelector('dialog')");
        }
    }

    private void assertHarmless(String where) {
        List<String> found =
                browser.run("""
                        const found = [];
                        if (window.xss !== undefined) found.push('a script has run');
                        for (const each of document.querySelectorAll(
                            'body img, body script, body iframe, body object, body embed, body base, body form[action]')) {
                          found.push(each.outerHTML);
                        }
                        for (const each of document.querySelectorAll('body *')) {
                          for (const attribute of each.attributes) {
                            if (attribute.name.startsWith('on')) found.push(each.outerHTML);
                          }
                        }
                        for (const each of document.querySelectorAll('[href], [src], [xlink\\\\:href], [formaction]')) {
                          const target = each.getAttribute('href') ?? each.getAttribute('src') ?? each.getAttribute('formaction');
                          if (!/^(https?:|[?#]|[.]{0,2}[/]|$)/.test(target) && !/^assets[/]/.test(target)) found.push(each.outerHTML);
                        }
                        return found;
                        """).valueStream().map(JsonNode::asString).toList();
        assertThat(found).as(where).isEmpty();
    }

    /** Markup instead of a page, an id, a filter, an order, a place in a list. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "overview",
                "jobs",
                "job-names",
                "batches",
                "crons",
                "daemons",
                "workflows",
                "nodes",
                "locks",
                "rate-limits",
                "audit"
            })
    void markup_in_the_address_stays_text(String page) {
        String markup = encoded(rows.text("address"));
        // A status that does not exist is refused, and other parameters of the same address are not read.
        String texts = parameters("name tag group error key q version who action target sort tab", markup);
        String all = texts
                + parameters("status metadata batch createdFrom after before state range source result limit", markup);
        for (String query : List.of("&id=" + markup, texts, all)) {
            browser.open(base() + "?page=" + page + query);
            browser.await(
                    "document.querySelector('main h1, main .state.error') && !document.querySelector('main [role=status]')");
            assertHarmless(query);
        }
    }

    private static String parameters(String names, String value) {
        return Stream.of(names.split(" ", -1))
                .map(name -> "&%s=%s".formatted(name, value))
                .collect(Collectors.joining());
    }

    @Test
    void markup_instead_of_a_page_stays_text() {
        String markup = rows.text("address");
        open("?page=%1$s&id=%1$s".formatted(encoded(markup)));
        assertThat(text()).contains(markup);
        assertHarmless("unknown page");
    }

    @Test
    void message_with_markup_stays_text() {
        String cron = rows.text("forge_crons.name");
        open("?page=crons&id=" + encoded(cron));
        press("Run now");
        browser.click("dialog button[type=submit]");
        browser.await("document.querySelector('dialog [role=alert], #toast .toast')");
        assertHarmless("refused change");
        open("?page=crons&id=" + encoded(cron));
        press("Pause");
        browser.fill("#dialog-reason", rows.text("forge_audit.reason"));
        browser.click("dialog button[type=submit]");
        browser.await("document.querySelector('#toast').innerText.includes(arguments[0])", cron);
        assertHarmless("toast");
    }

    private void press(String button) {
        browser.await(
                "[...document.querySelectorAll('main .actions button')].some((b) => b.innerText === arguments[0])",
                button);
        browser.run(
                "[...document.querySelectorAll('main .actions button')].find((b) => b.innerText === arguments[0]).click()",
                button);
        browser.await("document.querySelector('dialog[open]')");
    }

    @Test
    void trace_is_linked_only_by_its_id() {
        open("?page=jobs&id=" + rows.failed);
        String link = browser.run("return document.querySelector('main a[target=_blank]').href")
                .asString();
        assertThat(link).startsWith("https://traces.test/").endsWith("/0af7651916cd43dd8448eb211c80319c");
        open("?page=jobs&id=" + rows.pending);
        assertThat(browser.run("return document.querySelectorAll('main a[target=_blank]').length")
                        .asInt())
                .as("the traceparent is markup")
                .isZero();
    }

    @Test
    void markup_in_the_name_of_the_user_stays_text() {
        logIn(DashboardTestApplication.MARKUP);
        open("");
        assertThat(browser.run("return document.querySelector('header .user').innerText")
                        .asString())
                .isEqualTo(DashboardTestApplication.MARKUP);
        assertHarmless("header");
    }
}
