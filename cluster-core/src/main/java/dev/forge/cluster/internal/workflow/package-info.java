/** Workflows: recording and replaying steps, waiting, compensation, children and signals. */
@NullMarked
package dev.forge.cluster.internal.workflow;

import org.jspecify.annotations.NullMarked;
