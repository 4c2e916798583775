// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import dev.forge.cluster.benchmarks.measure.Report.Figure;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Draws the throughputs of each part as a bar chart in SVG. */
public final class Chart {

    private static final String UNIT = "jobs/s";
    private static final int WIDTH = 920;
    private static final int LABELS = 440;
    private static final int BARS = 380;
    private static final int LINE = 22;
    private static final int MARGIN = 16;

    private Chart() {}

    /** Returns the SVG document. The colour of its text follows the reader's light or dark colour scheme. */
    public static String svg(List<Figure> figures) {
        Map<String, List<Figure>> parts = new LinkedHashMap<>();
        for (Figure figure : figures) {
            if (figure.unit().equals(UNIT)) {
                parts.computeIfAbsent(figure.part(), part -> new ArrayList<>()).add(figure);
            }
        }
        var shapes = new StringBuilder();
        int y = MARGIN;
        for (Map.Entry<String, List<Figure>> part : parts.entrySet()) {
            double largest =
                    part.getValue().stream().mapToDouble(Figure::value).max().orElse(1);
            y += LINE;
            shapes.append("<text class=\"part\" x=\"%d\" y=\"%d\">%s, %s</text>%n"
                    .formatted(MARGIN, y, text(part.getKey()), UNIT));
            for (Figure figure : part.getValue()) {
                y += LINE;
                shapes.append(bar(figure, largest, y));
            }
            y += LINE / 2;
        }
        return """
                <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
                <style>
                text { fill: #24292f } .part { font-weight: bold } rect { fill: #8c959f } rect.ours { fill: #1f6feb }
                @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
                </style>
                %s</svg>
                """.formatted(WIDTH, y + MARGIN, shapes);
    }

    private static String bar(Figure figure, double largest, int y) {
        double length = Math.max(1, figure.value() / largest * BARS);
        String ours = figure.name().contains("Forge Cluster") ? " class=\"ours\"" : "";
        return String.format(
                Locale.ROOT,
                """
                <text x="%d" y="%d" text-anchor="end">%s</text>
                <rect%s x="%d" y="%d" width="%.1f" height="%d"/>
                <text x="%.1f" y="%d">%,.0f</text>
                """,
                LABELS,
                y,
                text(figure.name()),
                ours,
                LABELS + MARGIN / 2,
                y - LINE / 2 - 2,
                length,
                LINE - 6,
                LABELS + MARGIN + length,
                y,
                figure.value());
    }

    private static String text(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }
}
