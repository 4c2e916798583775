/** Auto-configuration of rate limits. */
@NullMarked
package dev.forge.cluster.autoconfigure.ratelimit;

import org.jspecify.annotations.NullMarked;
