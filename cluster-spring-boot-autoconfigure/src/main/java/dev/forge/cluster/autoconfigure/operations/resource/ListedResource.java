// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.autoconfigure.attention.AttentionReports;
import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.ratelimit.RateLimitReports;
import dev.forge.cluster.job.operations.JobHistoryQuery;
import dev.forge.cluster.job.operations.JobOperations;
import java.time.Duration;
import java.util.List;
import java.util.function.BiFunction;

/** Resources that are only listed. */
final class ListedResource extends Resource {

    private static final int DEFAULT_LIMIT = 50;
    private static final Duration DEFAULT_RANGE = Duration.ofHours(6);

    private final ValueSanitizer values;
    private final BiFunction<OperationRequest, Sanitized, JsonObject> list;

    private ListedResource(
            String name,
            ResourceParameters parameters,
            ValueSanitizer values,
            BiFunction<OperationRequest, Sanitized, JsonObject> list) {
        super(name, parameters);
        this.values = values;
        this.list = list;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        return request.result(list.apply(request, values.shownTo(request.caller())));
    }

    /** The resource {@code attention}: what needs the attention of an operator. */
    static Resource attention(AttentionReports reports, ValueSanitizer values) {
        return new ListedResource(
                "attention", ResourceParameters.ofList(), values, (request, shown) -> shown.object(reports.read()));
    }

    /** The resource {@code history}: what jobs did in the last hours or days. */
    static Resource history(JobOperations operations, ValueSanitizer values) {
        return new ListedResource("history", ResourceParameters.ofList("range", "name"), values, (request, shown) -> {
            try {
                return shown.object(operations.history(JobHistoryQuery.last(request.duration("range", DEFAULT_RANGE))
                        .withName(request.text("name"))));
            } catch (IllegalArgumentException e) {
                throw InvalidOperationException.because(e);
            }
        });
    }

    /** The resource {@code locks}: the locks that are held, the one acquired last at the beginning. */
    static Resource locks(LockStore locks, ValueSanitizer values) {
        return new ListedResource(
                "locks",
                ResourceParameters.ofList("limit"),
                values,
                (request, shown) ->
                        new JsonObject().with("locks", shown.objects(locks.held(request.limit(DEFAULT_LIMIT)))));
    }

    /** The resource {@code rate-limits}: shared buckets by key. Buckets that are full for some minutes are not listed. */
    static Resource rateLimits(RateLimitReports reports, ValueSanitizer values) {
        return new ListedResource(
                "rate-limits", ResourceParameters.ofList("after", "limit"), values, (request, shown) -> {
                    String after = request.text("after");
                    if (after != null && !shown.isShown()) {
                        // Whether a bucket follows a given key would disclose keys.
                        throw new HiddenValuesException(List.of("after"));
                    }
                    return new JsonObject()
                            .with("rateLimits", shown.objects(reports.list(after, request.limit(DEFAULT_LIMIT))));
                });
    }
}
