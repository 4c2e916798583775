// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import dev.forge.cluster.job.JobContext;
import java.time.Instant;

/**
 * A line that a handler logged for its job, {@link JobContext#log(String)}.
 *
 * @param attempt the attempt in which it was logged, from 1
 * @param epoch the claim under which that attempt ran
 * @param time when it was logged, by the database's clock
 * @param message the text
 */
public record JobLogLine(int attempt, long epoch, Instant time, String message) {}
