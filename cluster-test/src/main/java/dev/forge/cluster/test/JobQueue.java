package dev.forge.cluster.test;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobStore;
import dev.forge.cluster.internal.job.JobStore.ClaimKey;
import dev.forge.cluster.internal.job.JobStore.Claimed;
import dev.forge.cluster.internal.job.JobStore.Claiming;
import dev.forge.cluster.internal.job.JobStore.Finish;
import dev.forge.cluster.internal.job.JobStore.Head;
import dev.forge.cluster.internal.job.JobStore.NewJob;
import dev.forge.cluster.internal.job.JobStore.Reading;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The queue without a worker around it: for tests that want to say who claims what, and when it ends. */
public final class JobQueue {

    private static final Duration LEASE = Duration.ofMinutes(10);
    private static final int NORMAL = 50;

    private final JdbcClient jdbc;
    private final JobStore jobs;

    /** A claim of a job. */
    public record Claim(UUID worker, UUID id, String name, String payload, int attempt, long epoch) {}

    /** The jobs in that database; its schema is installed if need be. */
    public JobQueue(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.jobs = new JobStore(
                Schema.open(database.dataSource(), SchemaMode.MIGRATE, Schema.currentSchemaOf(database.dataSource())),
                database.dataSource());
    }

    /** Adds a job with that JSON as its payload. */
    public UUID enqueue(String name, String payload) {
        var job = new NewJob(UUID.randomUUID(), name, payload, NORMAL, null, 0, null, null, "{}");
        jobs.insert(job);
        return job.id();
    }

    /** Claims up to that many due jobs of any name, the most urgent first, for a worker that offers these capabilities. */
    public List<Claim> claim(UUID worker, Collection<String> capabilities, int limit) {
        Members.join(jdbc, worker);
        List<String> names = jdbc.sql("SELECT DISTINCT name FROM forge_jobs WHERE status = 'pending'")
                .query((row, n) -> row.getString(1))
                .list();
        var offered = new ArrayList<>(capabilities);
        offered.add("");
        var claims = new ArrayList<Claim>();
        for (Head head : jobs.queues(names, offered).due()) {
            int left = limit - claims.size();
            if (left > 0) {
                for (Claimed claimed :
                        jobs.claim(head.queue(), JobStore.UNMARKED, new Claiming(worker, left, left, 10, LEASE))) {
                    claims.add(new Claim(
                            worker,
                            claimed.id(),
                            claimed.name(),
                            payload(worker, claimed),
                            claimed.attempt(),
                            claimed.epoch()));
                }
            }
        }
        return claims;
    }

    /** A claim leaves out what is large. */
    private String payload(UUID worker, Claimed claimed) {
        return !claimed.read() && jobs.read(worker, claimed, Long.MAX_VALUE) instanceof Reading.Read read
                ? read.job().payload()
                : claimed.payload();
    }

    /** Completes the job, if the claim still holds. */
    public boolean complete(Claim claim) {
        var finish = new Finish(
                new ClaimKey(claim.id, claim.epoch),
                JobStatus.COMPLETED,
                null,
                null,
                0,
                0,
                null,
                null,
                null,
                0L,
                false);
        return jobs.finish(claim.worker, List.of(finish)).isEmpty();
    }
}
