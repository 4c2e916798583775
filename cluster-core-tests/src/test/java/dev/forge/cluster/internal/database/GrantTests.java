// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Verifies that the grants of docs/reference/security.md suffice for their purpose, and allow nothing more. */
@ClusterPostgres
class GrantTests {

    private static final Pattern BLOCK = Pattern.compile("```sql\\n(.*?)```", Pattern.DOTALL);

    private final TestDatabase database;
    private final List<String> roles = new ArrayList<>();

    GrantTests(TestDatabase database) {
        this.database = database;
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "forge");
    }

    @AfterEach
    void dropRoles() {
        for (String role : roles) {
            execute("DROP OWNED BY " + role);
            execute("DROP ROLE " + role);
        }
    }

    private void execute(String sql) {
        database.jdbc().sql(sql).update();
    }

    /** Returns the block of the document with the grants to a role. */
    private static String printed(String role) throws IOException {
        Path path = Path.of("docs/reference/security.md");
        String document =
                Files.readString(Files.exists(path) ? path : Path.of("..").resolve(path));
        List<String> blocks = BLOCK.matcher(document)
                .results()
                .map(block -> block.group(1))
                .filter(block -> block.contains("TO %s;".formatted(role)))
                .toList();
        assertThat(blocks).as("blocks with grants to " + role).hasSize(1);
        return blocks.get(0);
    }

    /** Returns connections of a role that has the grants of the document. */
    private DataSource granted(String role) throws IOException {
        String name = role + "_" + database.name();
        execute("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(name));
        roles.add(name);
        execute(printed(role)
                .replace("DATABASE orders", "DATABASE " + database.name())
                .replace("TO %s;".formatted(role), "TO %s;".formatted(name)));
        return new DriverManagerDataSource(database.url(), name, "secret");
    }

    private List<String> privileges(String role) {
        return database.jdbc()
                .sql("""
                        SELECT c.relname || ' ' || p.name
                        FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES',
                                                      'TRIGGER']) AS p (name)
                        WHERE c.relnamespace = 'forge'::regnamespace AND c.relkind IN ('r', 'v')
                          AND CASE WHEN p.name IN ('DELETE', 'TRUNCATE', 'TRIGGER')
                                   THEN has_table_privilege(:role, c.oid, p.name)
                                   ELSE has_any_column_privilege(:role, c.oid, p.name) END
                        ORDER BY 1
                        """)
                .param("role", role + "_" + database.name())
                .query(String.class)
                .list();
    }

    private static void isDenied(DataSource source, String sql) {
        assertThatExceptionOfType(DataAccessException.class)
                .as(sql)
                .isThrownBy(() -> JdbcClient.create(source).sql(sql).update())
                .withStackTraceContaining("permission denied");
    }

    @Test
    void node_runs_with_the_grants_of_the_runtime_role() throws IOException {
        DataSource runtime = granted("runtime");
        assertThat(Schema.open(runtime, SchemaMode.MIGRATE, "forge").version()).isEqualTo(Schema.VERSION);
        try (var cluster = new TestCluster(database, "forge", runtime)) {
            var flows = new TestWorkflows(cluster);
            flows.work = jobs -> jobs.on("order", context -> {});
            flows.on("checkout", wf -> {
                String paid = wf.step("pay", String.class, () -> "paid");
                return paid + wf.awaitSignal("go", String.class);
            });
            TestWorkflows.Member one = flows.start("one");
            TestCluster.Member member = one.member();
            await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER)
                    && member.leadership().isLeader(Leadership.LOG_COMPACTOR));
            assertThat(member.ended(member.jobs().enqueueNamed("order", null).id())
                            .status())
                    .isEqualTo(JobStatus.COMPLETED);
            member.crons().create(CronDefinition.cron("often", "* * * * * *").withHandler("order"));
            await().until(() -> member.crons().runs("often", 10).items().stream()
                    .anyMatch(run -> run.outcome() == CronRun.Outcome.RAN));
            assertThat(member.crons().delete("often")).isTrue();
            UUID run = one.workflows().start("checkout", null);
            one.await(run, WorkflowStatus.WAITING);
            one.workflows().signal(run, "go", "!");
            assertThat(one.ended(run).result()).isEqualTo("\"paid!\"");
            try (var lock = member.locks().tryLock("import").orElseThrow()) {
                assertThat(lock.extend(Duration.ofMinutes(1))).isTrue();
            }
            member.jobs().pause("order");
            member.jobs().resume("order");
            // Clean-up needs the right to delete.
            member.node().cleanUp();
            assertThat(database.jdbc()
                            .sql("SELECT count(*) FROM forge.forge_audit")
                            .query(Long.class)
                            .single())
                    .as("entries, although nodes are no operators")
                    .isZero();
        }
        assertThat(privileges("runtime"))
                .isNotEmpty()
                .noneMatch(privilege -> privilege.matches(".*(TRUNCATE|REFERENCES|TRIGGER)"));
        isDenied(runtime, "CREATE TABLE forge.mine (id int)");
        isDenied(runtime, "TRUNCATE forge.forge_jobs");
        isDenied(runtime, "CREATE TABLE public.mine (id int)");
    }

    @Test
    void role_that_may_not_write_a_table_is_rejected_with_its_name() throws IOException {
        Schema schema = Schema.open(granted("runtime"), SchemaMode.VALIDATE, "forge");
        schema.requireGrants();
        execute("REVOKE DELETE ON forge.forge_locks FROM runtime_" + database.name());
        execute("REVOKE USAGE ON forge.forge_lock_tokens FROM runtime_" + database.name());
        assertThatExceptionOfType(ClusterStartupException.class)
                .isThrownBy(schema::requireGrants)
                .withMessageContaining("'forge', on [forge_lock_tokens, forge_locks]")
                .satisfies(refusal -> assertThat(refusal.action()).contains("ON ALL TABLES IN SCHEMA \"forge\""));
    }

    @Test
    void every_table_that_nodes_write_is_among_those_whose_grants_are_checked() {
        assertThat(database.jdbc().sql("""
                                SELECT relname::text FROM pg_class
                                WHERE relnamespace = 'forge'::regnamespace AND relkind IN ('r', 'S')
                                  AND relname NOT IN ('forge_settings', 'forge_schema_versions', 'forge_schema_history')
                                ORDER BY relname COLLATE "C"
                                """).query(String.class).list()).isEqualTo(Schema.written());
    }

    @Test
    void reader_sees_the_views_and_nothing_else() throws IOException {
        DataSource reader = granted("reader");
        assertThat(JdbcClient.create(reader)
                        .sql("SELECT count(*) FROM forge.scheduler_job")
                        .query(Long.class)
                        .single())
                .isNotNull();
        assertThat(privileges("reader"))
                .containsExactly("scheduler_job SELECT", "scheduler_lock SELECT", "scheduler_node SELECT");
        isDenied(reader, "SELECT FROM forge.forge_jobs");
    }

    @Test
    void enqueuer_enqueues_and_reads_no_payload() throws IOException {
        DataSource enqueuer = granted("enqueuer");
        String enqueue = "SELECT forge.forge_enqueue('order', '{\"card\": 42}', unique_key => 'invoice-7')";
        UUID job = JdbcClient.create(enqueuer).sql(enqueue).query(UUID.class).single();
        assertThat(JdbcClient.create(enqueuer).sql(enqueue).query(UUID.class).single())
                .as("the active job with that key")
                .isEqualTo(job);
        assertThat(privileges("enqueuer")).isEmpty();
        isDenied(enqueuer, "SELECT id FROM forge.forge_jobs");
        isDenied(enqueuer, "INSERT INTO forge.forge_jobs (id, name) VALUES (gen_random_uuid(), 'a')");
        isDenied(enqueuer, "SELECT FROM forge.forge_settings");
        isDenied(enqueuer, "UPDATE forge.forge_jobs SET priority = 100");
        isDenied(enqueuer, "DELETE FROM forge.forge_jobs");
    }

    @Test
    void operator_who_edits_tables_is_recorded_and_cannot_touch_the_trail() throws IOException {
        DataSource operator = granted("operator");
        JdbcClient.create(operator)
                .sql("INSERT INTO forge.forge_job_pauses (name) VALUES ('mail')")
                .update();
        assertThat(database.jdbc()
                        .sql("SELECT who || ' ' || action || ' ' || target FROM forge.forge_audit")
                        .query(String.class)
                        .list())
                .containsExactly("operator_%s name.pause mail".formatted(database.name()));
        JdbcClient.create(operator).sql("""
                        INSERT INTO forge.forge_job_limits (name, overridden, concurrency) VALUES ('mail', true, 5);
                        UPDATE forge.forge_job_limits SET overridden = false, concurrency = declared_concurrency WHERE name = 'mail';
                        DELETE FROM forge.forge_job_pauses WHERE name = 'mail'
                        """).update();
        assertThat(privileges("operator"))
                .containsExactly(
                        "forge_daemon_pauses DELETE",
                        "forge_daemon_pauses INSERT",
                        "forge_daemon_pauses SELECT",
                        "forge_job_limits INSERT",
                        "forge_job_limits SELECT",
                        "forge_job_limits UPDATE",
                        "forge_job_pauses DELETE",
                        "forge_job_pauses INSERT",
                        "forge_job_pauses SELECT");
        isDenied(operator, "INSERT INTO forge.forge_job_pauses (name, paused_at) VALUES ('mail', 'infinity')");
        isDenied(operator, "INSERT INTO forge.forge_daemon_pauses (name, paused_at) VALUES ('feed', 'infinity')");
        isDenied(operator, "INSERT INTO forge.forge_job_limits (name, declared_concurrency) VALUES ('post', 1)");
        for (String column : List.of("name", "ordered", "changed_at", "declared_concurrency", "declared_group_rate")) {
            isDenied(operator, "UPDATE forge.forge_job_limits SET %1$s = %1$s".formatted(column));
        }
        isDenied(operator, "DELETE FROM forge.forge_job_limits");
        isDenied(operator, "DELETE FROM forge.forge_audit");
        isDenied(operator, "SELECT FROM forge.forge_audit");
        execute("TRUNCATE forge.forge_audit, forge.forge_job_pauses, forge.forge_job_limits");
    }

    @Test
    void resolver_ends_runs_with_their_jobs_and_changes_nothing_else() throws IOException {
        DataSource resolver = granted("resolver");
        UUID run = UUID.randomUUID();
        database.jdbc().sql("""
                        WITH run AS (
                            INSERT INTO forge.forge_workflow_runs (id, job_id, workflow_name, workflow_version)
                            VALUES (:run, :run, 'checkout', '1'))
                        INSERT INTO forge.forge_jobs (id, name) VALUES (:run, 'workflow:checkout@1')
                        """).param("run", run).update();
        JdbcClient.create(resolver).sql("""
                        UPDATE forge.forge_workflow_runs
                        SET status = 'cancelled_by_operator', resolution_reason = 'duplicate', updated_at = now() WHERE id = ?
                        """).param(run).update();
        assertThat(database.jdbc()
                        .sql("SELECT status FROM forge.forge_jobs WHERE id = ?")
                        .param(run)
                        .query(String.class)
                        .single())
                .isEqualTo("cancelled");
        assertThat(privileges("resolver")).containsExactly("forge_workflow_runs SELECT", "forge_workflow_runs UPDATE");
        isDenied(resolver, "UPDATE forge.forge_workflow_runs SET job_id = gen_random_uuid()");
        isDenied(resolver, "UPDATE forge.forge_workflow_runs SET input = '1'");
        isDenied(resolver, "DELETE FROM forge.forge_workflow_runs");
        isDenied(resolver, "SELECT FROM forge.forge_jobs");
    }
}
