// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.ElectionStore;
import dev.forge.cluster.internal.leader.ElectionStore.BeginResult;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * One candidate in an election, without a node around it: for tests that want to say who leads, and in which term. It
 * leads by a lease that it does not renew.
 */
public final class LeaderElection {

    private static final Duration LEASE = Duration.ofMinutes(10);
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private final UUID candidate = UUID.randomUUID();
    private final ElectionStore elections;
    private final Map<String, Long> terms = new ConcurrentHashMap<>();

    /** Another candidate of the cluster in that database; its schema is installed if need be. */
    public LeaderElection(TestDatabase database) {
        Schema schema =
                Schema.open(database.dataSource(), SchemaMode.MIGRATE, Schema.currentSchemaOf(database.dataSource()));
        this.elections = new ElectionStore(schema, database.dataSource());
        Members.join(database.jdbc(), candidate);
    }

    /** Leads the role from now on, unless somebody else does. */
    public boolean tryBecomeLeader(String role) {
        if (!elections.rolesWithoutLease(List.of(role)).contains(role)) {
            return terms.containsKey(role);
        }
        if (elections.begin(role, candidate, LEASE, LeadershipBasis.LEASE, PATIENCE)
                instanceof BeginResult.Begun begun) {
            terms.put(role, begun.term().number());
            return true;
        }
        return false;
    }

    /** The term in which it leads the role. */
    public OptionalLong term(String role) {
        Long term = terms.get(role);
        return term == null ? OptionalLong.empty() : OptionalLong.of(term);
    }

    /** Gives the role up: the next candidate wins it, in the next term. */
    public void releaseLeadership(String role) {
        if (terms.remove(role) != null) {
            elections.release(role, candidate, false);
        }
    }
}
