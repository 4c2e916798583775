/** Small shared state with a time to live, such as one-time tokens. */
@NullMarked
package dev.forge.cluster.state;

import org.jspecify.annotations.NullMarked;
