/**
 * Properties of the work that nodes do: jobs, crons, daemons and workflows.
 * {@link dev.forge.cluster.autoconfigure.properties.ClusterProperties} contains all of them.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.properties.work;

import org.jspecify.annotations.NullMarked;
