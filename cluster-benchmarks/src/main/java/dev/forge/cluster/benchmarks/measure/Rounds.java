// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The values of several rounds, by name. Each round measures all names in turn, so that a busy moment affects all. */
public final class Rounds {

    public static final int COUNT = 3;

    private final Map<String, List<Double>> values = new LinkedHashMap<>();

    public void add(String name, double value) {
        values.computeIfAbsent(name, n -> new ArrayList<>()).add(value);
    }

    public boolean has(String name) {
        return values.containsKey(name);
    }

    public double sum(String name) {
        return values.getOrDefault(name, List.of()).stream()
                .mapToDouble(Double::doubleValue)
                .sum();
    }

    public double median(String name) {
        return percentile(values.getOrDefault(name, List.of()), 50);
    }

    public static double percentile(List<Double> values, int percent) {
        if (values.isEmpty()) {
            throw new IllegalArgumentException("No values");
        }
        List<Double> sorted = values.stream().sorted().toList();
        return sorted.get(Math.min(sorted.size() - 1, sorted.size() * percent / 100));
    }
}
