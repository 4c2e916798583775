// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.operations.JobFilter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.assertj.core.api.Assertions;

/** The jobs that assertions are about: read page by page, and each with its payload only if an assertion needs it. */
final class StoredJobs {

    private static final int PAGE = 1_000;
    private static final int MOST = 10_000;

    private final InspectableJobs jobs;
    private final Map<UUID, Optional<JobInfo>> whole = new HashMap<>();

    StoredJobs(InspectableJobs jobs) {
        this.jobs = jobs;
    }

    /**
     * Returns all jobs of these names, oldest first, without payloads.
     *
     * @throws AssertionError if there are too many to be read: an assertion about a part of them would prove nothing
     */
    List<JobInfo> named(Set<String> names) {
        List<JobInfo> found = new ArrayList<>();
        for (String name : names) {
            List<JobInfo> ofName = read(JobFilter.all().withName(name));
            if (ofName.size() > MOST) {
                Assertions.fail(
                        "More than %d jobs '%s' exist; an assertion cannot read them all. Use fewer, or count rows of forge_jobs."
                                .formatted(MOST, name));
            }
            found.addAll(ofName);
        }
        found.sort(Comparator.comparing(JobInfo::createdAt).thenComparing(JobInfo::id));
        return found;
    }

    /** Returns the newest jobs of any name, newest first, without payloads. */
    List<JobInfo> newest() {
        return read(JobFilter.all());
    }

    private List<JobInfo> read(JobFilter filter) {
        List<JobInfo> found = new ArrayList<>();
        String cursor = null;
        do {
            Page<JobInfo> page = jobs.search(filter, PAGE, cursor);
            found.addAll(page.items());
            cursor = page.next();
        } while (cursor != null && found.size() <= MOST);
        return found;
    }

    /** Returns a job with its payload; empty if it has been deleted meanwhile. */
    Optional<JobInfo> whole(JobInfo job) {
        return whole.computeIfAbsent(job.id(), jobs::find);
    }

    /** Reads the payload of a job that has one. */
    <T> T payload(JobInfo whole, Class<T> type) {
        return jobs.read(whole.payload(), type);
    }
}
