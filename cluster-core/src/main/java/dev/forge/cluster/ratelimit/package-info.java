/** Rate limits that the whole cluster shares. */
@NullMarked
package dev.forge.cluster.ratelimit;

import org.jspecify.annotations.NullMarked;
