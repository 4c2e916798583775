/** Crons: declaration, the decision about each due slot, and the ledger. */
@NullMarked
package dev.forge.cluster.internal.cron;

import org.jspecify.annotations.NullMarked;
