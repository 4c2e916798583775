// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.benchmarks.measure.Cpu;
import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import org.junit.jupiter.api.Test;

@ClusterPostgres
class RawSqlTests {

    @Test
    void the_ceiling_completes_every_job_once(TestDatabase database) {
        var raw = new RawSql(database.dataSource());
        raw.fill(2_000);
        int backend = database.jdbc()
                .sql("SELECT pg_backend_pid()")
                .query(Integer.class)
                .single();
        var race = new Race(2_000, new Cpu(backend));
        Race.Result result = raw.drain(race);
        assertThat(result.perSecond()).isPositive();
        assertThat(result.clientMicros()).isPositive();
        assertThat(race.runs()).isEqualTo(2_000);
        assertThat(database.jdbc()
                        .sql("SELECT count(*) FROM forge_jobs WHERE status = 'completed' AND attempts = 1")
                        .query(Long.class)
                        .single())
                .isEqualTo(2_000);
    }
}
