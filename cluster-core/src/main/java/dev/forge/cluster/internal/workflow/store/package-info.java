/**
 * The statements on runs, steps and signals of workflows.
 */
@NullMarked
package dev.forge.cluster.internal.workflow.store;

import org.jspecify.annotations.NullMarked;
