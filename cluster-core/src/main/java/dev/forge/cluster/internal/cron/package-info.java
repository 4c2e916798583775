/** Crons: declarations of live builds, firing of due slots, the ledger, and changes at run time. */
@NullMarked
package dev.forge.cluster.internal.cron;

import org.jspecify.annotations.NullMarked;
