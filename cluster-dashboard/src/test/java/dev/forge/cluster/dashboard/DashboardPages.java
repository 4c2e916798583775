// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.context.TestPropertySource;

/**
 * The pages of the dashboard of {@link DashboardTestApplication} in a real browser, for user ada, who may do everything. Tests are
 * skipped without a browser, unless the environment requires it.
 */
@ClusterPostgres
@SpringBootTest(classes = DashboardTestApplication.class, webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT)
@TestPropertySource(properties = DashboardTestApplication.PROPERTIES)
@DirtiesContext
abstract class DashboardPages {

    static final Duration PATIENCE = Duration.ofMinutes(2);

    static @Nullable Browser browser;

    /** Whose session the browser has; null if it has none. */
    private static @Nullable String user;

    @LocalServerPort
    int port;

    @Autowired
    Jobs jobs;

    @Autowired
    JobOperations operations;

    @Autowired
    Workflows workflows;

    @Autowired
    JdbcClient jdbc;

    @Autowired
    DashboardTestApplication application;

    @BeforeAll
    static void start() {
        Optional<Browser> found = Browser.start();
        if (System.getenv(Browser.REQUIRED) != null) {
            assertThat(found)
                    .as("%s is set: chromium and chromedriver are missing", Browser.REQUIRED)
                    .isPresent();
        }
        assumeTrue(found.isPresent(), "Browser tests are skipped: chromium and chromedriver are not installed");
        browser = found.orElseThrow();
    }

    @AfterAll
    static void stop() {
        if (browser != null) {
            browser.close();
            browser = null;
            user = null;
        }
    }

    @BeforeEach
    void logIn() {
        if (!"ada".equals(user)) {
            logIn("ada");
        }
        // No page of another test: it would go on polling, and a test must open its own. The login page does nothing.
        // An empty page belongs to no site: Chromium would start one process for it and one for the next page.
        openLogin();
        browser.console();
    }

    String base() {
        return "http://localhost:%d/shop/forge/dashboard/".formatted(port);
    }

    void logIn(String name) {
        openLogin();
        endSession();
        // The application's own login page; the page that was asked for follows.
        browser.open(base());
        browser.type("input[name=username]", name);
        browser.type("input[name=password]", "pw");
        browser.click("button[type=submit]");
        browser.await("document.querySelector('main h1')");
        user = name;
    }

    private void openLogin() {
        browser.open("http://localhost:%d/shop/login".formatted(port));
    }

    void endSession() {
        browser.deleteCookies();
        user = null;
    }

    void open(String query) {
        browser.open(base() + query);
        browser.await("document.querySelector('main h1') && !document.querySelector('main [role=status]')");
    }

    String text() {
        return browser.run("return document.querySelector('main').innerText").asString();
    }

    void assertCleanConsole() {
        assertThat(browser.console()).noneMatch(line -> line.startsWith("SEVERE") || line.contains("Content Security"));
    }

    /** Opens the dialog of a button of the open page. */
    void choose(String button) {
        browser.click("main button[aria-label='%s']".formatted(button));
        browser.await("document.querySelector('dialog[open]')");
    }

    /** Makes a change as a user does: presses a button of the open page, fills in the dialog, confirms. */
    void operate(String button, String reason, Map<String, String> fields) {
        choose(button);
        fields.forEach((name, value) -> browser.fill("#dialog-" + name, value));
        browser.fill("#dialog-reason", reason);
        browser.click("dialog button[type=submit]");
        browser.await("!document.querySelector('dialog')");
    }

    void operate(String button, String reason) {
        operate(button, reason, Map.of());
    }

    UUID ended(String name, @Nullable Object payload, JobStatus status) {
        UUID job = jobs.enqueueNamed(
                        name,
                        payload,
                        JobOptions.defaults()
                                .withMetadata("note", DashboardTestApplication.MARKUP)
                                .withTags("tagged"))
                .id();
        awaitStatus(job, status);
        return job;
    }

    void awaitStatus(UUID job, JobStatus status) {
        await().atMost(PATIENCE).until(() -> status(job) == status);
    }

    JobStatus status(UUID job) {
        return jobs.find(job).orElseThrow().status();
    }

    /** Adds an active node that does nothing. */
    UUID addNode(String name) {
        return jdbc.sql("""
                        INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                        VALUES (gen_random_uuid(), :name, :name, 'far-away', '{gateway}', 'active', '1',
                                now() + interval '1 day', now() + interval '1 day')
                        RETURNING id
                        """).param("name", name).query(UUID.class).single();
    }

    String nodeStatus(UUID node) {
        return jdbc.sql("SELECT status FROM forge_nodes WHERE id = ?")
                .param(node)
                .query(String.class)
                .single();
    }

    /** Starts a workflow and waits until its run has that status. */
    UUID run(String workflow, WorkflowStatus status) {
        UUID run = workflows.start(workflow, null);
        awaitRun(run, status);
        return run;
    }

    void awaitRun(UUID run, WorkflowStatus status) {
        await().atMost(PATIENCE).until(() -> workflows.find(run).orElseThrow().status() == status);
    }

    /** Returns a job that is not due. */
    UUID pending(String... tags) {
        return jobs.enqueueNamed(
                        "waits",
                        null,
                        JobOptions.defaults().withDelay(Duration.ofDays(1)).withTags(tags))
                .id();
    }
}
