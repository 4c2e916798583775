// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.ratelimit.RateLimitReports.Bucket;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Lists of shared buckets. */
@ClusterPostgres
class RateLimitReportsTests {

    private final TestDatabase database;
    private final RateLimitReports reports;

    RateLimitReportsTests(TestDatabase database) {
        this.database = database;
        this.reports = new RateLimitReports(
                Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public"), database.dataSource());
    }

    @BeforeEach
    void empty() {
        database.clear();
    }

    private void bucket(String key, double spent, double perSecond, String age) {
        database.jdbc().sql("""
                        INSERT INTO forge_rate_limits (bucket, spent, capacity, per_second, granted, updated_at)
                        VALUES (?, ?, 10, ?, 1, now() - ?::interval)
                        """).params(key, spent, perSecond, age).update();
    }

    @Test
    void buckets_are_listed_by_key_page_by_page() {
        for (String key : List.of("c", "a", "b[7]", "d")) {
            bucket(key, 1, 1, "0");
        }
        assertThat(reports.list(null, 3)).extracting(Bucket::key).containsExactly("a", "b[7]", "c");
        assertThat(reports.list("c", 3)).extracting(Bucket::key).containsExactly("d");
        assertThat(reports.list("d", 3)).isEmpty();
    }

    @Test
    void available_tokens_are_those_of_now() {
        // Refilled hardly at all, so that the time of the query does not matter.
        bucket("fresh", 4, 1e-9, "0");
        bucket("overdrawn", 40, 1e-9, "0");
        bucket("refilled", 10, 1, "1 hour");
        bucket("half", 10, 0.0001, "50000 seconds");
        assertThat(reports.list(null, 10))
                .extracting(Bucket::key)
                .containsExactly("fresh", "half", "overdrawn", "refilled");
        List<Double> available =
                reports.list(null, 10).stream().map(Bucket::available).toList();
        Offset<Double> close = Offset.offset(0.1);
        assertThat(available.get(0)).isEqualTo(6, close);
        assertThat(available.get(1)).isEqualTo(5, close);
        assertThat(available.get(2)).isEqualTo(0, close);
        assertThat(available.get(3)).isEqualTo(10, close);
        assertThat(reports.list(null, 1).get(0).capacity()).isEqualTo(10);
    }
}
