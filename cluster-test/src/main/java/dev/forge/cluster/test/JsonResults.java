// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.job.operate.InspectableJobs;
import java.math.BigDecimal;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** Compares stored results as JSON: numbers by value, objects without the order of their members. */
final class JsonResults {

    private JsonResults() {}

    static boolean equal(InspectableJobs codec, @Nullable String one, @Nullable String other) {
        return equal(tree(codec, one), tree(codec, other));
    }

    private static @Nullable Object tree(InspectableJobs codec, @Nullable String json) {
        return json == null || json.equals("null") ? null : codec.read(json, Object.class);
    }

    private static boolean equal(@Nullable Object one, @Nullable Object other) {
        if (one instanceof Number a && other instanceof Number b) {
            return new BigDecimal(a.toString()).compareTo(new BigDecimal(b.toString())) == 0;
        }
        if (one instanceof List<?> a && other instanceof List<?> b) {
            return a.size() == b.size() && IntStream.range(0, a.size()).allMatch(i -> equal(a.get(i), b.get(i)));
        }
        if (one instanceof Map<?, ?> a && other instanceof Map<?, ?> b) {
            return a.keySet().equals(b.keySet()) && a.keySet().stream().allMatch(key -> equal(a.get(key), b.get(key)));
        }
        return Objects.equals(one, other);
    }
}
