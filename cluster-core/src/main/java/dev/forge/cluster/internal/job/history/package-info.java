/**
 * The history of jobs: each node counts the attempts that it ends, in memory, and adds the numbers to {@code forge_job_history} every
 * ten seconds. The leader of the role metrics_aggregator adds samples of the backlog and keeps the table small.
 */
@NullMarked
package dev.forge.cluster.internal.job.history;

import org.jspecify.annotations.NullMarked;
