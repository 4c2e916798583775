/** The audit trail: who changed what in the cluster. */
@NullMarked
package dev.forge.cluster.audit;

import org.jspecify.annotations.NullMarked;
