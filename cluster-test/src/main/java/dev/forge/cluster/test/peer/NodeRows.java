// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.peer;

import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Inserts rows of nodes without a process, because only nodes with a row can claim jobs and lead. */
final class NodeRows {

    private NodeRows() {}

    static void insert(JdbcClient jdbc, UUID id) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                VALUES (?, ?, 'test', 'test', '{worker,scheduler}', 'active', 'test', now() + interval '1 hour',
                        now() + interval '1 hour')
                ON CONFLICT DO NOTHING
                """).params(id, id.toString()).update();
    }
}
