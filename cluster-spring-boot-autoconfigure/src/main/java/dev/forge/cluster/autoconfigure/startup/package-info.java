/** Auto-configuration of startup actions. */
@NullMarked
package dev.forge.cluster.autoconfigure.startup;

import org.jspecify.annotations.NullMarked;
