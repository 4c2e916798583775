// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.job.JobFilter;
import dev.forge.cluster.job.JobStatus;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.Objects;
import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The parameters that select jobs.
 *
 * @param status one status, or several with commas
 * @param tag one tag, or several with commas
 * @param metadata an entry, {@code key=value}
 * @param error a part of the error
 */
record JobQuery(
        @Nullable String name,
        @Nullable String status,
        @Nullable String tag,
        @Nullable String group,
        @Nullable String key,
        @Nullable String metadata,
        @Nullable String error,
        @Nullable String createdFrom,
        @Nullable String createdBefore,
        @Nullable String finishedFrom,
        @Nullable String finishedBefore) {

    /** Returns the words of a list. An empty one is no condition, and a condition was meant. */
    private static Stream<String> words(String parameter, String list) {
        return Stream.of(list.split(",", -1)).map(String::strip).peek(word -> {
            if (word.isEmpty()) {
                throw EndpointRequests.invalid("%s '%s' contains an empty word".formatted(parameter, list));
            }
        });
    }

    /** @throws InvalidEndpointRequestException if a parameter is invalid */
    JobFilter filter() {
        JobFilter filter = JobFilter.all();
        if (name != null) {
            filter = filter.withName(name);
        }
        if (status != null) {
            filter = filter.withStatuses(words("status", status)
                    .map(word -> EndpointRequests.status(JobStatus.class, word))
                    .toArray(JobStatus[]::new));
        }
        if (tag != null) {
            filter = filter.withTags(words("tag", tag).toArray(String[]::new));
        }
        if (group != null) {
            filter = filter.withGroup(group);
        }
        if (key != null) {
            filter = filter.withUniqueKey(key);
        }
        if (metadata != null) {
            int end = metadata.indexOf('=');
            if (end < 1) {
                throw EndpointRequests.invalid("metadata '%s' must have the form key=value".formatted(metadata));
            }
            filter = filter.withMetadata(metadata.substring(0, end), metadata.substring(end + 1));
        }
        if (error != null) {
            filter = filter.withError(error);
        }
        filter = with(filter, "createdFrom", createdFrom, filter::withCreatedFrom);
        filter = with(filter, "createdBefore", createdBefore, filter::withCreatedBefore);
        filter = with(filter, "finishedFrom", finishedFrom, filter::withFinishedFrom);
        return with(filter, "finishedBefore", finishedBefore, filter::withFinishedBefore);
    }

    /** Parses a time; null if the parameter is absent. */
    static @Nullable Instant time(String parameter, @Nullable String text) {
        if (text == null) {
            return null;
        }
        try {
            return Instant.parse(text);
        } catch (DateTimeException e) {
            throw EndpointRequests.invalid(
                    "%s '%s' must be a time such as 2030-01-31T08:00:00Z".formatted(parameter, text));
        }
    }

    private static JobFilter with(
            JobFilter filter, String parameter, @Nullable String text, Function<Instant, JobFilter> change) {
        Instant time = time(parameter, text);
        return time == null ? filter : change.apply(time);
    }

    /** Returns whether there is no condition. */
    boolean isEmpty() {
        return Stream.of(
                        name,
                        status,
                        tag,
                        group,
                        key,
                        metadata,
                        error,
                        createdFrom,
                        createdBefore,
                        finishedFrom,
                        finishedBefore)
                .allMatch(Objects::isNull);
    }

    /** Returns whether a parameter is compared with values that the endpoint may hide. */
    boolean selectsByValue() {
        return group != null || key != null || metadata != null || error != null;
    }

    /** Rejects control characters. */
    void requirePrintable() {
        EndpointRequests.requirePrintable("name", name);
        EndpointRequests.requirePrintable("status", status);
        EndpointRequests.requirePrintable("tag", tag);
        EndpointRequests.requirePrintable("group", group);
        EndpointRequests.requirePrintable("key", key);
        EndpointRequests.requirePrintable("metadata", metadata);
        EndpointRequests.requirePrintable("error", error);
    }
}
