// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.job.operate.JobLimitReports;
import dev.forge.cluster.internal.job.operate.JobLimitReports.NameLimits;
import dev.forge.cluster.internal.job.row.JobLimitStore;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Types;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Rows that operators write by SQL: constraints refuse those that nodes cannot handle, and no number of them does harm. */
@ClusterPostgres
class OperatorRowTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final Schema schema;

    OperatorRowTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
    }

    @BeforeEach
    void empty() {
        database.clear();
    }

    private void isRefused(String sql) {
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .as(sql)
                .isThrownBy(() -> jdbc.sql(sql).update())
                .withStackTraceContaining("violates check constraint");
    }

    @ParameterizedTest
    @ValueSource(strings = {"group", "declared_group"})
    void period_is_bounded_in_each_of_its_fields(String prefix) {
        String insert =
                "INSERT INTO forge_job_limits (name, %1$s_rate, %1$s_period, %1$s_burst) VALUES ('a', 1, '%2$s', 1)";
        for (String period : List.of(
                "12 months 5 days 23:59:59",
                "1 year 18:00:01",
                "1 month",
                "367 days",
                "1 month -30 days -24:00",
                "1200000 months -36524999 days",
                "36525000 days -876599976:00",
                "0",
                "-1 s")) {
            isRefused(insert.formatted(prefix, period));
        }
        jdbc.sql(insert.formatted(prefix, "366 days")).update();
    }

    @ParameterizedTest
    @ValueSource(strings = {"group", "declared_group"})
    void rate_is_at_most_one_start_per_microsecond(String prefix) {
        String insert =
                "INSERT INTO forge_job_limits (name, %1$s_rate, %1$s_period, %1$s_burst) VALUES ('a', %2$s, '%3$s', 1)";
        isRefused(insert.formatted(prefix, 1_000_001, "1 s"));
        isRefused(insert.formatted(prefix, 3_000, "1 ms"));
        jdbc.sql(insert.formatted(prefix, 1_000_000, "1 s")).update();
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> JobLimits.none().withGroupRate(3_000, Duration.ofMillis(1)))
                .withMessageContaining("3000 per PT0.001S");
        JobLimits.none().withGroupRate(1_000_000, Duration.ofSeconds(1));
    }

    @Test
    void declared_limits_have_the_constraints_of_limits() {
        for (String values : List.of(
                "declared_concurrency) VALUES ('a', 0",
                "declared_group_concurrency) VALUES ('a', -1",
                "group_rate) VALUES ('a', 1",
                "declared_group_rate) VALUES ('a', 1",
                "declared_group_rate, declared_group_period, declared_group_burst) VALUES ('a', 0, '1 s', 1",
                "declared_group_rate, declared_group_period, declared_group_burst) VALUES ('a', 1, '366 days', 1000000000")) {
            isRefused("INSERT INTO forge_job_limits (name, " + values + ")");
        }
    }

    @Test
    void nodes_can_read_all_limits_that_the_constraints_allow() {
        var random = new Random(41);
        String[] units = {
            "months", "days", "days", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"
        };
        int stored = 0;
        for (int i = 0; i < 2_000; i++) {
            try {
                stored += jdbc.sql("""
                                INSERT INTO forge_job_limits
                                    (name, overridden, concurrency, group_rate, group_period, group_burst, declared_group_rate,
                                     declared_group_period, declared_group_burst)
                                SELECT :name, true, :number, :rate, p.period, :burst, :rate, p.period, :burst
                                FROM (SELECT :large::interval + :small::interval + :rest::interval) AS p (period)
                                """)
                        .param("name", "limit-" + i)
                        .param("number", 1 + random.nextInt(Integer.MAX_VALUE))
                        .param("rate", random.nextInt(9) == 0 ? null : 1L + random.nextInt(1_000_000), Types.BIGINT)
                        .param(
                                "burst",
                                random.nextInt(9) == 0 ? null : 1L + random.nextInt(1_000_000_000),
                                Types.BIGINT)
                        .param("large", (random.nextInt(15) - 2) + " " + units[random.nextInt(units.length)])
                        .param("small", (random.nextInt(800) - 400) + " " + units[random.nextInt(units.length)])
                        .param("rest", random.nextInt(90_000_000) + " milliseconds")
                        .update();
            } catch (DataAccessException refused) {
                assertThat(refused).hasStackTraceContaining("violates check constraint");
            }
        }
        List<NameLimits> all = new JobLimitReports(schema, database.dataSource()).page(null, 2_000);
        assertThat(all).hasSize(stored).hasSizeGreaterThan(200).allMatch(name -> name.problem() == null);
    }

    @Test
    void limits_that_a_node_cannot_read_are_reported_as_such() {
        jdbc.sql("ALTER TABLE forge_job_limits DROP CONSTRAINT forge_job_limits_concurrency")
                .update();
        try {
            jdbc.sql("INSERT INTO forge_job_limits (name, concurrency) VALUES ('bad', 0), ('good', 2)")
                    .update();
            List<NameLimits> all = new JobLimitReports(schema, database.dataSource()).page(null, 10);
            assertThat(all).extracting(NameLimits::name).containsExactly("bad", "good");
            assertThat(all)
                    .extracting(NameLimits::problem)
                    .containsExactly("JobLimits: concurrency (0) must be at least 1", null);
            assertThat(all.get(1).limits()).isEqualTo(JobLimits.none().withConcurrency(2));
        } finally {
            database.clear();
            jdbc.sql(
                            "ALTER TABLE forge_job_limits ADD CONSTRAINT forge_job_limits_concurrency CHECK (concurrency >= 1)")
                    .update();
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "forge_job_pauses (name) VALUES (%s)",
                "forge_daemon_pauses (name) VALUES (%s)",
                "forge_job_limits (name) VALUES (%s)",
                "forge_job_weights (name, job_group, weight) VALUES (%s, 'g', 2)",
                "forge_job_rates (name, job_group, next_at) VALUES (%s, 'g', now())",
                "forge_job_names (name) VALUES (%s)",
                "forge_crons (name, expression) VALUES (%s, '* * * * * *')",
                "forge_crons (name, handler, expression) VALUES ('cron', %s, '* * * * * *')"
            })
    void names_follow_the_rules_for_names_of_jobs(String table) {
        for (String name : List.of("''", "E'a\\nb'", "E'\\x1b[31mred'", "repeat('a', 1001)")) {
            isRefused("INSERT INTO " + table.formatted(name));
        }
        assertThat(jdbc.sql("INSERT INTO " + table.formatted("repeat('a', 1000)"))
                        .update())
                .isOne();
    }

    @Test
    void names_that_no_node_knows_neither_hide_paused_names_nor_fill_lists() {
        jdbc.sql("INSERT INTO forge_job_pauses (name) SELECT '!' || n FROM generate_series(1, 3000) AS n")
                .update();
        jdbc.sql("INSERT INTO forge_job_pauses (name) VALUES ('mail')").update();
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('mail')").update();
        assertThat(new JobNameStore(schema, database.dataSource()).paused())
                .hasSize(1_001)
                .contains("mail");
    }

    @Test
    void nodes_ignore_pauses_and_limits_of_names_that_no_node_knows() {
        UUID node = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, handlers, status, version, stale_at, dead_at)
                VALUES (:id, 'n', 'n', 'h', '{worker}', '{mail,daemon:feed}', 'active', '1', now() + interval '1 hour',
                        now() + interval '1 hour')
                """).param("id", node).update();
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('mail'), ('daemon:feed')")
                .update();
        jdbc.sql(
                        "INSERT INTO forge_job_limits (name, concurrency) SELECT '!' || n, 1 FROM generate_series(1, 3000) AS n")
                .update();
        jdbc.sql("INSERT INTO forge_job_limits (name, concurrency) VALUES ('mail', 5)")
                .update();
        jdbc.sql("INSERT INTO forge_daemon_pauses (name) VALUES ('feed'), ('unknown')")
                .update();
        assertThat(new JobLimitStore(schema, database.dataSource()).obey(node)).containsExactly("mail");
        assertThat(new DaemonStore(schema, database.dataSource())
                        .clusterView(node)
                        .paused())
                .containsExactly("feed");
    }
}
