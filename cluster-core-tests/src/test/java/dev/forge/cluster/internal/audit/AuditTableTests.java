// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Changes by SQL, rights on the table, and its retention. */
@ClusterPostgres
class AuditTableTests extends AuditFixture {

    private static final List<String> EDITED =
            List.of("forge_job_pauses", "forge_daemon_pauses", "forge_job_limits", "forge_job_weights", "forge_crons");

    private final String role;

    AuditTableTests(TestDatabase database) {
        super(database);
        this.role = "operator_" + database.name();
    }

    @BeforeEach
    void createRole() {
        execute("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(role));
        execute("GRANT USAGE ON SCHEMA public TO " + role);
    }

    @AfterEach
    void dropRole() {
        execute("DROP OWNED BY %s CASCADE".formatted(role));
        execute("DROP ROLE " + role);
    }

    private void execute(String sql) {
        jdbc.sql(sql).update();
    }

    private JdbcClient asRole() {
        return JdbcClient.create(new DriverManagerDataSource(database.url(), role, "secret"));
    }

    private void grantEdits() {
        execute("GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s".formatted(String.join(", ", EDITED), role));
    }

    private static void isDenied(JdbcClient client, String sql) {
        assertThatExceptionOfType(DataAccessException.class)
                .as(sql)
                .isThrownBy(() -> client.sql(sql).update())
                .withStackTraceContaining("permission denied");
    }

    @Test
    void edit_by_sql_is_recorded_with_the_role_of_the_session() {
        grantEdits();
        one.member().crons().create(CronDefinition.cron("yearly", "0 0 0 1 1 *").withHandler("order"));
        JdbcClient operator = asRole();
        for (String sql : List.of(
                "INSERT INTO forge_job_pauses (name) VALUES ('mail')",
                "UPDATE forge_job_pauses SET name = 'post' WHERE name = 'mail'",
                "DELETE FROM forge_job_pauses WHERE name = 'post'",
                "INSERT INTO forge_daemon_pauses (name) VALUES ('feed')",
                "DELETE FROM forge_daemon_pauses",
                "INSERT INTO forge_job_limits (name, overridden, concurrency) VALUES ('mail', true, 7)",
                "UPDATE forge_job_limits SET concurrency = 8 WHERE name = 'mail'",
                "UPDATE forge_job_limits SET overridden = false WHERE name = 'mail'",
                "UPDATE forge_job_limits SET ordered = true, declared_concurrency = 3 WHERE name = 'mail'",
                "DELETE FROM forge_job_limits WHERE name = 'mail'",
                "INSERT INTO forge_job_weights (name, job_group, weight) VALUES ('mail', 'acme', 3)",
                "DELETE FROM forge_job_weights",
                "UPDATE forge_crons SET paused = true",
                "UPDATE forge_crons SET paused = false",
                // Nothing changes.
                "UPDATE forge_crons SET paused = false",
                "UPDATE forge_job_limits SET changed_at = now()",
                "UPDATE forge_crons SET problem = 'by hand'")) {
            operator.sql(sql).update();
        }
        assertThat(texts().stream().map(text -> text.replace(" 1", "")).toList())
                .containsExactly(
                        "cron.resume yearly",
                        "cron.pause yearly",
                        "weight.change mail",
                        "weight.change mail",
                        "limit.reset mail",
                        "limit.declare mail",
                        "limit.reset mail",
                        "limit.change mail",
                        "limit.change mail",
                        "daemon.resume feed",
                        "daemon.pause feed",
                        "name.resume post",
                        "name.pause post",
                        "name.pause mail");
        assertThat(entries()).extracting(AuditEntry::who).containsOnly(role);
        assertThat(entries()).extracting(AuditEntry::source).containsOnly(AuditSource.SQL);
        assertThat(entries().get(0).address()).isIn("127.0.0.1", "::1");
        assertThat(entries().get(3).detail()).isEqualTo("group acme: 3");
        assertThat(entries().get(5).detail()).isEqualTo("ordered, concurrency 3");
        assertThat(entries().get(7).detail()).isEqualTo("concurrency 8");
        assertThat(events()).isEmpty();
    }

    @Test
    void edit_by_sql_belongs_to_its_transaction() {
        transaction(-1).executeWithoutResult(status -> {
            jdbc.sql("INSERT INTO forge_job_pauses (name) VALUES ('mail')").update();
            status.setRollbackOnly();
        });
        assertThat(entries()).isEmpty();
        jdbc.sql("INSERT INTO forge_job_pauses (name) VALUES ('mail')").update();
        assertThat(texts()).containsExactly("name.pause mail 1");
        assertThat(entries().get(0).who()).isEqualTo(database.username());
    }

    @Test
    void change_by_a_node_is_not_taken_for_an_edit_by_sql() {
        jobs.pause("free");
        jobs.resume("free");
        operations.setLimits("order", JobLimits.none().withConcurrency(2));
        operations.resetLimits("order");
        operations.setGroupWeight("order", "acme", 2);
        operations.setGroupWeight("order", "acme", 1);
        one.member().crons().create(CronDefinition.cron("yearly", "0 0 0 1 1 *").withHandler("order"));
        one.member().crons().pause("yearly");
        one.member().crons().resume("yearly");
        assertThat(entries()).isEmpty();
        // The mark is that of one statement, not of the transaction.
        transaction(-1).executeWithoutResult(status -> {
            one.member().crons().pause("yearly");
            jdbc.sql("UPDATE forge_crons SET paused = false").update();
        });
        assertThat(texts()).containsExactly("cron.resume yearly 1");
    }

    @Test
    void role_that_may_not_write_the_trail_cannot_hide_behind_the_mark_of_nodes() {
        grantEdits();
        asRole().sql(Schema.BY_NODE + "INSERT INTO forge_job_pauses (name) VALUES ('mail')")
                .update();
        assertThat(texts()).containsExactly("name.pause mail 1");
        assertThat(entries().get(0).who()).isEqualTo(role);
    }

    @Test
    void role_that_acts_as_a_role_of_nodes_is_recorded_with_its_own_name() {
        String nodes = "nodes_" + database.name();
        execute("CREATE ROLE %s NOLOGIN".formatted(nodes));
        try {
            execute("GRANT USAGE ON SCHEMA public TO " + nodes);
            execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + nodes);
            execute("GRANT %s TO %s".formatted(nodes, role));
            // One statement: each use of this data source is a new session.
            asRole().sql("SET ROLE %s; INSERT INTO forge_job_pauses (name) VALUES ('mail')".formatted(nodes))
                    .update();
            assertThat(entries()).extracting(AuditEntry::who).containsExactly(role);
        } finally {
            execute("DROP OWNED BY " + nodes);
            execute("DROP ROLE " + nodes);
        }
    }

