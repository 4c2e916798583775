// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.internal.runtime.ReservedPrefix;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The node that stands for election, as this package needs it. */
public interface Candidate {

    /** Returns the id of the present membership; null while the node is not a member. */
    @Nullable
    UUID id();

    /** Returns whether the node's mode and roles allow it to lead. */
    boolean mayLead();

    /** Returns how long a lease lasts. */
    Duration lease();

    /** Returns the elector of the node. */
    Elector elector();

    /** Returns the fences that the node could not take in time. */
    BlockedFences fences();

    /** Runs an election at once. */
    void electSoon();

    /** Returns the reserved prefix that the name of a role begins with, if there is one. */
    Optional<ReservedPrefix> reservedPrefix(String role);
}
