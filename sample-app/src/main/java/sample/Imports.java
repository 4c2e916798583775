// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.NonRetryableJobException;
import java.net.URI;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

/** Imports files: a batch of jobs with one job per line, one group per customer, and a callback when all lines are done. */
@RestController
@RequestMapping("/imports")
class Imports {

    private final JdbcClient jdbc;
    private final Jobs jobs;

    Imports(JdbcClient jdbc, Jobs jobs) {
        this.jdbc = jdbc;
        this.jobs = jobs;
    }

    /** @param customers the customer of each line; {@code ?} if nobody knows: such a line cannot be imported */
    record NewImport(String file, List<String> customers) {}

    @JobName("import-line")
    record ImportLine(UUID importId, int number, String customer) {}

    @JobName("import-ended")
    record ImportEnded(UUID importId) {}

    record Accepted(UUID importId) {}

    record Progress(String file, String status, long lines, long imported, long failed, boolean ended) {}

    /** Stores the import and enqueues all of its jobs in one transaction. */
    @PostMapping
    @Transactional
    ResponseEntity<Accepted> create(@RequestBody NewImport file) {
        Input.requireText("file", file.file());
        Input.require(file.customers() != null && !file.customers().isEmpty(), "customers is empty");
        file.customers().forEach(customer -> Input.requireText("a customer", customer));
        UUID id = UUID.randomUUID();
        JobBatch batch =
                jobs.batch(JobBatchOptions.named("import of " + file.file()).withOnEnd(new ImportEnded(id)));
        jdbc.sql("INSERT INTO imports (id, file, batch_id) VALUES (?, ?, ?)")
                .params(id, file.file(), batch.id())
                .update();
        List<ImportLine> lines = IntStream.range(0, file.customers().size())
                .mapToObj(number -> new ImportLine(id, number, file.customers().get(number)))
                .toList();
        jobs.enqueueAll(lines, JobOptions.defaults().withBatch(batch.id()));
        batch.close();
        return ResponseEntity.accepted().location(URI.create("/imports/" + id)).body(new Accepted(id));
    }

    /** One customer's lines are imported one at a time; customers take turns, however many lines they have. */
    @ClusterJob(name = "import-line", group = "#payload.customer", groupConcurrency = 1)
    @Transactional
    public void importLine(ImportLine line, JobContext job) {
        if (line.customer().equals("?")) {
            throw new NonRetryableJobException("line %d has an unknown customer".formatted(line.number()));
        }
        jdbc.sql("INSERT INTO imported_lines (import_id, number, customer, node) VALUES (?, ?, ?, ?)")
                .params(line.importId(), line.number(), line.customer(), job.nodeName())
                .update();
    }

    @ClusterJob(name = "import-ended")
    @Transactional
    public void ended(ImportEnded ended) {
        jdbc.sql("UPDATE imports SET ended_at = now() WHERE id = ?")
                .param(ended.importId())
                .update();
    }

    @GetMapping("/{id}")
    ResponseEntity<Progress> progress(@PathVariable UUID id) {
        record Row(String file, UUID batchId, boolean ended) {}
        return ResponseEntity.of(jdbc.sql(
                        "SELECT file, batch_id, ended_at IS NOT NULL AS ended FROM imports WHERE id = ?")
                .param(id)
                .query(Row.class)
                .optional()
                .flatMap(row -> jobs.batch(row.batchId())
                        .info()
                        .map(batch -> new Progress(
                                row.file(),
                                batch.status().name(),
                                batch.total(),
                                batch.completed(),
                                batch.failed(),
                                row.ended()))));
    }
}
