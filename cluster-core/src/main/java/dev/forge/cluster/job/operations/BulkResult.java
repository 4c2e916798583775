// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import org.jspecify.annotations.Nullable;

/**
 * What a bulk operation such as {@link JobOperations#cancelAll(JobFilter, BulkOptions)} has done.
 *
 * @param examined how many jobs the search looked at
 * @param matched how many of them match the filter in a status in which the operation is possible
 * @param changed how many of these were changed; zero in a preview
 * @param rejected how many of the matched jobs the database refused to change, because a foreign key of the application references
 *     them for example; the log names the first of each batch
 * @param next where the next call continues, see {@link BulkOptions#withCursor}; null: there are no further jobs
 */
public record BulkResult(
        long examined,
        long matched,
        long changed,
        long rejected,
        @Nullable String next) {

    /**
     * Returns how many jobs matched and were not changed: another transaction had locked or changed them meanwhile, another job has
     * their unique key, or the database rejected the change. In a preview these are all of them.
     */
    public long skipped() {
        return matched - changed;
    }
}
