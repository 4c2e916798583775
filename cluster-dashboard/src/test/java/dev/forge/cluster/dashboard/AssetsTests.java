// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.operations.web.SiteResponse;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.zip.GZIPInputStream;
import org.junit.jupiter.api.Test;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;

/** The static files of the dashboard. */
class AssetsTests {

    private static final int BUDGET = 120 * 1024;

    private final Map<String, byte[]> files = Assets.contents();

    private static Map<String, String> sums(byte[] list) {
        return new String(list, StandardCharsets.UTF_8)
                .lines()
                .map(line -> line.split("  ", 2))
                .collect(Collectors.toMap(parts -> parts[1], parts -> parts[0]));
    }

    private static String sum(byte[] content) {
        return HexFormat.of().formatHex(Assets.sha256().digest(content));
    }

    private String text(String name) {
        return new String(Objects.requireNonNull(files.get(name), name), StandardCharsets.UTF_8);
    }

    /** Returns the texts of the project's own scripts. */
    private Map<String, String> scripts() {
        var scripts = new TreeMap<String, String>();
        files.keySet().stream()
                .filter(name -> name.endsWith(".js") && !name.startsWith("vendor/"))
                .forEach(name -> scripts.put(name, text(name)));
        return scripts;
    }

    @Test
    void files_of_other_projects_have_the_recorded_sums() {
        var actual = new TreeMap<String, String>();
        files.forEach((name, content) -> {
            if (name.startsWith("vendor/") && !name.endsWith("SHA256SUMS.txt") && !name.endsWith("README.txt")) {
                actual.put(name.substring("vendor/".length()), sum(content));
            }
        });
        assertThat(actual).isNotEmpty().isEqualTo(new TreeMap<>(sums(files.get("vendor/SHA256SUMS.txt"))));
    }

    @Test
    void axe_has_the_recorded_sum() throws IOException {
        for (String name : new String[] {"axe.min.js", "LICENSE.txt"}) {
            try (InputStream file = Objects.requireNonNull(getClass().getResourceAsStream("/axe/" + name));
                    InputStream list = Objects.requireNonNull(getClass().getResourceAsStream("/axe/SHA256SUMS.txt"))) {
                assertThat(sums(list.readAllBytes())).containsEntry(name, sum(file.readAllBytes()));
            }
        }
    }

    @Test
    void all_files_together_stay_below_the_budget() {
        int total = files.values().stream()
                .mapToInt(content -> Assets.gzip(content).length)
                .sum();
        assertThat(total).isBetween(1, BUDGET);
    }

    @Test
    void page_has_no_inline_script_or_style_and_only_relative_addresses() {
        String page = text("index.html");
        assertThat(page).doesNotContain("<style").doesNotContain("style=").doesNotContain(" on");
        assertThat(Pattern.compile("<script(?![^>]* src=)").matcher(page).find())
                .isFalse();
        Matcher address = Pattern.compile("(?:src|href)=\"([^\"]*)\"").matcher(page);
        var addresses = new TreeSet<String>();
        while (address.find()) {
            addresses.add(address.group(1));
        }
        assertThat(addresses).hasSize(4).allSatisfy(each -> {
            assertThat(each).startsWith("assets/0/");
            assertThat(files).containsKey(each.substring("assets/0/".length()));
        });
    }

    @Test
    void scripts_import_existing_files_by_relative_addresses() {
        Pattern imports = Pattern.compile("(?m)^import [^;]*?from '([^']+)'");
        assertThat(scripts()).hasSizeGreaterThan(15).allSatisfy((name, script) -> {
            Matcher found = imports.matcher(script);
            while (found.find()) {
                assertThat(found.group(1)).startsWith(".");
                String directory = name.contains("/") ? name.substring(0, name.lastIndexOf('/') + 1) : "";
                String target = java.net
                        .URI
                        .create("x:/" + directory)
                        .resolve(found.group(1))
                        .getPath();
                assertThat(files).as(name).containsKey(target.substring(1));
            }
        });
    }

    @Test
    void scripts_neither_render_html_nor_evaluate_text_nor_name_other_hosts() {
        assertThat(scripts())
                .allSatisfy((name, script) -> assertThat(script)
                        .as(name)
                        .doesNotContain("dangerouslySetInnerHTML")
                        .doesNotContain("innerHTML")
                        .doesNotContain("insertAdjacentHTML")
                        .doesNotContain("document.write")
                        .doesNotContain("eval(")
                        .doesNotContain("http://")
                        .doesNotContain("https://"));
    }

    @Test
    void file_is_kept_by_browsers_under_its_hash_only() throws IOException {
        Assets assets = Assets.load();
        SiteResponse page = assets.page(TestRequests.get("/").build());
        String app = new String(page.body(), StandardCharsets.UTF_8)
                .replaceAll("(?s).*src=\"(assets/[0-9a-f]+/app.js)\".*", "/$1");
        SiteResponse current = assets.file(TestRequests.get(app).build());
        assertThat(current.status()).isEqualTo(200);
        assertThat(current.headers())
                .containsEntry("Cache-Control", "public, max-age=31536000, immutable")
                .containsEntry("Content-Type", "text/javascript;charset=UTF-8");
        SiteResponse other = assets.file(TestRequests.get("/assets/ffff/app.js").build());
        assertThat(other.headers()).containsEntry("Cache-Control", "no-store");
        SiteResponse gzip = assets.file(
                TestRequests.get(app).withHeader("Accept-Encoding", "br, gzip").build());
        assertThat(gzip.headers()).containsEntry("Content-Encoding", "gzip");
        try (var in = new GZIPInputStream(new ByteArrayInputStream(gzip.body()))) {
            assertThat(in.readAllBytes()).isEqualTo(current.body());
        }
    }

    @Test
    void page_is_revalidated() {
        Assets assets = Assets.load();
        SiteResponse page = assets.page(TestRequests.get("/").build());
        assertThat(page.headers()).containsEntry("Cache-Control", "private, no-cache");
        String tag = page.headers().get("ETag");
        assertThat(assets.page(TestRequests.get("/")
                                .withHeader("If-None-Match", tag)
                                .build())
                        .status())
                .isEqualTo(304);
        assertThat(assets.page(TestRequests.get("/")
                                .withHeader("If-None-Match", "\"x\"")
                                .build())
                        .status())
                .isEqualTo(200);
    }

    @Test
    void path_outside_of_the_files_is_not_found() {
        Assets assets = Assets.load();
        for (String path : new String[] {
            "/assets/0/../Dashboard.class", "/assets/0/nothing.js", "/assets/app.js", "/app.js", "/assets/0/"
        }) {
            assertThat(assets.file(TestRequests.get(path).build()).status())
                    .as(path)
                    .isEqualTo(404);
        }
    }

    @Test
    void native_images_contain_all_files() {
        var hints = new RuntimeHints();
        new Assets.Hints().registerHints(hints, null);
        assertThat(Assets.contents().keySet())
                .isNotEmpty()
                .allSatisfy(name -> assertThat(RuntimeHintsPredicates.resource()
                                .forResource("dev/forge/cluster/dashboard/web/" + name))
                        .accepts(hints));
    }
}
