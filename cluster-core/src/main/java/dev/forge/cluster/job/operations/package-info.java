/**
 * Jobs as operators and their tools see them: search, bulk operations, explanations, demand, limits and history. An application
 * that enqueues and handles jobs does not need this package.
 */
@NullMarked
package dev.forge.cluster.job.operations;

import org.jspecify.annotations.NullMarked;
