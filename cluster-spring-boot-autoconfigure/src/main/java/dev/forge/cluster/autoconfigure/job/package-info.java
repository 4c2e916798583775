/** Auto-configuration of jobs and workers. */
@NullMarked
package dev.forge.cluster.autoconfigure.job;

import org.jspecify.annotations.NullMarked;
