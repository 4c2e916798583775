/** Locks with leases and fencing tokens. */
@NullMarked
package dev.forge.cluster.internal.lock;

import org.jspecify.annotations.NullMarked;
