// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.springframework.jdbc.CannotGetJdbcConnectionException;

/** Data of no cluster, for tests of the handler: records calls. */
final class RecordedData implements DashboardData {

    private final Consumer<String> calls;

    RecordedData(Consumer<String> calls) {
        this.calls = calls;
    }

    @Override
    public Set<String> resources() {
        return Set.of("overview", "jobs", "crons", "locks", "nodes");
    }

    @Override
    public Optional<Set<String>> readParameters(List<String> path) {
        boolean entry = path.size() > 1;
        return switch (path.get(0)) {
            case "jobs" -> Optional.of(entry ? Set.of() : Set.of("name", "status", "error"));
            case "crons" -> Optional.of(Set.of());
            default -> entry ? Optional.empty() : Optional.of(Set.of());
        };
    }

    @Override
    public Optional<Set<String>> changeParameters(List<String> path) {
        return Set.of("jobs", "crons").contains(path.get(0))
                ? Optional.of(Set.of("name", "payload", "preview", "reason"))
                : Optional.empty();
    }

    @Override
    public Object read(List<String> path, Map<String, String> parameters, boolean values) {
        calls.accept("read %s %s %s".formatted(String.join("/", path), parameters, values));
        if (parameters.containsKey("error")) {
            throw parameters.containsValue("outage")
                    ? new CannotGetJdbcConnectionException("password=4711")
                    : new IllegalStateException("password=4711");
        }
        return Map.of("jobs", List.of());
    }

    @Override
    public Object change(List<String> path, String state, Map<String, String> parameters, Author author) {
        calls.accept("change %s %s %s %s".formatted(String.join("/", path), state, parameters, author));
        return Map.of();
    }
}
