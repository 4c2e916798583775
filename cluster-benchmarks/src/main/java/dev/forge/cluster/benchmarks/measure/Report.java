// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.json.JsonMapper;

/** Collects the figures and their targets, and writes them as text, JSON and SVG. */
public final class Report {

    private final PrintStream out;
    private final Map<String, String> machine;
    private final List<Figure> figures = new ArrayList<>();
    private String part = "";

    /** The target of a figure, and whether the figure meets it. */
    public record Target(String text, boolean met) {

        static Target atLeast(double limit, String unit, double value) {
            return new Target(">= " + number(limit) + unit(unit), value >= limit);
        }

        static Target atMost(double limit, String unit, double value) {
            return new Target("<= " + number(limit) + unit(unit), value <= limit);
        }

        private static String unit(String unit) {
            return unit.equals("x") || unit.isEmpty() ? unit : " " + unit;
        }
    }

    /** One line of the table. */
    public record Figure(
            String part,
            String name,
            double value,
            String unit,
            @Nullable Target target) {}

    public Report(PrintStream out, Map<String, String> machine) {
        this.out = out;
        this.machine = machine;
        out.println(machine);
    }

    public void begin(String part) {
        this.part = part;
        out.println("# " + part);
    }

    public void add(String name, double value, String unit) {
        add(new Figure(part, name, value, unit, null));
    }

    public void atLeast(double limit, String name, double value, String unit) {
        add(new Figure(part, name, value, unit, Target.atLeast(limit, unit, value)));
    }

    public void atMost(double limit, String name, double value, String unit) {
        add(new Figure(part, name, value, unit, Target.atMost(limit, unit, value)));
    }

    private void add(Figure figure) {
        figures.add(figure);
        out.println("  " + line(figure));
    }

    /** Prints a note among the figures. */
    public void note(String text) {
        out.println("  " + text);
    }

    public void print() {
        out.println();
        out.println("| part | figure | value | target | |");
        out.println("|---|---|---:|---|---|");
        for (Figure figure : figures) {
            Target target = figure.target;
            out.printf(
                    "| %s | %s | %s %s | %s | %s |%n",
                    figure.part,
                    figure.name,
                    number(figure.value),
                    figure.unit,
                    target == null ? "" : target.text,
                    target == null ? "" : verdict(target));
        }
        long missed = figures.stream()
                .filter(figure -> figure.target != null && !figure.target.met)
                .count();
        out.println();
        out.println(missed == 0 ? "All targets met" : missed + " targets NOT MET");
    }

    private static String line(Figure figure) {
        Target target = figure.target;
        return "%-64s %12s %-8s %s"
                .formatted(
                        figure.name,
                        number(figure.value),
                        figure.unit,
                        target == null ? "" : target.text + " " + verdict(target));
    }

    private static String verdict(Target target) {
        return target.met ? "met" : "NOT MET";
    }

    private static String number(double value) {
        String format = value >= 100 || value == Math.rint(value) ? "%,.0f" : "%.2f";
        return String.format(Locale.ROOT, format, value);
    }

    public void write(Path file) throws IOException {
        var json = new LinkedHashMap<String, Object>();
        json.put("machine", machine);
        json.put("figures", figures);
        Path folder = file.toAbsolutePath().getParent();
        if (folder != null) {
            Files.createDirectories(folder);
        }
        Files.writeString(
                file,
                JsonMapper.builder().build().writerWithDefaultPrettyPrinter().writeValueAsString(json) + "\n");
        Path chart = file.resolveSibling(file.getFileName().toString().replaceFirst("\\.json$", "") + ".svg");
        Files.writeString(chart, Chart.svg(figures));
        out.println("Written to %s and %s".formatted(file, chart));
    }
}
