// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.MissingReasonException;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;

/** Reads and changes with the operations that the Actuator endpoint has, too, and adds the overview as a resource. */
final class OperationsData implements DashboardData {

    private static final String OVERVIEW = "overview";

    private final ClusterOperations operations;

    OperationsData(ClusterOperations operations) {
        this.operations = operations;
    }

    @Override
    public Set<String> resources() {
        var names = new TreeSet<>(operations.resources());
        names.add(OVERVIEW);
        return names;
    }

    @Override
    public Optional<Set<String>> readParameters(List<String> path) {
        return isOverview(path) ? Optional.of(Set.of()) : operations.readParameters(path);
    }

    @Override
    public Optional<Set<String>> changeParameters(List<String> path) {
        return operations.changeParameters(path);
    }

    private static boolean isOverview(List<String> path) {
        return path.equals(List.of(OVERVIEW));
    }

    @Override
    public Object read(List<String> path, Map<String, String> parameters, boolean values) {
        if (isOverview(path)) {
            return operations.overview();
        }
        return found(() -> operations.read(new Caller(values, null, null, AuditSource.DASHBOARD), path, parameters));
    }

    @Override
    public Object change(List<String> path, String state, Map<String, String> parameters, Author author) {
        var caller = new Caller(author.values(), author.user(), author.address(), AuditSource.DASHBOARD);
        return found(() -> operations.change(caller, path, state, parameters));
    }

    private static Object found(Supplier<OperationResult> operation) {
        OperationResult result;
        try {
            result = operation.get();
        } catch (HiddenValuesException e) {
            throw RefusedRequestException.invalid(e.getMessage() + " (forge.cluster.dashboard.authorities.values)");
        } catch (MissingReasonException e) {
            throw new RefusedRequestException(400, "reason-required", String.valueOf(e.getMessage()));
        } catch (InvalidOperationException e) {
            throw RefusedRequestException.invalid(String.valueOf(e.getMessage()));
        }
        if (result instanceof OperationResult.NotFound missing) {
            throw new RefusedRequestException(404, "not-found", missing.message());
        }
        if (result instanceof OperationResult.Denied denied) {
            throw new RefusedRequestException(403, "forbidden", denied.message());
        }
        if (result instanceof OperationResult.Busy busy) {
            throw new RefusedRequestException(503, "busy", busy.message());
        }
        return ((OperationResult.Found) result).descriptor();
    }
}
