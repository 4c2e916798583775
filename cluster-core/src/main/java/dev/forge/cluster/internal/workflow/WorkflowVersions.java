package dev.forge.cluster.internal.workflow;

import java.math.BigInteger;
import java.util.Comparator;

/** The order of versions: part by part between their dots, as numbers where both are numbers, otherwise as text. */
final class WorkflowVersions {

    static final Comparator<String> ORDER = WorkflowVersions::compare;

    private WorkflowVersions() {}

    private static int compare(String one, String other) {
        String[] ours = one.split("\\.", -1);
        String[] theirs = other.split("\\.", -1);
        for (int i = 0; i < Math.min(ours.length, theirs.length); i++) {
            int difference = comparePart(ours[i], theirs[i]);
            if (difference != 0) {
                return difference;
            }
        }
        int longer = Integer.compare(ours.length, theirs.length);
        // 1.0 and 1.00 are different versions, and one of them must be the newer.
        return longer != 0 ? longer : one.compareTo(other);
    }

    private static int comparePart(String one, String other) {
        boolean number = isNumber(one);
        if (number != isNumber(other)) {
            // 2 is newer than beta.
            return number ? 1 : -1;
        }
        return number ? new BigInteger(one).compareTo(new BigInteger(other)) : one.compareTo(other);
    }

    private static boolean isNumber(String part) {
        return !part.isEmpty() && part.chars().allMatch(c -> c >= '0' && c <= '9');
    }
}
