// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Limits of jobs, ordered by name, as the resource {@code limits} returns them.
 *
 * @param limits the names that have limits
 */
public record LimitsDescriptor(List<LimitDescriptor> limits) {

    /**
     * The limits of the jobs of a name.
     *
     * @param name the name of the handler
     * @param held the number of its jobs that nodes have claimed or run
     * @param concurrency the number of its jobs that may run at the same time; absent: any number
     * @param groupConcurrency the number of jobs of one group that may run at the same time; absent: any number
     * @param groupRate how often jobs of one group start, for example 10/s; absent: at any rate
     * @param groupBurst how many jobs of one group start at once after a quiet time; absent without a rate
     * @param ordered whether the jobs of a group run in the order in which they were enqueued
     * @param overridden whether the limits were set at run time
     * @param declared the limits that the handler declares, if others were set at run time; otherwise absent
     * @param problem why the stored limits are invalid; absent if they are valid
     * @param groups groups that have jobs on nodes, the fullest first, then groups with a weight; absent in lists
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record LimitDescriptor(
            String name,
            long held,
            @Nullable Integer concurrency,
            @Nullable Integer groupConcurrency,
            @Nullable String groupRate,
            @Nullable Long groupBurst,
            boolean ordered,
            boolean overridden,
            @Nullable DeclaredLimitsDescriptor declared,
            @Nullable String problem,
            @Nullable List<GroupDescriptor> groups) {}

    /**
     * The limits that a handler declares.
     *
     * @param concurrency the number of its jobs that may run at the same time; absent: any number
     * @param groupConcurrency the number of jobs of one group that may run at the same time; absent: any number
     * @param groupRate how often jobs of one group start; absent: at any rate
     * @param groupBurst how many jobs of one group start at once after a quiet time; absent without a rate
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record DeclaredLimitsDescriptor(
            @Nullable Integer concurrency,
            @Nullable Integer groupConcurrency,
            @Nullable String groupRate,
            @Nullable Long groupBurst) {}

    /**
     * A group of jobs.
     *
     * @param group its name, sanitized
     * @param held the number of its jobs that nodes have claimed or run
     * @param weight the number of jobs that it starts whenever its turn comes
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record GroupDescriptor(@Nullable Object group, long held, int weight) {}
}
