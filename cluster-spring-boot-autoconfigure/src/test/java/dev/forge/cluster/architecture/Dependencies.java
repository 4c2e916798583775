// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.architecture;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** The declared dependencies of one module: {@code group:artifact} per scope, with the scope names of Maven. */
final class Dependencies {

    private final Map<String, Set<String>> byScope = new TreeMap<>();

    void add(String scope, String coordinates) {
        byScope.computeIfAbsent(scope, key -> new TreeSet<>()).add(coordinates);
    }

    /** Moves coordinates that are declared in both scopes to a third one. */
    void merge(String first, String second, String merged) {
        var both = new TreeSet<>(in(first));
        both.retainAll(in(second));
        for (String coordinates : both) {
            remove(first, coordinates);
            remove(second, coordinates);
            add(merged, coordinates);
        }
    }

    private void remove(String scope, String coordinates) {
        byScope.get(scope).remove(coordinates);
        byScope.values().removeIf(Set::isEmpty);
    }

    Set<String> in(String scope) {
        return byScope.getOrDefault(scope, Set.of());
    }

    Map<String, Set<String>> byScope() {
        return byScope;
    }
}
