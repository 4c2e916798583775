// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.Page;
import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.CannotGetJdbcConnectionException;

/** Operations on no cluster, for tests of the API: records calls. */
final class RecordedOperations extends Resource {

    private static final String[] CHANGE = {"name", "payload", "preview"};

    private final Consumer<String> calls;

    private RecordedOperations(String name, ResourceParameters parameters, Consumer<String> calls) {
        super(name, parameters);
        this.calls = calls;
    }

    static ClusterOperations recording(Consumer<String> calls) {
        return new ClusterOperations(
                new NoTrail(),
                List.of(
                        new RecordedOperations("overview", ResourceParameters.ofList(), calls),
                        new RecordedOperations(
                                "jobs",
                                ResourceParameters.ofList("name", "status", "error")
                                        .withEntry()
                                        .withChange(CHANGE)
                                        .withChangeOfAll(List.of(CHANGE)),
                                calls),
                        new RecordedOperations(
                                "crons", ResourceParameters.ofList().withEntry().withChange(CHANGE), calls),
                        new RecordedOperations("locks", ResourceParameters.ofList(), calls),
                        new RecordedOperations("nodes", ResourceParameters.ofList(), calls)));
    }

    private static String text(OperationRequest request) {
        return "%s %s".formatted(String.join("/", request.path()), new TreeMap<>(request.parameters()));
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        calls.accept("read %s %s".formatted(text(request), request.caller().seesValues()));
        if (request.parameters().containsKey("error")) {
            throw request.parameters().containsValue("outage")
                    ? new CannotGetJdbcConnectionException("password=4711")
                    : new IllegalStateException("password=4711");
        }
        return request.result(Map.of("jobs", List.of()));
    }

    @Override
    protected OperationResult change(OperationRequest request, String state) {
        calls.accept("change %s %s %s".formatted(state, text(request), request.caller()));
        return request.result(Map.of());
    }

    private static final class NoTrail implements AuditTrail {

        @Override
        public <T extends @Nullable Object> T as(Operator operator, @Nullable String reason, Supplier<T> operation) {
            return operation.get();
        }

        @Override
        public Page<AuditEntry> list(AuditFilter filter, int limit, @Nullable String cursor) {
            return new Page<>(List.of(), null);
        }
    }
}
