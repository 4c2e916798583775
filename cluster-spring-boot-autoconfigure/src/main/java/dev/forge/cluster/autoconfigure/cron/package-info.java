/** Auto-configuration of crons. */
@NullMarked
package dev.forge.cluster.autoconfigure.cron;

import org.jspecify.annotations.NullMarked;
