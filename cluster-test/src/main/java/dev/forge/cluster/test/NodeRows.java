// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Rows of nodes that exist only for a test: without one nobody claims or leads. */
final class Members {

    private Members() {}

    static void join(JdbcClient jdbc, UUID id) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                VALUES (?, ?, 'test', 'test', '{worker,scheduler}', 'active', 'test', now() + interval '1 hour',
                        now() + interval '1 hour')
                ON CONFLICT DO NOTHING
                """).params(id, id.toString()).update();
    }
}
