// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Verifies that relative links of all pages lead to existing files, and anchors to existing headings. */
class LinkTests {

    private static final int MOST_LINES_OF_THE_README = 120;
    private static final Pattern LINK = Pattern.compile("(?<!!)\\[[^\\]]*\\]\\(([^)\\s]+)\\)");
    private static final Pattern HEADING = Pattern.compile("(?m)^#{1,6} (.+)$");

    @Test
    void relative_links_and_anchors_resolve() {
        var broken = new ArrayList<String>();
        int links = 0;
        for (Path page : Pages.all()) {
            for (String link : links(Pages.text(page))) {
                links++;
                if (!resolves(page, link)) {
                    broken.add("%s: %s".formatted(page, link));
                }
            }
        }
        assertThat(broken).isEmpty();
        assertThat(links).isGreaterThan(80);
    }

    @Test
    void broken_link_is_found() {
        Path readme = Pages.ROOT.resolve("README.md");
        assertThat(links("[a](b.md) and [c](d.md#e)")).containsExactly("b.md", "d.md#e");
        assertThat(resolves(readme, "docs/reference/jobs.md#transactional-handlers"))
                .isTrue();
        assertThat(resolves(readme, "docs/reference/jobs.md#no-such-heading")).isFalse();
        assertThat(resolves(readme, "docs/reference/no-such-page.md")).isFalse();
    }

    @Test
    void every_page_of_the_guide_is_linked_from_the_readme() {
        Set<String> linked = new HashSet<>();
        links(Pages.text(Pages.ROOT.resolve("README.md"))).forEach(link -> linked.add(link.replaceFirst("#.*", "")));
        for (Path page : Pages.guide()) {
            String name = Pages.ROOT.relativize(page).toString();
            assertThat(name.equals("README.md") || linked.contains(name))
                    .as(name)
                    .isTrue();
        }
    }

    @Test
    void every_decision_is_linked_from_the_index() {
        Path index = Pages.ROOT.resolve("docs/decisions/README.md");
        List<Path> linked =
                links(Pages.text(index)).stream().map(index::resolveSibling).toList();
        List<Path> pages = Pages.all().stream()
                .filter(page -> page.startsWith(index.getParent()) && !page.equals(index))
                .toList();
        assertThat(pages).isNotEmpty();
        assertThat(linked).containsAll(pages);
    }

    @Test
    void readme_is_short() {
        assertThat(Pages.text(Pages.ROOT.resolve("README.md")).lines())
                .hasSizeLessThanOrEqualTo(MOST_LINES_OF_THE_README);
    }

    private static List<String> links(String text) {
        var links = new ArrayList<String>();
        // Brackets in a code span are not a link.
        Matcher matcher = LINK.matcher(Pages.withoutBlocks(text).replaceAll("(?<!\\[)`[^`\\n]*`", ""));
        while (matcher.find()) {
            if (!matcher.group(1).matches("[a-z]+:.*")) {
                links.add(matcher.group(1));
            }
        }
        return links;
    }

    private static boolean resolves(Path page, String link) {
        String[] parts = link.split("#", 2);
        Path target = parts[0].isEmpty() ? page : page.resolveSibling(parts[0]);
        return Files.exists(target)
                && (parts.length == 1 || anchors(Pages.text(target)).contains(parts[1]));
    }

    /** Returns the anchors of all headings, generated as GitHub does. */
    private static Set<String> anchors(String text) {
        Map<String, Integer> seen = new HashMap<>();
        var anchors = new HashSet<String>();
        Matcher heading = HEADING.matcher(Pages.withoutBlocks(text));
        while (heading.find()) {
            String anchor = heading.group(1)
                    .toLowerCase(Locale.ROOT)
                    .replaceAll("[^\\p{L}\\p{N} _-]", "")
                    .replace(' ', '-');
            int before = seen.merge(anchor, 1, Integer::sum) - 1;
            anchors.add(before == 0 ? anchor : anchor + "-" + before);
        }
        return anchors;
    }
}
