// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.job.ClusterJob;
import java.util.List;
import java.util.Map;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** Handlers with results and failures of several kinds. */
@Component
class Results {

    private final JdbcClient jdbc;

    Results(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    record Compute(String kind) {}

    record FailAtCommit(String name) {}

    record InBulk(String name) {}

    @ClusterJob(name = "compute")
    Object compute(Compute compute) {
        return switch (compute.kind) {
            case "decimal" -> 1.9;
            case "text" -> "42";
            case "number" -> 42;
            case "list" -> List.of("a", "b");
            case "map" -> Map.of("a", 1, "b", List.of(2L, 3));
            default -> new Compute(compute.kind);
        };
    }

    @ClusterJob(name = "fail-at-commit", maxAttempts = 3)
    @Transactional
    void failAtCommit(FailAtCommit job) {
        jdbc.sql("CREATE TEMP TABLE once (name text UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP")
                .update();
        jdbc.sql("INSERT INTO once VALUES (:name), (:name)")
                .param("name", job.name)
                .update();
    }

    @ClusterJob(name = "in-bulk", batchSize = 10, maxAttempts = 2)
    void inBulk(List<InBulk> jobs) {
        throw new IllegalArgumentException("none of " + jobs.size());
    }
}
