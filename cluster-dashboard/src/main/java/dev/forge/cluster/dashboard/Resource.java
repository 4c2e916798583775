// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.Arrays;
import java.util.Collections;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** The resources of the API with the parameters that each of them has. */
@SuppressWarnings("ImmutableEnumChecker") // the sets are unmodifiable
enum Resource {
    OVERVIEW("overview", Set.of(), Set.of()),
    NODES("nodes", Set.of(), Change.PLAIN),
    DEMAND("demand", Set.of(), Set.of()),
    LOCKS("locks", Set.of("limit"), Set.of()),
    JOBS(
            "jobs",
            with(Change.FILTER, "id", "after", "limit"),
            with(with(Change.PLAIN, Change.FILTER), "everyJob", "preview", "at", "limit", "after")),
    JOB_LOGS("jobs/logs", Set.of("id"), Set.of()),
    LIMITS(
            "limits",
            Set.of("id", "after", "limit"),
            with(Change.PLAIN, "concurrency", "groupConcurrency", "groupRate", "groupBurst", "weight", "group")),
    BATCHES("batches", Set.of("id", "limit"), Change.PLAIN),
    CRONS("crons", Set.of("id", "after", "limit"), Change.PLAIN),
    DAEMONS("daemons", Set.of("id"), Change.PLAIN),
    WORKFLOWS("workflows", Set.of("id", "name", "status", "limit"), Change.PLAIN);

    private final String path;
    private final Set<String> readParameters;
    private final Set<String> changeParameters;

    Resource(String path, Set<String> readParameters, Set<String> changeParameters) {
        this.path = path;
        this.readParameters = Collections.unmodifiableSet(new TreeSet<>(readParameters));
        this.changeParameters = Collections.unmodifiableSet(new TreeSet<>(changeParameters));
    }

    /** Returns the resource at a path behind {@code api/v1/}. */
    static Optional<Resource> at(String path) {
        return Arrays.stream(values())
                .filter(resource -> resource.path.equals(path))
                .findFirst();
    }

    String path() {
        return path;
    }

    Set<String> readParameters() {
        return readParameters;
    }

    /** Returns the members of the body of a change; empty if nothing can be changed. */
    Set<String> changeParameters() {
        return changeParameters;
    }

    private static Set<String> with(Set<String> names, String... more) {
        return with(names, Set.of(more));
    }

    private static Set<String> with(Set<String> names, Set<String> more) {
        var all = new TreeSet<>(names);
        all.addAll(more);
        return all;
    }

    /** Parameters that several resources share. */
    private static final class Change {
        static final Set<String> PLAIN = Set.of("id", "state", "reason");
        static final Set<String> FILTER = Set.of(
                "name",
                "status",
                "tag",
                "group",
                "key",
                "metadata",
                "error",
                "createdFrom",
                "createdBefore",
                "finishedFrom",
                "finishedBefore");
    }
}
