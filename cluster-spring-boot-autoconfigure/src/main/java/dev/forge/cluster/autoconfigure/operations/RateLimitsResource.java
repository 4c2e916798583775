// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.autoconfigure.operations.RateLimitsDescriptor.RateLimitDescriptor;
import dev.forge.cluster.internal.ratelimit.RateLimitReports;
import java.util.List;

/**
 * The resource {@code rate-limits}: lists shared buckets. The key of a bucket may carry data of the application, such as a customer
 * number, and is sanitized like any other value.
 */
final class RateLimitsResource implements Resource {

    private static final int DEFAULT_LIMIT = 50;
    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList("after", "limit");

    private final RateLimitReports reports;
    private final ValueSanitizer values;

    RateLimitsResource(RateLimitReports reports, ValueSanitizer values) {
        this.reports = reports;
        this.values = values;
    }

    @Override
    public String name() {
        return "rate-limits";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    @Override
    public OperationResult read(OperationRequest request) {
        ValueSanitizer.Sanitized shown = values.shownTo(request.caller());
        String after = request.text("after");
        if (after != null && !shown.isShown()) {
            // Whether a bucket follows a given key would disclose keys.
            throw new HiddenValuesException(List.of("after"));
        }
        return request.result(new RateLimitsDescriptor(reports.list(after, request.limit(DEFAULT_LIMIT)).stream()
                .map(bucket -> new RateLimitDescriptor(
                        shown.value("rateLimit", bucket.key()),
                        bucket.capacity(),
                        bucket.perSecond(),
                        bucket.available(),
                        bucket.updatedAt()))
                .toList()));
    }
}
