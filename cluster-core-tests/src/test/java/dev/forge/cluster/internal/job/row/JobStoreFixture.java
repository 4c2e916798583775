// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.operate.JobCountReports;
import dev.forge.cluster.internal.job.operate.JobDemandReports;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.operate.JobSearchReports;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.CrashRule;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.Overdue;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Fixture with rows, claims and ends of jobs for tests of the stores. */
@ClusterPostgres
public abstract class JobStoreFixture {

    static final Duration LEASE = Duration.ofSeconds(60);
    static final Duration START_TIMEOUT = Duration.ofMinutes(5);

    protected static Overdue overdue(boolean grace) {
        return new Overdue(START_TIMEOUT, grace, null, 1_000);
    }

    static final CrashRule REQUEUE = new CrashRule(false, 10, 3);
    static final Queue QUEUE = Queue.ungrouped("job", "", 50);
    protected final TestDatabase database;
    protected final JdbcClient jdbc;
    protected final JobInsertStore jobs;
    protected final UniqueJobStore unique;
    protected final JobCancelStore cancels;
    protected final JobRestartStore restarts;
    protected final JobReleaseStore successors;
    protected final JobQueueStore queues;
    protected final JobClaimStore claims;
    protected final HeldJobStore held;
    protected final JobFinishStore finishes;
    protected final HandlerTransactionStore transactional;
    protected final JobRecoveryStore recoveries;
    protected final JobReports reports;
    protected final JobCountReports counts;
    protected final JobSearchReports search;
    protected final JobDemandReports demand;
    protected final JobPurgeStore keeping;
    protected final JobNameStore names;
    protected final UUID one = UUID.randomUUID();
    protected final UUID two = UUID.randomUUID();

    public JobStoreFixture(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.jobs = new JobInsertStore(schema, database.dataSource());
        this.unique = new UniqueJobStore(schema, database.dataSource());
        this.cancels = new JobCancelStore(schema, database.dataSource());
        this.restarts = new JobRestartStore(schema, database.dataSource());
        this.successors = new JobReleaseStore(schema, database.dataSource());
        this.queues = new JobQueueStore(schema, database.dataSource());
        this.claims = new JobClaimStore(schema, database.dataSource());
        this.held = new HeldJobStore(schema, database.dataSource());
        this.finishes = new JobFinishStore(schema, database.dataSource());
        this.transactional = new HandlerTransactionStore(schema, database.dataSource());
        this.recoveries = new JobRecoveryStore(schema, database.dataSource());
        this.reports = new JobReports(schema, database.dataSource());
        this.counts = new JobCountReports(schema, database.dataSource());
        this.search = new JobSearchReports(schema, database.dataSource(), System::nanoTime);
        this.demand = new JobDemandReports(schema, database.dataSource());
        this.keeping = new JobPurgeStore(schema, database.dataSource());
        this.names = new JobNameStore(schema, database.dataSource());
    }

    @BeforeEach
    protected void empty() {
        jdbc.sql("CREATE SEQUENCE IF NOT EXISTS ids").update();
        database.clear();
        node(one, "active");
        node(two, "active");
    }

    protected void node(UUID id, String status) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                VALUES (:id, :key, 'n', 'h', '{worker}', :status, '1', now() + interval '1 hour', now() + interval '1 hour')
                """)
                .param("id", id)
                .param("key", id.toString())
                .param("status", status)
                .update();
    }

    protected static NewJob job(String name) {
        return new NewJob(UUID.randomUUID(), name, "{}", 50, null, 0, null, null, "{}", null, List.of());
    }

    protected static NewJob job(String name, String payload) {
        return new NewJob(UUID.randomUUID(), name, payload, 50, null, 0, null, null, "{}", null, List.of());
    }

    protected UUID insert() {
        NewJob job = job("job");
        jobs.insert(job);
        return job.id();
    }

    protected List<Claimed> claim(UUID node, int limit) {
        return claims.claim(QUEUE, Mark.UNMARKED, new Claiming(node, limit, limit, 10, LEASE));
    }

    protected Claimed claimOne(UUID node) {
        return claim(node, 1).get(0);
    }

    protected static ClaimKey key(Claimed claimed) {
        return new ClaimKey(claimed.id(), claimed.epoch());
    }

    protected static Finish completed(Claimed claimed, String result) {
        return Finish.completed(key(claimed), result, 5L);
    }

    protected static Finish again(Claimed claimed, long delayMillis) {
        return new Finish(key(claimed), JobStatus.PENDING, null, "oops", delayMillis, 0, null, null, null, 5L, false);
    }

    protected String status(UUID id) {
        return jdbc.sql("SELECT status FROM forge_jobs WHERE id = ?")
                .param(id)
                .query(String.class)
                .single();
    }

    <T> T column(UUID id, String column, Class<T> type) {
        return jdbc.sql("SELECT %s FROM forge_jobs WHERE id = ?".formatted(column))
                .param(id)
                .query(type)
                .single();
    }

    /** Returns how many rows and index entries of forge_jobs are read, including dead ones. */
    protected long reads(Runnable work) {
        return Objects.requireNonNull(transactions().execute(status -> {
            long before = readSoFar();
            work.run();
            return readSoFar() - before;
        }));
    }

    long readSoFar() {
        return jdbc.sql("""
                SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint FROM pg_class
                WHERE oid = 'forge_jobs'::regclass
                   OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'forge_jobs'::regclass)
                """).query(Long.class).single();
    }

    protected TransactionTemplate transactions() {
        return new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
    }

    /** Inserts jobs with ascending ids and the given columns and values; {@code n} counts the rows. */
    protected void rows(int count, String columns, String values) {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, %s)
                SELECT lpad(to_hex(nextval('ids')), 32, '0')::uuid, %s FROM generate_series(1, %d) AS n
                """.formatted(columns, values, count)).update();
    }

    protected static NewJob urgent(int priority, String capability, Instant at) {
        return new NewJob(UUID.randomUUID(), "job", "{}", priority, capability, 0, at, null, "{}", null, List.of());
    }

    protected void age(String column, String age) {
        jdbc.sql("UPDATE forge_jobs SET %1$s = %1$s - interval '%2$s'".formatted(column, age))
                .update();
    }

    protected NodeStore nodes() {
        return new NodeStore(Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }
}