    @Test
    void role_with_rights_on_edited_tables_can_neither_read_nor_write_the_trail() {
        grantEdits();
        JdbcClient intruder = asRole();
        isDenied(intruder, "SELECT FROM forge_audit");
        isDenied(
                intruder,
                "INSERT INTO forge_audit (who, source, action, target, count) VALUES ('alice', 'sql', 'a', 'b', 1)");
        isDenied(intruder, "DELETE FROM forge_audit");
        isDenied(intruder, "TRUNCATE forge_audit");
        isDenied(intruder, """
                CREATE TEMPORARY TABLE forge_job_pauses (name text);
                CREATE TRIGGER forged AFTER INSERT ON pg_temp.forge_job_pauses FOR EACH ROW
                    EXECUTE FUNCTION public.forge_audit_statement()
                """);
        execute("GRANT EXECUTE ON FUNCTION forge_audit_statement() TO " + role);
        assertThatExceptionOfType(DataAccessException.class)
                .isThrownBy(() -> asRole().sql("""
                        CREATE TEMPORARY TABLE forge_job_pauses (name text);
                        CREATE TRIGGER forged AFTER INSERT ON pg_temp.forge_job_pauses FOR EACH ROW
                            EXECUTE FUNCTION public.forge_audit_statement();
                        INSERT INTO pg_temp.forge_job_pauses VALUES ('forged')
                        """).update())
                .withStackTraceContaining("serves tables of Forge Cluster only");
        assertThat(entries()).isEmpty();
    }

