// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import java.time.Instant;
import java.util.UUID;

/**
 * A place in a queue, whose jobs are in the order of their times and ids. Without the ids, a search among many jobs of the same
 * time would read the dead index entries of all those that have ended.
 */
public record Mark(Instant scheduledAt, UUID id) implements Comparable<Mark> {

    public static final UUID FIRST_ID = new UUID(0, 0);

    /** The mark of a queue whose oldest jobs are unknown: no row is older. */
    public static final Mark UNMARKED = new Mark(Instant.EPOCH, FIRST_ID);

    @Override
    public int compareTo(Mark other) {
        int times = scheduledAt.compareTo(other.scheduledAt);
        // The server compares ids without a sign.
        int high = Long.compareUnsigned(id.getMostSignificantBits(), other.id.getMostSignificantBits());
        int low = Long.compareUnsigned(id.getLeastSignificantBits(), other.id.getLeastSignificantBits());
        return times != 0 ? times : high != 0 ? high : low;
    }
}
