// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.peer;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.ElectionStore;
import dev.forge.cluster.internal.leader.ElectionStore.BeginResult;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A candidate without a node, for tests that decide which candidate leads, and in which term. It leads by a lease of ten
 * minutes, which it does not renew.
 */
public final class LeaderElection {

    private static final Duration LEASE = Duration.ofMinutes(10);
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private final UUID candidate = UUID.randomUUID();
    private final ElectionStore elections;
    private final Map<String, Long> terms = new ConcurrentHashMap<>();

    /** Adds a candidate to the cluster of that database; installs the schema if it is missing. */
    public LeaderElection(TestDatabase database) {
        Schema schema =
                Schema.open(database.dataSource(), SchemaMode.MIGRATE, Schema.currentSchemaOf(database.dataSource()));
        this.elections = new ElectionStore(schema, database.dataSource());
        NodeRows.insert(database.jdbc(), candidate);
    }

    /** Becomes the leader of a role unless another candidate leads it; returns whether this candidate leads. */
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

    /** Returns the term in which this candidate leads the role; empty if it does not lead. */
    public OptionalLong term(String role) {
        Long term = terms.get(role);
        return term == null ? OptionalLong.empty() : OptionalLong.of(term);
    }

    /** Releases the role. The next candidate can lead it in the next term. */
    public void releaseLeadership(String role) {
        if (terms.remove(role) != null) {
            elections.release(role, candidate, false);
        }
    }
}
