/**
 * The statements on runs, steps and signals of workflows, and the requests that share a statement.
 */
@NullMarked
package dev.forge.cluster.internal.workflow.store;

import org.jspecify.annotations.NullMarked;
