// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.cron.CronStore.COLUMNS;
import static dev.forge.cluster.internal.cron.CronStore.COLUMN_TYPES;
import static dev.forge.cluster.internal.cron.CronStore.TYPES;

import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import javax.sql.DataSource;

/**
 * Reads and writes what builds of applications declare: the rows of {@code forge_cron_sets}. A set holds all cron
 * definitions of one build under their digest, which each node of that build names in its own row.
 */
final class CronSetStore {

    private final Tables tables;

    CronSetStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** Publishes the definitions of a build under their digest. */
    void declare(String digest, List<Definition> definitions) {
        tables.update("""
                INSERT INTO ~.forge_cron_sets (digest, definitions)
                SELECT ?, coalesce(jsonb_agg(to_jsonb(d)), '[]')
                FROM unnest(%s) AS d (%s)
                ON CONFLICT (digest) DO UPDATE SET last_seen_at = clock_timestamp()
                """.formatted(TYPES, COLUMNS), statement -> {
            statement.setString(1, digest);
            CronStore.bind(statement, 2, definitions);
        });
    }

    /**
     * The digests that live nodes name.
     *
     * @param complete whether every set is stored; a node that joins names its set a moment before it stores it
     */
    record LiveSets(Set<String> digests, boolean complete) {}

    /** Returns the digests that live nodes name. */
    LiveSets liveSets() {
        Map<String, Boolean> live =
                tables.sql("""
                SELECT DISTINCT n.info ->> 'crons', s.digest IS NOT NULL
                FROM ~.forge_nodes n LEFT JOIN ~.forge_cron_sets s ON s.digest = n.info ->> 'crons'
                WHERE n.status <> 'dead' AND n.info ->> 'crons' IS NOT NULL
                """).query((row, n) -> Map.entry(row.getString(1), row.getBoolean(2))).list().stream()
                        .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
        return new LiveSets(live.keySet(), !live.containsValue(false));
    }

    /** Marks live sets as seen; deletes sets and memories of removed crons that are older than the retention. */
    void keepSets(Collection<String> live, Duration retention) {
        tables.sql("UPDATE ~.forge_cron_sets SET last_seen_at = clock_timestamp() WHERE digest = ANY (:live)")
                .param("live", live.toArray(String[]::new))
                .update();
        tables.sql("""
                DELETE FROM ~.forge_cron_sets WHERE digest = ANY (ARRAY(
                    SELECT digest FROM ~.forge_cron_sets
                    WHERE last_seen_at < clock_timestamp() - :millis * interval '1 millisecond' LIMIT 1000))
                """).param("millis", retention.toMillis()).update();
        tables.sql("""
                DELETE FROM ~.forge_cron_memories WHERE name = ANY (ARRAY(
                    SELECT name FROM ~.forge_cron_memories
                    WHERE removed_at < clock_timestamp() - :millis * interval '1 millisecond' LIMIT 5000))
                """).param("millis", retention.toMillis()).update();
    }

    /** Returns the definitions of the sets; where sets differ about a cron, the newest set counts. */
    List<Definition> definitions(Collection<String> digests) {
        return tables.sql("""
                SELECT DISTINCT ON (d.name) d.*
                FROM ~.forge_cron_sets s, jsonb_to_recordset(s.definitions) AS d (%s)
                WHERE s.digest = ANY (:digests)
                ORDER BY d.name, s.first_seen_at DESC, s.digest
                """.formatted(COLUMN_TYPES))
                .param("digests", digests.toArray(String[]::new))
                .query((row, n) -> CronStore.definition(row))
                .list();
    }

    /** Returns the names of crons that the sets define differently. */
    Set<String> disputed(Collection<String> digests) {
        return new HashSet<>(tables.sql("""
                SELECT d ->> 'name' FROM ~.forge_cron_sets s, jsonb_array_elements(s.definitions) AS d
                WHERE s.digest = ANY (:digests)
                GROUP BY d ->> 'name' HAVING count(DISTINCT d) > 1
                """)
                .param("digests", digests.toArray(String[]::new))
                .query((row, n) -> row.getString(1))
                .list());
    }
}
