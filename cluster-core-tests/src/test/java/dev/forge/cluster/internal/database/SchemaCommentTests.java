// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Verifies that every object has a comment for operators, which psql shows with {@code \d+} and {@code \df+}. */
@ClusterPostgres
class SchemaCommentTests {

    private final TestDatabase database;

    SchemaCommentTests(TestDatabase database) {
        this.database = database;
    }

    /** Returns the objects of the cluster without a comment. The history table belongs to Flyway. */
    private List<String> uncommented() {
        return database.jdbc().sql("""
                        WITH relation AS (
                            SELECT oid, relname::text AS name FROM pg_class
                            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
                              AND relname ~ '^(forge|scheduler)_' AND relname <> 'forge_schema_history')
                        SELECT name FROM relation WHERE obj_description(oid, 'pg_class') IS NULL
                        UNION ALL
                        SELECT r.name || '.' || a.attname FROM relation r JOIN pg_class c ON c.oid = r.oid AND c.relkind <> 'S'
                        JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
                        WHERE col_description(r.oid, a.attnum) IS NULL
                        UNION ALL
                        SELECT proname || '()' FROM pg_proc
                        WHERE pronamespace = 'public'::regnamespace AND proname ~ '^forge_'
                          AND obj_description(oid, 'pg_proc') IS NULL
                        UNION ALL
                        SELECT typname FROM pg_type
                        WHERE typnamespace = 'public'::regnamespace AND typtype = 'd' AND typname ~ '^forge_'
                          AND obj_description(oid, 'pg_type') IS NULL
                        ORDER BY 1
                        """).query(String.class).list();
    }

    @Test
    void every_table_view_column_function_sequence_and_domain_has_a_comment() {
        assertThat(uncommented()).isEmpty();
    }

    @Test
    void objects_without_a_comment_are_found() {
        List<String> statements = List.of(
                "CREATE TABLE forge_a (id int)",
                "CREATE VIEW forge_b AS SELECT 1 AS one",
                "CREATE SEQUENCE forge_c",
                "CREATE DOMAIN forge_d AS int",
                "CREATE FUNCTION forge_e() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "COMMENT ON TABLE forge_a IS 'Commented, unlike its column.'");
        try {
            statements.forEach(statement -> database.jdbc().sql(statement).update());
            assertThat(uncommented())
                    .contains("forge_a.id", "forge_b", "forge_b.one", "forge_c", "forge_d", "forge_e()")
                    .doesNotContain("forge_a");
        } finally {
            List.of("TABLE forge_a", "VIEW forge_b", "SEQUENCE forge_c", "DOMAIN forge_d", "FUNCTION forge_e()")
                    .forEach(object -> database.jdbc()
                            .sql("DROP %s CASCADE".formatted(object))
                            .update());
        }
    }
}
