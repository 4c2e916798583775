/** Deletion of old rows: in batches of a suitable size, with rows set aside that the server refuses to delete. */
@NullMarked
package dev.forge.cluster.internal.purge;

import org.jspecify.annotations.NullMarked;
