// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.OutputType;
import org.openqa.selenium.WindowType;
import org.openqa.selenium.chrome.ChromeDriver;
import org.openqa.selenium.chrome.ChromeDriverService;
import org.openqa.selenium.chrome.ChromeOptions;

/**
 * Watches two processes of the sample in a real browser. Skipped without one, unless the environment requires it. Writes the
 * screenshots of the guide to {@code target/screenshots}; {@code docs/images} has a copy.
 */
class SampleDashboardTests {

    private static final Duration START = Duration.ofMinutes(5);
    private static final Path SCREENSHOTS = Path.of("target", "screenshots");
    private static final Pattern ID = Pattern.compile("Id\"\\s*:\\s*\"([0-9a-f-]{36})");

    private static TestDatabase database;
    private static TestDatabase other;
    private static AppProcess one;
    private static AppProcess two;
    private static ChromeDriver driver;

    @BeforeAll
    static void start() {
        Optional<Path> chromium = program("chromium").or(() -> program("google-chrome"));
        Optional<Path> chromedriver = program("chromedriver");
        boolean installed = chromium.isPresent() && chromedriver.isPresent();
        if (System.getenv("FORGE_BROWSER_REQUIRED") == null) {
            assumeTrue(installed, "Browser tests are skipped: chromium and chromedriver are not installed");
        }
        assertThat(installed)
                .as("FORGE_BROWSER_REQUIRED is set: chromium and chromedriver must be installed")
                .isTrue();
        database = PostgresServer.shared().createEmptyDatabase("shop");
        other = PostgresServer.shared().createEmptyDatabase("other");
        one = node("one").start();
        two = node("two").start();
        one.awaitReady(START);
        two.awaitReady(START);
        var options = new ChromeOptions()
                .setBinary(chromium.orElseThrow().toFile())
                .addArguments("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,1000")
                .addArguments("--disable-gpu", "--disable-background-networking", "--disable-component-update");
        driver = new ChromeDriver(
                new ChromeDriverService.Builder()
                        .usingDriverExecutable(chromedriver.orElseThrow().toFile())
                        .build(),
                options);
    }

    private static Optional<Path> program(String name) {
        return Stream.of(String.valueOf(System.getenv("PATH")).split(File.pathSeparator, -1))
                .map(directory -> Path.of(directory).resolve(name))
                .filter(Files::isExecutable)
                .findAny();
    }

    private static AppProcess.Builder node(String name) {
        return AppProcess.of(SampleApplication.class).database(database).property("forge.cluster.node.name", name);
    }

    @AfterAll
    static void stop() {
        Stream.of(driver == null ? null : (AutoCloseable) driver::quit, one, two, database, other)
                .forEach(SampleDashboardTests::close);
    }

