// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import java.util.StringJoiner;

/** Writes limits as the audit trail shows them. */
public final class LimitText {

    private LimitText() {}

    /** Returns the limits that are set, such as {@code concurrency 3, group concurrency 2}. */
    public static String of(JobLimits limits) {
        var text = new StringJoiner(", ");
        text.setEmptyValue("no limits");
        if (limits.concurrency() != null) {
            text.add("concurrency " + limits.concurrency());
        }
        if (limits.groupConcurrency() != null) {
            text.add("group concurrency " + limits.groupConcurrency());
        }
        RateLimit rate = limits.groupRate();
        if (rate != null) {
            text.add("group rate %d per %s".formatted(rate.requests(), PlainText.duration(rate.per())));
            if (rate.burst() > 1) {
                text.add("burst " + rate.burst());
            }
        }
        return text.toString();
    }
}
