// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import java.math.BigInteger;
import java.util.Comparator;
import java.util.Optional;

/** A version of a workflow. Jobs whose name is {@link #jobName} carry its runs. */
public record WorkflowVersion(String workflow, String version) {

    /** The first characters of the names of jobs that carry runs. */
    public static final String JOB_PREFIX = "workflow:";

    /**
     * Orders the versions of one workflow, oldest first. Versions are compared part by part between their dots: as numbers
     * where both parts are numbers, otherwise as text.
     */
    public static final Comparator<WorkflowVersion> OLDEST_FIRST =
            Comparator.comparing(WorkflowVersion::version, WorkflowVersion::compare);

    /** Returns whether a job of that name carries runs. */
    public static boolean isJobOfWorkflow(String job) {
        return job.startsWith(JOB_PREFIX);
    }

    /** Returns the version whose runs a job of that name carries; empty if it carries none. */
    public static Optional<WorkflowVersion> ofJob(String job) {
        int at = job.lastIndexOf('@');
        return isJobOfWorkflow(job) && at > 0
                ? Optional.of(new WorkflowVersion(job.substring(JOB_PREFIX.length(), at), job.substring(at + 1)))
                : Optional.empty();
    }

    /** Returns the name of the job that carries the runs of this version. */
    public String jobName() {
        return JOB_PREFIX + label();
    }

    /** Returns the version as messages print it: {@code checkout@1}. */
    public String label() {
        return workflow + "@" + version;
    }

    private static int compare(String one, String other) {
        String[] parts = one.split("\\.", -1);
        String[] otherParts = other.split("\\.", -1);
        for (int i = 0; i < Math.min(parts.length, otherParts.length); i++) {
            int difference = comparePart(parts[i], otherParts[i]);
            if (difference != 0) {
                return difference;
            }
        }
        int longer = Integer.compare(parts.length, otherParts.length);
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
