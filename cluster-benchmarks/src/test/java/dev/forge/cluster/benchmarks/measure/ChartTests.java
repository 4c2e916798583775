// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.benchmarks.measure.Report.Figure;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

class ChartTests {

    @Test
    void bars_are_as_long_as_the_throughputs() throws Exception {
        Document svg = parse(Chart.svg(List.of(
                new Figure("drain", "Forge Cluster", 30_000, "jobs/s", null),
                new Figure("drain", "A & <B>", 15_000, "jobs/s", null),
                new Figure("drain", "Forge Cluster : A", 2, "x", null),
                new Figure("transactional", "Forge Cluster, transactional", 2_000, "jobs/s", null))));
        NodeList bars = svg.getElementsByTagName("rect");
        assertThat(IntStream.range(0, bars.getLength())
                        .mapToObj(i -> (Element) bars.item(i))
                        .map(bar -> bar.getAttribute("width") + bar.getAttribute("class")))
                .containsExactly("380.0ours", "190.0", "380.0ours");
        assertThat(svg.getDocumentElement().getTextContent())
                .contains("A & <B>", "30,000", "transactional, jobs/s")
                .doesNotContain("Forge Cluster : A");
    }

    @Test
    void numbers_do_not_depend_on_the_locale() throws Exception {
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.GERMANY);
        try {
            Document svg = parse(Chart.svg(List.of(new Figure("drain", "Forge Cluster", 30_000, "jobs/s", null))));
            assertThat(svg.getDocumentElement().getTextContent()).contains("30,000");
        } finally {
            Locale.setDefault(before);
        }
    }

    private static Document parse(String svg) throws Exception {
        return DocumentBuilderFactory.newInstance()
                .newDocumentBuilder()
                .parse(new ByteArrayInputStream(svg.getBytes(StandardCharsets.UTF_8)));
    }
}
