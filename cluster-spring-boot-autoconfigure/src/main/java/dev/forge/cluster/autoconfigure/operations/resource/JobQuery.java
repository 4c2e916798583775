// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Stream;

/** The parameters of a request that select jobs. */
record JobQuery(OperationRequest request) {

    /** Parameters that are compared with values which may be hidden. */
    private static final Set<String> VALUES = Set.of("group", "key", "metadata", "error");

    /** Status, tag and ids take several words with commas, metadata has the form {@code key=value}, error is a part of the error. */
    static final Set<String> PARAMETERS = ResourceParameters.together(
            VALUES,
            "name",
            "status",
            "tag",
            "batch",
            "ids",
            "createdFrom",
            "createdBefore",
            "finishedFrom",
            "finishedBefore");

    /** @throws InvalidOperationException if a parameter is invalid, or selects by values that are hidden from the caller */
    JobFilter filter() {
        if (!request.caller().seesValues() && VALUES.stream().anyMatch(request.parameters()::containsKey)) {
            throw new HiddenValuesException(VALUES);
        }
        JobFilter filter = JobFilter.all();
        filter = with(filter, "name", filter::withName);
        filter = with(filter, "status", filter::withStatuses, JobQuery::statuses);
        filter =
                with(filter, "tag", filter::withTags, list -> words("tag", list).toArray(String[]::new));
        filter = with(filter, "group", filter::withGroup);
        filter = with(filter, "batch", filter::withBatch, id -> OperationRequest.id("batch", id));
        filter = with(filter, "ids", filter::withIds, JobQuery::ids);
        filter = with(filter, "key", filter::withUniqueKey);
        filter = withMetadata(filter);
        filter = with(filter, "error", filter::withError);
        filter = withTime(filter, "createdFrom", filter::withCreatedFrom);
        filter = withTime(filter, "createdBefore", filter::withCreatedBefore);
        filter = withTime(filter, "finishedFrom", filter::withFinishedFrom);
        return withTime(filter, "finishedBefore", filter::withFinishedBefore);
    }

    private JobFilter with(JobFilter filter, String parameter, Function<String, JobFilter> change) {
        return with(filter, parameter, change, Function.identity());
    }

    private <T> JobFilter with(
            JobFilter filter, String parameter, Function<T, JobFilter> change, Function<String, T> conversion) {
        String text = request.text(parameter);
        return text == null ? filter : change.apply(conversion.apply(text));
    }

    private JobFilter withTime(JobFilter filter, String parameter, Function<Instant, JobFilter> change) {
        Instant time = request.time(parameter);
        return time == null ? filter : change.apply(time);
    }

    private JobFilter withMetadata(JobFilter filter) {
        String metadata = request.text("metadata");
        if (metadata == null) {
            return filter;
        }
        int end = metadata.indexOf('=');
        if (end < 1) {
            throw new InvalidOperationException(
                    "Parameter 'metadata' ('%s') must have the form key=value".formatted(metadata));
        }
        return filter.withMetadata(metadata.substring(0, end), metadata.substring(end + 1));
    }

    private static List<UUID> ids(String list) {
        return words("ids", list).map(word -> OperationRequest.id("job", word)).toList();
    }

    private static JobStatus[] statuses(String list) {
        return words("status", list)
                .map(word -> OperationRequest.status(JobStatus.class, word))
                .toArray(JobStatus[]::new);
    }

    /** Returns the words of a list. An empty one is no condition, and a condition was meant. */
    private static Stream<String> words(String parameter, String list) {
        return Stream.of(list.split(",", -1)).map(String::strip).peek(word -> {
            if (word.isEmpty()) {
                throw new InvalidOperationException(
                        "Parameter '%s' ('%s') contains an empty word".formatted(parameter, list));
            }
        });
    }
}
