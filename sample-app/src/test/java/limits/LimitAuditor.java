// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package limits;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Checks from the journal of a run that no limit was exceeded and that ordered jobs ran in their order.
 *
 * <p>The check is exact and needs no clock. Each claim is recorded in its own transaction, with that transaction's id and a snapshot
 * that was taken after the claim and before the commit; each end of a claim is recorded with the id of the transaction that ended it.
 * A claim that obeys its limit holds the lock of its group from before it counts until its commit, so no other claim of the group
 * can commit in that time, and the snapshot cannot show more jobs than were counted. If, on the other hand, committed rows ever
 * exceed a limit, the claim among them that was committed last had all the others either in its snapshot, or it was concurrent with
 * them: neither saw the other. Both kinds are counted.
 */
final class LimitAuditor {

    private LimitAuditor() {}

    /** The transactions whose effects are visible: PostgreSQL's {@code pg_snapshot}. */
    record Snapshot(long first, long next, Set<Long> running) {

        /** Parses {@code xmin:xmax:xip,xip}. */
        static Snapshot parse(String text) {
            String[] parts = text.split(":", -1);
            return new Snapshot(
                    Long.parseLong(parts[0]),
                    Long.parseLong(parts[1]),
                    parts[2].isEmpty()
                            ? Set.of()
                            : Arrays.stream(parts[2].split(","))
                                    .map(Long::valueOf)
                                    .collect(Collectors.toSet()));
        }

        boolean sees(long transaction) {
            return transaction < first || (transaction < next && !running.contains(transaction));
        }
    }

    /**
     * A claim of a job, from its beginning to its end.
     *
     * @param claimedBy the transaction that claimed the job
     * @param seen what was visible after the claim, before its commit
     * @param releasedBy the transaction that ended the claim; null: it has not ended
     */
    record Hold(
            UUID job,
            long epoch,
            long claimedBy,
            Snapshot seen,
            @Nullable Long releasedBy) {

        /** Returns whether the claim was made after the other one was committed. */
        private boolean isAfter(Hold other) {
            return claimedBy != other.claimedBy && seen.sees(other.claimedBy);
        }

        private boolean hadEndedFor(Hold other) {
            return releasedBy != null && other.seen.sees(releasedBy);
        }
    }

    /** A claim and all claims that held places at that moment, itself included. */
    record Excess(Hold claim, List<Hold> holds) {

        private void addIfHeld(Hold other) {
            if (!other.isAfter(claim) && !other.hadEndedFor(claim)) {
                holds.add(other);
            }
        }
    }

    /** Returns the claims that exceeded a limit. All holds are those of one group, or of one name. */
    static List<Excess> excesses(List<Hold> holds, int limit) {
        List<Excess> all = holds.stream()
                .sorted(Comparator.comparingLong(Hold::claimedBy))
                .map(claim -> new Excess(claim, new ArrayList<>(List.of(claim))))
                .toList();
        long[] oldest = oldestRunning(all);
        List<Excess> earlier = new ArrayList<>();
        for (int i = 0; i < all.size(); i++) {
            long first = oldest[i];
            // All claims from here on see the ends of these, and come after them.
            earlier.removeIf(other -> other.claim.releasedBy != null && other.claim.releasedBy < first);
            Excess claim = all.get(i);
            for (Excess other : earlier) {
                claim.addIfHeld(other.claim);
                other.addIfHeld(claim.claim);
            }
            earlier.add(claim);
        }
        return all.stream().filter(claim -> claim.holds.size() > limit).toList();
    }

    /** Returns for each claim the oldest transaction that was running when it or a later one was made. */
    private static long[] oldestRunning(List<Excess> claims) {
        long[] oldest = new long[claims.size()];
        long least = Long.MAX_VALUE;
        for (int i = claims.size() - 1; i >= 0; i--) {
            least = Math.min(least, claims.get(i).claim.seen.first);
            oldest[i] = least;
        }
        return oldest;
    }

    /**
     * Returns the claims of jobs whose predecessors had not ended.
     *
     * @param order the jobs of one group in the order in which they were enqueued
     * @param ended the transactions that ended the jobs
     */
    static List<Hold> outOfOrder(List<UUID> order, List<Hold> holds, Map<UUID, Long> ended) {
        return holds.stream()
                .filter(claim -> order.subList(0, order.indexOf(claim.job)).stream()
                        .map(ended::get)
                        .anyMatch(end -> end == null || !claim.seen.sees(end)))
                .toList();
    }
}
