// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.audit.AuditTrail;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * What operators see and do, for adapters such as the Actuator endpoint. An adapter authenticates and authorizes its users, translates
 * requests, and writes the results as JSON.
 *
 * <p>A path has the name of a resource, such as {@code jobs}, and the name or id of an entry, whose segments may be several. Values of
 * the application are sanitized, and masked unless the {@linkplain Caller#seesValues() caller sees them}.
 *
 * <p>All calls use the database and block.
 */
public final class ClusterOperations {

    /** How many calls may read resources at a time, of all adapters: they use the application's pool and may load large values. */
    public static final int CONCURRENT_READS = 2;

    /** States that cannot be undone: somebody will ask why. */
    private static final Set<String> DESTRUCTIVE = Set.of("cancelled", "deleted");

    private static final String REASON = "reason";
    private static final int LONGEST_REASON = 500;

    private final ReadPermits reads = new ReadPermits(CONCURRENT_READS);
    private final Map<String, Resource> resources = new TreeMap<>();

    private final AuditTrail trail;

    /**
     * Creates operations on resources.
     *
     * @param trail records changes
     */
    public ClusterOperations(AuditTrail trail, List<? extends Resource> resources) {
        this.trail = trail;
        resources.forEach(resource -> this.resources.put(resource.name(), resource));
    }

    /** Returns the names of the resources, with which paths begin. */
    public Set<String> resources() {
        return Set.copyOf(resources.keySet());
    }

    /**
     * Reads a resource, or an entry of it.
     *
     * @param path the resource, followed by the name or id of an entry
     * @param parameters those of {@link #readParameters}
     * @throws InvalidOperationException if a parameter is unknown or invalid
     */
    public OperationResult read(Caller caller, List<String> path, Map<String, String> parameters) {
        var request = new OperationRequest(caller, List.copyOf(path), Map.copyOf(parameters));
        Resource resource = resource(path);
        Set<String> known = readParameters(path).orElse(null);
        if (resource == null || known == null) {
            return request.notFound();
        }
        request.requireOnly(known);
        return resource.boundsReaders() ? resource.read(request) : reads.read(() -> resource.read(request));
    }

    /**
     * Changes the state of an entry; of jobs also of all that match the parameters. The audit trail records the caller and the reason.
     *
     * @param path the resource, followed by the name or id of the entry; the resource alone: all entries that match
     * @param state the requested state, for example {@code cancelled}
     * @param parameters those of {@link #changeParameters}; {@code reason} says why the caller makes the change
     * @return the changed entry
     * @throws MissingReasonException if the change destroys something, and the caller gives no reason
     * @throws InvalidOperationException if a parameter is unknown or invalid, or if the change is not possible
     */
    public OperationResult change(Caller caller, List<String> path, String state, Map<String, String> parameters) {
        var request = new OperationRequest(caller, List.copyOf(path), Map.copyOf(parameters));
        OperationRequest.requirePrintable("state", state);
        Resource resource = resource(path);
        if (resource == null || resource.parameters().change() == null) {
            return request.notFound();
        }
        String name = resource.name();
        Set<String> known = changeParameters(path)
                .orElseThrow(() -> new InvalidOperationException(
                        "The state of all %1$s cannot be changed at once: POST to %1$s/{name or id}".formatted(name)));
        request.requireOnly(known);
        String reason = reason(request, state);
        return trail.as(caller.operator(), reason, () -> resource.change(request, state));
    }

    private static @Nullable String reason(OperationRequest request, String state) {
        String reason = request.text(REASON);
        if (reason != null && reason.length() > LONGEST_REASON) {
            throw new InvalidOperationException("Parameter 'reason' has %d characters; at most %d are possible"
                    .formatted(reason.length(), LONGEST_REASON));
        }
        boolean given = reason != null && !reason.isBlank();
        if (!given && DESTRUCTIVE.contains(state) && !request.flag("preview")) {
            throw new MissingReasonException(state);
        }
        return given ? reason : null;
    }

    /** Returns the names of the parameters of a read of that path; empty if there is nothing to read. */
    public Optional<Set<String>> readParameters(List<String> path) {
        return parameters(path, path.size() > 1 ? ResourceParameters::entry : ResourceParameters::list);
    }

    /** Returns the names of the parameters of a change of that path; empty if there is nothing to change. */
    public Optional<Set<String>> changeParameters(List<String> path) {
        boolean one = path.stream().skip(1).anyMatch(segment -> !segment.isEmpty());
        return parameters(path, one ? ResourceParameters::change : ResourceParameters::changeOfAll)
                .map(names -> ResourceParameters.together(names, REASON));
    }

    private Optional<Set<String>> parameters(
            List<String> path, Function<ResourceParameters, @Nullable Set<String>> ofRequest) {
        Resource resource = resource(path);
        return resource == null ? Optional.empty() : Optional.ofNullable(ofRequest.apply(resource.parameters()));
    }

    private @Nullable Resource resource(List<String> path) {
        return path.isEmpty() ? null : resources.get(path.get(0));
    }
}
