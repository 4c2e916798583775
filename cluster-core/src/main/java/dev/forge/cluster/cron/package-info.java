/** Cluster-wide crons: the annotation, programmatic definitions, and the ledger of their runs. */
@NullMarked
package dev.forge.cluster.cron;

import org.jspecify.annotations.NullMarked;
