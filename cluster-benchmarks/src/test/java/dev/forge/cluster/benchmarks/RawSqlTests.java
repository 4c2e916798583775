package dev.forge.cluster.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import org.junit.jupiter.api.Test;

@ClusterPostgres
class RawSqlTests {

    @Test
    void the_ceiling_completes_every_job_once(TestDatabase database) {
        var raw = new RawSql(database.dataSource());
        assertThat(raw.insert(2_000)).isPositive();
        assertThat(raw.drain(100, 2)).isPositive();
        assertThat(database.jdbc()
                        .sql("SELECT count(*) FROM forge_jobs WHERE status = 'completed' AND attempts = 1")
                        .query(Long.class)
                        .single())
                .isEqualTo(2_000);
    }
}
