/** Auto-configuration of the audit trail. */
@NullMarked
package dev.forge.cluster.autoconfigure.audit;

import org.jspecify.annotations.NullMarked;
