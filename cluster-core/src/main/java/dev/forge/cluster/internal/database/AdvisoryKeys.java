// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import java.util.zip.CRC32;

/**
 * The advisory lock keys of one cluster. All but the documented leader keys have the two-integer form with one class id, so that
 * they never collide with {@code bigint} keys of an application. The schema's oid separates clusters of one database.
 */
public final class AdvisoryKeys {

    /** "FORG". */
    public static final int CLASS_ID = 0x464F5247;

    private static final String DEFAULT_SCHEMA = "public";

    /** The documented keys, by which operators find leaders in pg_locks; valid in the default schema only. */
    private static final Map<String, Long> LEADERS = Map.of(
            "scheduler", 0x464F52470001L,
            "metrics_aggregator", 0x464F52470002L,
            "log_compactor", 0x464F52470003L);

    private final String schemaName;
    private final long schemaOid;

    AdvisoryKeys(String schemaName, long schemaOid) {
        this.schemaName = schemaName;
        this.schemaOid = schemaOid;
    }

    /** Returns the key of the lock that a node's session holds while it lasts. Each session has another, so that it is free. */
    int liveness(UUID session) {
        return hash("live " + session);
    }

    /** Returns the key of the lock that the leader's session holds, as the SQL arguments of a lock function. */
    public String leader(String role) {
        Long documented = schemaName.equals(DEFAULT_SCHEMA) ? LEADERS.get(role) : null;
        return documented != null ? documented + "::bigint" : CLASS_ID + ", " + hash("leader " + role);
    }

    // Nodes of all versions must compute the same hash.
    private int hash(String purpose) {
        var crc = new CRC32();
        crc.update((schemaOid + " " + purpose).getBytes(StandardCharsets.UTF_8));
        return (int) crc.getValue();
    }
}