    private static void close(AutoCloseable closeable) {
        try {
            if (closeable != null) {
                closeable.close();
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @BeforeEach
    void logIn() {
        driver.get(page(""));
        driver.manage().deleteAllCookies();
        driver.get(page(""));
        submit("admin");
        awaitText("Overview");
    }

    /** Fills in the application's own login page. */
    private static void submit(String user) {
        driver.findElement(By.name("username")).sendKeys(user);
        driver.findElement(By.name("password")).sendKeys(user);
        driver.findElement(By.cssSelector("button[type=submit]")).click();
    }

    private static String page(String query) {
        return "http://localhost:%d/forge/dashboard/%s".formatted(one.port(), query);
    }

    private static String text() {
        // Much cheaper than getText(), which computes the visibility of each element.
        return String.valueOf(driver.executeScript("return document.body.innerText"));
    }

    private static void awaitText(String... parts) {
        await().ignoreExceptions().untilAsserted(() -> assertThat(text()).contains(parts));
    }

    private static UUID id(String body) {
        Matcher matcher = ID.matcher(body);
        assertThat(matcher.find()).as(body).isTrue();
        return UUID.fromString(matcher.group(1));
    }

    @Test
    void node_that_is_killed_is_reported_while_somebody_watches() {
        driver.get(page("?page=nodes"));
        try (AppProcess three = node("three").start()) {
            three.awaitReady(START);
            awaitText("three");
            three.kill();
            await().ignoreExceptions()
                    .until(() -> driver.findElements(By.xpath("//tbody/tr[contains(., 'three')]")).stream()
                            .allMatch(row -> row.getText().contains("dead")));
            assertThat(text()).contains("one", "two");
        }
    }

    @Test
    void outage_of_the_database_is_shown_and_so_is_its_end() {
        driver.get(page("?page=nodes"));
        awaitText("serves this page");
        try {
            other.jdbc()
                    .sql("ALTER DATABASE %s ALLOW_CONNECTIONS false".formatted(database.name()))
                    .update();
            other.jdbc()
                    .sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = ?")
                    .param(database.name())
                    .query(Long.class)
                    .single();
            awaitText("does not respond", "Data on this page may be outdated", "serves this page");
        } finally {
            other.jdbc()
                    .sql("ALTER DATABASE %s ALLOW_CONNECTIONS true".formatted(database.name()))
                    .update();
        }
        await().ignoreExceptions()
                .untilAsserted(() -> assertThat(text()).contains("active").doesNotContain("does not respond"));
    }

    @Test
    void logout_in_another_tab_is_shown_and_a_login_returns_to_the_page() {
        driver.get(page("?page=crons"));
        awaitText("minute-report");
        String watching = driver.getWindowHandle();
        driver.switchTo().newWindow(WindowType.TAB);
        driver.get("http://localhost:%d/logout".formatted(one.port()));
        driver.findElement(By.cssSelector("button[type=submit]")).click();
        await().ignoreExceptions()
                .until(() -> driver.findElement(By.name("username")).isDisplayed());
        driver.close();
        driver.switchTo().window(watching);

        awaitText("Your session has ended", "minute-report");
        driver.findElement(By.cssSelector("#banner a")).click();
        await().ignoreExceptions()
                .until(() -> driver.findElement(By.name("username")).isDisplayed());
        submit("viewer");
        awaitText("minute-report");
        assertThat(driver.getCurrentUrl()).contains("page=crons");
        assertThat(driver.findElements(By.cssSelector("main button.danger"))).isEmpty();
    }

    /** Adds numbers of the last hours, as if the sample had been busy. */
    private static void fillCharts() {
        database.jdbc().sql("""
                        INSERT INTO forge_job_history (name, slot, minutes, completed, failed, retried, due, oldest_due_millis, running,
                                                       waits, runs)
                        SELECT '', date_trunc('minute', now()) - n * interval '1 minute', 1, 90 + 60 * sin(n / 40.0) + n * 7 % 23,
                               n % 97 / 90, n % 31 / 24, 12 + 10 * cos(n / 25.0), 900, 3 + n % 4,
                               ARRAY[0, 1, 4, 9, 20, 30, 20 + n % 9, 10 + n % 5, 5 + n % 20, 2, n % 7, n % 11 / 4],
                               ARRAY[0, 0, 0, 1, 5, 9, 20, 30, 20, 10, 5]
                        FROM generate_series(0, 358) AS n
                        ON CONFLICT (name, slot, minutes) DO UPDATE SET due = excluded.due, waits = excluded.waits
                        """).update();
    }

    @Test
    void pages_are_photographed_with_data_of_a_shop() throws IOException {
        for (int n = 1; n <= 40; n++) {
            one.post("/orders", "{\"item\": \"anvil\", \"quantity\": %d, \"workMillis\": %d}".formatted(n, n % 4 * 50));
        }
        UUID failing = id(one.post("/orders", "{\"item\": \"rocket skates\", \"quantity\": 1, \"failTimes\": 1}")
                .body());
        one.post("/imports", "{\"file\": \"customers.csv\", \"customers\": [\"acme\", \"acme\", \"globex\", \"?\"]}");
        UUID waiting = id(one.post("/checkouts", "{\"item\": \"anvil\", \"amount\": 99.5}")
                .body());
        UUID shipped = id(
                one.post("/checkouts", "{\"item\": \"magnet\", \"amount\": 12}").body());
        two.post("/checkouts/%s/approve".formatted(shipped), "{\"by\": \"alice\"}");
        one.post("/orders", "{\"item\": \"dynamite\", \"quantity\": 3, \"workMillis\": 120000}");
        await().until(() -> two.get("/orders/" + failing).body().contains("processed"));
        await().until(() -> one.get("/checkouts/" + waiting).body().contains("approve"));

        fillCharts();
        Files.createDirectories(SCREENSHOTS);
        UUID job = database.jdbc()
                .sql("SELECT id FROM forge_jobs WHERE name = 'process-order' AND claim_epoch > 1 ORDER BY id LIMIT 1")
                .query(UUID.class)
                .single();
        Map<String, String> pages = Map.of(
                "overview",
                "",
                "jobs",
                "?page=jobs",
                "job",
                "?page=jobs&id=" + job,
                "workflow",
                "?page=workflows&id=" + waiting);
        for (String scheme : List.of("light", "dark")) {
            driver.executeCdpCommand(
                    "Emulation.setEmulatedMedia",
                    Map.of("features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme))));
            for (Map.Entry<String, String> each : pages.entrySet()) {
                driver.get(page(each.getValue()));
                await().ignoreExceptions()
                        .until(() -> driver.findElements(By.cssSelector("main h1, main [role=status]"))
                                        .size()
                                == 1);
                assertThat(driver.findElements(By.cssSelector(".state.error")))
                        .as(text())
                        .isEmpty();
                byte[] picture = driver.getScreenshotAs(OutputType.BYTES);
                assertThat(picture).hasSizeGreaterThan(10_000);
                Files.write(SCREENSHOTS.resolve("%s-%s.png".formatted(each.getKey(), scheme)), picture);
            }
        }
    }
}
