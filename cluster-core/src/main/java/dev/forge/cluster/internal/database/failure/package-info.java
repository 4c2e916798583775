/**
 * What a failure of the database means: whether it passes, and whether a row or the node is to blame.
 * The only place that reads SQLSTATEs.
 */
@NullMarked
package dev.forge.cluster.internal.database.failure;

import org.jspecify.annotations.NullMarked;
