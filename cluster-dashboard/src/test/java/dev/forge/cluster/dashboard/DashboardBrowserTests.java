// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.lock.ClusterLocks;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.annotation.Autowired;

/** The dashboard in a real browser: pages, addresses, sessions and what a newcomer looks for. */
class DashboardBrowserTests extends DashboardPages {

    @Autowired
    private ClusterLocks locks;

    @Autowired
    private Crons crons;

    @AfterEach
    void restoreSize() {
        browser.resize(1400, 900);
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
        browser.await("document.querySelector('#filter-tag') && document.querySelector('#filter-tag').value === ''");
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

    // What somebody who sees the dashboard for the first time wants to know ---------------------------------

    private void follow(String text) {
        browser.await(
                "[...document.querySelectorAll('nav a, main a')].some((a) => a.innerText === arguments[0])", text);
        browser.run(
                "[...document.querySelectorAll('nav a, main a')].find((a) => a.innerText === arguments[0]).click()",
                text);
    }

    @Test
    void node_that_runs_a_job_is_found() {
        jobs.enqueueNamed("blocks", null);
        open("");
        follow("Jobs");
        browser.type("#filter-name", "blocks");
        browser.await(
                "[...document.querySelectorAll('tbody tr')].some((row) => /running/.test(row.innerText) && /shop-1/.test(row.innerText))");
        application.released.countDown();
    }

    @Test
    void reason_why_a_job_waits_is_found() {
        jobs.pause("call-bank");
        UUID job = jobs.enqueueNamed("call-bank", null).id();
        open("");
        follow("Jobs");
        browser.type("#filter-name", "call-bank");
        browser.click("a[aria-label='Job %s']".formatted(job));
        browser.await("/paused/i.test(document.querySelector('main').innerText)");
        jobs.resume("call-bank");
    }

    @Test
    void cron_that_failed_last_night_is_found() {
        UUID job = crons.trigger("nightly-report").orElseThrow();
        await().atMost(Duration.ofMinutes(2))
                .until(() -> jobs.find(job).orElseThrow().status() == JobStatus.FAILED);
        open("");
        browser.await("document.querySelector('main').innerText.includes('Cron nightly-report')");
        browser.click("a[aria-label='Open failed cron nightly-report']");
        browser.await("document.querySelector('main').innerText.includes('No paper')");
    }

    @Test
    void all_failed_jobs_of_a_name_are_retried() {
        List<UUID> failed = List.of(
                ended("call-bank", null, JobStatus.FAILED),
                ended("call-bank", null, JobStatus.FAILED),
                ended("call-bank", null, JobStatus.FAILED));
        UUID other = ended("fails", null, JobStatus.FAILED);
        application.bankIsUp.set(true);
        open("");
        follow("Job names");
        follow("call-bank");
        browser.click(".headline button[aria-label*='failed']");
        browser.await("/[1-9][0-9]* jobs? match/.test(document.querySelector('dialog .preview').innerText)");
        browser.click("dialog button[type=submit]");
        browser.await("!document.querySelector('dialog')");
        await().atMost(Duration.ofMinutes(2))
                .until(() -> failed.stream()
                        .allMatch(id -> jobs.find(id).orElseThrow().status() == JobStatus.COMPLETED));
        assertThat(jobs.find(other).orElseThrow().status()).isEqualTo(JobStatus.FAILED);
        application.bankIsUp.set(false);
    }

    @Test
    void job_is_duplicated_with_an_edited_payload() {
        UUID job = ended("completes", Map.of("text", "x"), JobStatus.COMPLETED);
        open("?page=jobs&id=" + job);
        browser.click(".headline button[aria-label^='Duplicate']");
        browser.fill("#dialog-payload", "{\"text\": \"edited\"}");
        browser.click("dialog button[type=submit]");
        browser.click("#toast a");
        browser.await(
                "location.search.startsWith('?page=jobs&id=') && !location.search.includes(arguments[0])",
                job.toString());
        String copy = browser.address().replaceAll(".*id=", "");
        assertThat(jobs.find(UUID.fromString(copy)).orElseThrow().payload()).contains("edited");
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
        open("");
        assertThat(browser.runAsync("""
                        const done = arguments[arguments.length - 1];
                        fetch('api/v1/jobs', { method: 'POST', headers: { 'Content-Type': 'application/json' },
                          body: JSON.stringify({ id: '%s', state: 'cancelled' }) }).then((r) => done(r.status));
                        """.formatted(job)).asInt()).isEqualTo(403);
        assertThat(jobs.find(job).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    /** Names that every object of JavaScript has. */
    @ParameterizedTest
    @ValueSource(strings = {"constructor", "__proto__", "toString", "no-such-page"})
    void unknown_page_is_named(String page) {
        open("?page=" + page);
        assertThat(text()).contains("There is no page “%s”.".formatted(page));
        assertCleanConsole();
    }

    @ParameterizedTest
    @CsvSource({"jobs, Job", "batches, Batch", "workflows, Run", "crons, Cron"})
    void page_of_a_thing_that_is_gone_says_so_below_a_heading(String page, String heading) throws IOException {
        UUID id = UUID.randomUUID();
        open("?page=%s&id=%s".formatted(page, id));
        assertThat(browser.run("return document.querySelector('h1').innerText").asString())
                .isEqualTo(heading);
        assertThat(browser.run("return document.querySelector('main .state.error').innerText")
                        .asString())
                .contains(id.toString());
        assertThat(violations()).isEmpty();
    }

    @Test
    void ended_session_is_shown() {
        open("?page=nodes");
        endSession();
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
