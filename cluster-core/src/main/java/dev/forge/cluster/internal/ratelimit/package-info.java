/** Token buckets, local and shared. */
@NullMarked
package dev.forge.cluster.internal.ratelimit;

import org.jspecify.annotations.NullMarked;