    @Test
    void role_of_nodes_adds_entries_and_can_neither_change_nor_delete_recent_ones() {
        grantAll();
        JdbcClient node = asRole();
        node.sql("INSERT INTO forge_audit (who, source, action, target, count) VALUES ('alice', 'java', 'a', 'b', 1)")
                .update();
        isDenied(node, "UPDATE forge_audit SET who = 'bob'");
        isDenied(node, "DELETE FROM forge_audit");
        isDenied(node, "TRUNCATE forge_audit");
        assertThat(entries()).extracting(AuditEntry::who).containsExactly("alice");
        assertThatCode(() -> execute("UPDATE forge_audit SET at = now() - interval '8 days'"))
                .as("change by the owner")
                .doesNotThrowAnyException();
        assertThat(node.sql("DELETE FROM forge_audit").update()).isOne();
    }

    private void grantAll() {
        execute("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO " + role);
        execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO " + role);
    }

    @Test
    void role_of_nodes_chooses_neither_the_number_nor_the_time_of_an_entry() {
        grantAll();
        jdbc.sql("INSERT INTO forge_job_pauses (name) VALUES ('first')").update();
        long last = entries().get(0).id();
        asRole().sql("""
                        INSERT INTO forge_audit (id, at, who, source, action, target, count)
                        OVERRIDING SYSTEM VALUE
                        SELECT :last + n, now() - n * interval '8 days', 'alice', 'java', 'a', n::text, 1
                        FROM generate_series(1, 3) AS n
                        """).param("last", last).update();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_audit WHERE at > clock_timestamp() - interval '1 minute'")
                        .query(Long.class)
                        .single())
                .isEqualTo(4);
        // By the owner and by the trigger of the edited table.
        for (int i = 0; i < 5; i++) {
            jdbc.sql("INSERT INTO forge_job_pauses (name) VALUES (?)")
                    .param("next-" + i)
                    .update();
        }
        assertThat(entries()).hasSize(9).extracting(AuditEntry::id).doesNotHaveDuplicates();
        isDenied(asRole(), "SELECT setval('forge_audit_id_seq', 1)");
        execute("""
                INSERT INTO forge_audit (id, at, who, source, action, target, count)
                OVERRIDING SYSTEM VALUE VALUES (1000000, '2020-01-01 00:00:00+00', 'bob', 'java', 'a', 'restored', 1)
                """);
        assertThat(entries().get(0).id()).as("restored by the owner").isEqualTo(1_000_000);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void entries_are_deleted_after_their_retention_if_the_role_may(boolean mayDelete) {
        execute("GRANT SELECT, INSERT ON forge_audit TO " + role);
        if (mayDelete) {
            execute("GRANT DELETE ON forge_audit TO " + role);
        }
        execute("""
                INSERT INTO forge_audit (at, who, source, action, target, count)
                SELECT now() - n * interval '1 day', 'alice', 'java', 'job.cancel', n::text, 1 FROM generate_series(88, 95) AS n
                """);
        var store = new AuditStore(cluster.schema, new DriverManagerDataSource(database.url(), role, "secret"));
        Duration retention = Duration.ofDays(90);
        assertThat(store.purge(retention, 2)).isEqualTo(mayDelete ? 2 : 0);
        assertThat(store.purge(retention, 100)).isEqualTo(mayDelete ? 4 : 0);
        assertThat(entries()).hasSize(mayDelete ? 2 : 8);
        if (mayDelete) {
            assertThat(entries()).extracting(AuditEntry::target).containsExactlyInAnyOrder("88", "89");
        }
    }

    @Test
    void lists_and_retention_use_an_index() {
        execute("""
                INSERT INTO forge_audit (at, who, source, action, target, count)
                SELECT now() - n * interval '1 minute', 'alice', 'java', 'job.cancel', n::text, 1
                FROM generate_series(1, 20000) AS n
                """);
        execute("ANALYZE forge_audit");
        assertThat(plan("SELECT * FROM forge_audit ORDER BY id DESC LIMIT 10")).contains("forge_audit_pkey");
        assertThat(plan("SELECT * FROM forge_audit WHERE target = '7' ORDER BY id DESC LIMIT 10"))
                .contains("forge_audit_target");
        assertThat(plan("SELECT id FROM forge_audit WHERE at < now() - interval '90 days' ORDER BY at LIMIT 10"))
                .contains("forge_audit_age");
    }

    private String plan(String sql) {
        return String.join("\n", jdbc.sql("EXPLAIN " + sql).query(String.class).list());
    }
}
