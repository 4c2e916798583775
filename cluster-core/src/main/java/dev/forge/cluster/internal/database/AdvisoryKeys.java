package dev.forge.cluster.internal.database;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import java.util.zip.CRC32;

/**
 * The advisory lock keys of one cluster. All but the documented leader keys use the two-integer form with one class id,
 * so that they can never meet an application's own {@code bigint} keys; the schema's oid keeps clusters of one database
 * apart.
 */
public final class AdvisoryKeys {

    /** "FORG". */
    public static final int CLASS_ID = 0x464F5247;

    private static final String DEFAULT_SCHEMA = "public";

    /** Documented, so that operators find them in pg_locks; valid in the default schema only. */
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

    /** Held by a node's session while it lasts. Another for each session: nobody can have taken it before. */
    int liveness(UUID session) {
        return hash("live " + session);
    }

    /** Held by the leader's session; ready to stand between the parentheses of a lock function. */
    public String leader(String role) {
        Long documented = schemaName.equals(DEFAULT_SCHEMA) ? LEADERS.get(role) : null;
        return documented != null ? documented + "::bigint" : CLASS_ID + ", " + hash("leader " + role);
    }

    // Every node, of every version, must compute the same.
    private int hash(String purpose) {
        var crc = new CRC32();
        crc.update((schemaOid + " " + purpose).getBytes(StandardCharsets.UTF_8));
        return (int) crc.getValue();
    }
}
