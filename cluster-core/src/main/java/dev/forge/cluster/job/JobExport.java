// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Exported jobs, as {@link JobOperations#export} returns them.
 *
 * @param lines a JSON object for each job, on one line
 * @param next the cursor with which the next call continues; null: there are no further jobs
 */
public record JobExport(List<String> lines, @Nullable String next) {

    /** Copies the list. */
    public JobExport {
        lines = List.copyOf(lines);
    }
}
