// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

import java.util.Optional;

/**
 * Tells who operates the cluster on the current thread. Define a bean of this type to replace the default, which returns the
 * authenticated user of Spring Security if there is one.
 *
 * <p>Operations of the API that the trail records ask it, and no others; not inside of {@link AuditTrail#as}. It should return at
 * once. An exception fails the operation before anything is changed.
 */
@FunctionalInterface
public interface OperatorSource {

    /** Returns the operator; empty if there is none: then the operation is not recorded. */
    Optional<Operator> current();
}
