/** Auto-configuration of leadership. */
@NullMarked
package dev.forge.cluster.autoconfigure.leader;

import org.jspecify.annotations.NullMarked;
