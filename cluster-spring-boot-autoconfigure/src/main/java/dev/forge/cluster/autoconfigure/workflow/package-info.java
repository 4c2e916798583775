/** Auto-configuration of workflows. */
@NullMarked
package dev.forge.cluster.autoconfigure.workflow;

import org.jspecify.annotations.NullMarked;
