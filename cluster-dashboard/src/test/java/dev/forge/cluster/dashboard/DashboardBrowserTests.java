// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.test.ClusterPostgres;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.context.TestPropertySource;

/** The dashboard in a real browser. Skipped without one, unless the environment requires it. */
@ClusterPostgres
@SpringBootTest(classes = DashboardTestApplication.class, webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT)
@TestPropertySource(properties = DashboardTestApplication.PROPERTIES)
@DirtiesContext
class DashboardBrowserTests {

    private static @Nullable Browser browser;

    @LocalServerPort
    private int port;

    @Autowired
    private Jobs jobs;

    @Autowired
    private ClusterLocks locks;

    @BeforeAll
    static void start() throws IOException {
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
    static void stop() throws IOException {
        if (browser != null) {
            browser.close();
        }
    }

    @BeforeEach
    void logIn() {
        logIn("ada");
        browser.console();
    }

    @AfterEach
    void restoreSize() {
        browser.resize(1400, 900);
    }

    private String base() {
        return "http://localhost:%d/shop/forge/dashboard/".formatted(port);
    }

    private void logIn(String user) {
        browser.open("http://localhost:%d/shop/login".formatted(port));
        browser.deleteCookies();
        // The application's own login page; the page that was asked for follows.
        browser.open(base());
        browser.type("input[name=username]", user);
        browser.type("input[name=password]", "pw");
        browser.click("button[type=submit]");
        browser.await("document.querySelector('main h1')");
    }

    private void open(String query) {
        browser.open(base() + query);
        browser.await("document.querySelector('main h1') && !document.querySelector('main [role=status]')");
    }

    private String text() {
        return browser.run("return document.querySelector('main').innerText").asString();
    }

    private void assertCleanConsole() {
        assertThat(browser.console()).noneMatch(line -> line.startsWith("SEVERE") || line.contains("Content Security"));
    }

    private UUID ended(String name, Object payload, JobStatus status) {
        UUID job = jobs.enqueueNamed(
                        name,
                        payload,
                        JobOptions.defaults()
                                .withMetadata("note", DashboardTestApplication.MARKUP)
                                .withTags("tagged"))
                .id();
        await().atMost(Duration.ofMinutes(2))
                .until(() -> jobs.find(job).orElseThrow().status() == status);
        return job;
    }

    private UUID pending() {
        return jobs.enqueueNamed("waits", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                .id();
    }

    /** Returns serious violations that axe finds. */
    private List<String> violations() throws IOException {
        try (InputStream axe = Objects.requireNonNull(getClass().getResourceAsStream("/axe/axe.min.js"))) {
            browser.run(new String(axe.readAllBytes(), StandardCharsets.UTF_8));
        }
        return browser.runAsync("""
                        const done = arguments[arguments.length - 1];
                        axe.run(document, { resultTypes: ['violations'] }).then((result) => done(result.violations
                          .filter((each) => each.impact === 'serious' || each.impact === 'critical')
                          .map((each) => each.id + ': ' + each.nodes.map((node) => node.html).join(' | '))),
                          (error) => done([String(error)]));
                        """).valueStream().map(each -> each.asString()).toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {"overview", "nodes", "jobs", "batches", "limits", "crons", "daemons", "workflows", "locks"})
    void page_opens_without_an_error_and_is_accessible(String page) throws IOException {
        ended("completes", Map.of("text", "x"), JobStatus.COMPLETED);
        assertThat(locks.tryLock("lock-" + page)).isPresent();
        open("?page=" + page);
        browser.await("document.title.includes('orders')");
        assertThat(browser.run("return document.querySelectorAll('.state.error').length")
                        .asInt())
                .as(text())
                .isZero();
        assertThat(violations()).isEmpty();
        browser.click("#theme");
        assertThat(violations()).as("dark").isEmpty();
        browser.run("localStorage.clear()");
        assertCleanConsole();
    }

    @Test
    void page_fits_a_small_screen() throws IOException {
        browser.resize(500, 800);
        open("?page=jobs");
        assertThat(browser.run("return document.documentElement.scrollWidth - innerWidth")
                        .asInt())
                .isLessThanOrEqualTo(0);
        assertThat(violations()).isEmpty();
    }

    @Test
    void markup_in_data_stays_text() throws IOException {
        UUID completed = ended("completes", Map.of("text", DashboardTestApplication.MARKUP), JobStatus.COMPLETED);
        UUID failed = ended("fails", null, JobStatus.FAILED);
        for (String query : List.of("?page=jobs&id=" + completed, "?page=jobs&id=" + failed, "?page=daemons")) {
            open(query);
            browser.await("document.querySelector('main').innerText.includes('<img src=x')");
        }
        open("?page=%3Cimg%20src%3Dx%20onerror%3D%22window.xss%3D1%22%3E&id=%3Cscript%3Ewindow.xss%3D1%3C%2Fscript%3E");
        assertThat(text()).contains("<img src=x");
        open("?page=jobs&name=%3Cimg%20src%3Dx%20onerror%3D%22window.xss%3D1%22%3E");
        assertThat(browser.run("return document.querySelectorAll('main img, main script').length")
                        .asInt())
                .isZero();
        assertThat(browser.run("return window.xss === undefined").asBoolean()).isTrue();
    }

    @Test
    void filters_are_part_of_the_address_and_the_back_button_restores_them() {
        ended("completes", Map.of("text", "x"), JobStatus.COMPLETED);
        UUID pending = jobs.enqueueNamed(
                        "waits",
                        null,
                        JobOptions.defaults().withDelay(Duration.ofDays(1)).withTags("shared-filter"))
                .id();
        open("");
        browser.click("nav a[href='?page=jobs']");
        browser.await("document.querySelector('h1').innerText === 'Jobs'");
        browser.type("#filter-tag", "shared-filter");
        browser.await("location.search.includes('tag=shared-filter')");
        browser.await(
                "document.querySelector('table') && !document.querySelector('main').innerText.includes('completes')");
        browser.click("a[aria-label='Job %s']".formatted(pending));
        browser.await(
                "document.querySelector('.crumbs') && document.querySelector('h1').innerText.startsWith('waits')");
        String shared = browser.address();
        browser.back();
        browser.await(
                "document.querySelector('#filter-tag') && document.querySelector('#filter-tag').value === 'shared-filter'");
        browser.back();
        browser.await(
                "document.querySelector('#filter-tag') && document.querySelector('#filter-tag').value === ''");
        browser.back();
        browser.await("document.querySelector('h1').innerText === 'Overview'");
        browser.open(shared);
        browser.await("document.querySelector('h1') && document.querySelector('h1').innerText.startsWith('waits')");
        assertCleanConsole();
    }

    @Test
    void next_page_continues_the_list() {
        for (int i = 0; i < 60; i++) {
            pending();
        }
        open("?page=jobs&name=waits");
        browser.await("document.querySelectorAll('tbody tr').length === 50");
        browser.click("#next-page");
        browser.await("location.search.includes('after=') && document.querySelectorAll('tbody tr').length > 0");
        browser.await("[...document.querySelectorAll('button')].some((each) => each.innerText === 'First page')");
        assertCleanConsole();
    }

    @Test
    void job_is_cancelled_and_retried_after_a_confirmation() {
        UUID job = pending();
        open("?page=jobs&id=" + job);
        browser.click(".headline button.danger");
        browser.await("document.querySelector('dialog[open]')");
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        browser.type("#dialog-reason", "no longer needed");
        browser.click("dialog button[type=submit]");
        browser.await(
                "!document.querySelector('dialog') && document.querySelector('h1 .badge').innerText === 'cancelled'");
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
        browser.click(".headline button");
        browser.click("dialog button[type=submit]");
        await().atMost(Duration.ofMinutes(2))
                .until(() -> jobs.find(job).orElseThrow().status() != JobStatus.CANCELLED);
        browser.await("!document.querySelector('dialog')");
        assertCleanConsole();
    }

    @Test
    void matching_jobs_are_counted_before_they_are_changed() {
        UUID job = pending();
        open("?page=jobs&name=waits");
        browser.click(".toolbar button.danger");
        browser.await("document.querySelector('dialog .preview').innerText.match(/[1-9][0-9]* jobs? match/)");
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        browser.click("dialog button[type=submit]");
        browser.await("!document.querySelector('dialog')");
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
    }

    @Test
    void user_without_permission_sees_a_read_only_page_without_values() {
        UUID job = ended("completes", Map.of("text", "4711"), JobStatus.COMPLETED);
        UUID pending = pending();
        logIn("vic");
        open("?page=jobs&id=" + job);
        browser.await("document.querySelector('#read-only')");
        assertThat(text()).contains("Read-only").contains("******").doesNotContain("4711");
        open("?page=jobs&id=" + pending);
        assertThat(browser.run("return document.querySelectorAll('main button').length")
                        .asInt())
                .isZero();
    }

    @Test
    void change_without_the_token_is_refused() {
        UUID job = pending();
        assertThat(browser.runAsync("""
                        const done = arguments[arguments.length - 1];
                        fetch('api/v1/jobs', { method: 'POST', headers: { 'Content-Type': 'application/json' },
                          body: JSON.stringify({ id: '%s', state: 'cancelled' }) }).then((r) => done(r.status));
                        """.formatted(job)).asInt()).isEqualTo(403);
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void ended_session_is_shown() {
        open("?page=nodes");
        browser.deleteCookies();
        browser.await(
                "document.querySelector('#banner') && document.querySelector('#banner').innerText.includes('session has ended')");
        assertThat(text()).contains("Heartbeat");
        browser.click("#banner a");
        browser.await("document.querySelector('input[name=password]')");
    }

    @Test
    void theme_follows_the_system_and_the_switch() {
        String background = "return getComputedStyle(document.body).backgroundColor";
        browser.prefer("light");
        open("");
        String light = browser.run(background).asString();
        browser.prefer("dark");
        browser.await("getComputedStyle(document.body).backgroundColor !== arguments[0]", light);
        String dark = browser.run(background).asString();
        browser.prefer("light");
        browser.click("#theme");
        browser.await("getComputedStyle(document.body).backgroundColor === arguments[0]", dark);
        open("?page=nodes");
        assertThat(browser.run(background).asString()).as("kept").isEqualTo(dark);
        browser.run("localStorage.clear()");
        assertCleanConsole();
    }

    @Test
    void arrow_keys_move_between_rows() {
        pending();
        pending();
        open("?page=jobs");
        browser.await("document.querySelectorAll('tbody tr').length > 1");
        browser.run("""
                const first = document.querySelector('tbody tr a');
                first.focus();
                first.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
                """);
        browser.await("document.activeElement === document.querySelectorAll('tbody tr')[1].querySelector('a')");
    }

    @Test
    void dashboard_works_behind_a_proxy_that_rewrites_paths() throws IOException {
        try (var proxy = new RewritingProxy(
                "/ops/dashboard", URI.create("http://localhost:%d/shop/forge/dashboard".formatted(port)))) {
            browser.open(proxy.address());
            browser.await("document.querySelector('h1') && document.querySelector('h1').innerText === 'Overview'");
            assertThat(browser.address()).endsWith("/ops/dashboard/");
            browser.click("nav a[href='?page=nodes']");
            browser.await("document.querySelector('tbody tr')");
            assertThat(browser.address()).endsWith("/ops/dashboard/?page=nodes");
        }
        assertCleanConsole();
    }
}
