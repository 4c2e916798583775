// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A tag whose values are created at run time. Meters are never removed, so only the first values become tags; further values share
 * {@link #OTHER}.
 */
final class BoundedTag {

    static final String OTHER = "other";

    private final int most;
    private final Set<String> known = ConcurrentHashMap.newKeySet();

    BoundedTag(int most) {
        this.most = most;
    }

    /** Returns the value itself, or {@link #OTHER}. */
    String of(String value) {
        if (known.contains(value)) {
            return value;
        }
        synchronized (this) {
            return known.size() < most && known.add(value) ? value : known.contains(value) ? value : OTHER;
        }
    }
}
