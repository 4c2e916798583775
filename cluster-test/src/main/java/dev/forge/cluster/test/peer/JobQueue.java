// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.peer;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.HeldJobStore.Reading;
import dev.forge.cluster.internal.job.row.JobClaimStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobQueueStore;
import dev.forge.cluster.internal.job.row.JobQueueStore.Head;
import dev.forge.cluster.internal.job.row.Mark;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;

/** A job queue without a worker, for tests that decide which node claims a job and when the job ends. */
public final class JobQueue {

    private static final Duration LEASE = Duration.ofMinutes(10);
    private static final int NORMAL = 50;

    private final JdbcClient jdbc;
    private final JobInsertStore jobs;
    private final JobQueueStore queues;
    private final JobClaimStore claims;
    private final HeldJobStore held;
    private final JobFinishStore finishes;

    /** A claimed job. */
    public record Claim(UUID worker, UUID id, String name, String payload, int attempt, long epoch) {}

    /** Opens the queue of that database; installs the schema if it is missing. */
    public JobQueue(TestDatabase database) {
        this.jdbc = database.jdbc();
        Schema schema =
                Schema.open(database.dataSource(), SchemaMode.MIGRATE, Schema.currentSchemaOf(database.dataSource()));
        this.jobs = new JobInsertStore(schema, database.dataSource());
        this.queues = new JobQueueStore(schema, database.dataSource());
        this.claims = new JobClaimStore(schema, database.dataSource());
        this.held = new HeldJobStore(schema, database.dataSource());
        this.finishes = new JobFinishStore(schema, database.dataSource());
    }

    /** Enqueues a job with a JSON payload. */
    public UUID enqueue(String name, String payload) {
        var job = new NewJob(UUID.randomUUID(), name, payload, NORMAL, null, 0, null, null, "{}", null, List.of());
        jobs.insert(job);
        return job.id();
    }

    /** Claims up to that many due jobs of any name, the most urgent first, for a worker that offers these capabilities. */
    public List<Claim> claim(UUID worker, Collection<String> capabilities, int limit) {
        NodeRows.insert(jdbc, worker);
        List<String> names = jdbc.sql("SELECT DISTINCT name FROM forge_jobs WHERE status = 'pending'")
                .query((row, n) -> row.getString(1))
                .list();
        var offered = new ArrayList<>(capabilities);
        offered.add("");
        var claimedJobs = new ArrayList<Claim>();
        for (Head head : queues.queues(names, offered).due()) {
            int left = limit - claimedJobs.size();
            if (left > 0) {
                for (Claimed claimed :
                        claims.claim(head.queue(), Mark.UNMARKED, new Claiming(worker, left, left, 10, LEASE))) {
                    claimedJobs.add(new Claim(
                            worker,
                            claimed.id(),
                            claimed.name(),
                            payload(worker, claimed),
                            claimed.attempt(),
                            claimed.epoch()));
                }
            }
        }
        return claimedJobs;
    }

    /** Loads a payload that was too large for the claim statement. */
    private String payload(UUID worker, Claimed claimed) {
        return !claimed.read() && held.read(worker, claimed, Long.MAX_VALUE) instanceof Reading.Read read
                ? read.job().payload()
                : claimed.payload();
    }

    /** Completes the job if the claim is still valid; returns whether it was. */
    public boolean complete(Claim claim) {
        var finish = Finish.completed(new ClaimKey(claim.id, claim.epoch), null, 0L);
        return finishes.finish(claim.worker, List.of(finish)).isEmpty();
    }
}
