// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.OperationAudited;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** A node with jobs, crons and workflows. The jobs named order are paused, those named free run. */
abstract class AuditFixture {

    static final Operator ALICE = new Operator("alice", "192.0.2.7", AuditSource.DASHBOARD);

    final TestDatabase database;
    final JdbcClient jdbc;
    final TestCluster cluster;
    final TestWorkflows flows;
    TestWorkflows.Member one;
    Jobs jobs;
    JobOperations operations;
    AuditTrail trail;

    AuditFixture(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
    }

    @BeforeEach
    void start() {
        flows.work = work -> work.on("order", context -> {}).on("free", this::handle);
        flows.on("checkout", wf -> wf.awaitSignal("go", String.class));
        one = flows.start("one");
        jobs = one.member().jobs();
        operations = one.member().operations();
        trail = new DefaultAuditTrail(
                one.member().node().resources().audit(), new AuditStore(cluster.schema, database.dataSource()));
        jobs.pause("order");
    }

    /** Called by jobs named free. */
    void handle(JobContext context) {}

    @AfterEach
    void stop() {
        cluster.close();
    }

    UUID order() {
        return jobs.enqueueNamed("order", null).id();
    }

    UUID order(JobOptions options) {
        return jobs.enqueueNamed("order", null, options).id();
    }

    /** Ends a job as a worker would have. */
    UUID failed(UUID job) {
        jdbc.sql("UPDATE forge_jobs SET status = 'failed', finished_at = now() WHERE id = ?")
                .param(job)
                .update();
        return job;
    }

    TransactionTemplate transaction(int isolation) {
        var template = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        template.setIsolationLevel(isolation);
        return template;
    }

    List<AuditEntry> entries() {
        return trail.list(AuditFilter.all(), 1_000).items();
    }

    /** Returns the entries, the newest first, as action, target and count. */
    List<String> texts() {
        return entries().stream()
                .map(entry -> "%s %s %d".formatted(entry.action(), entry.target(), entry.count()))
                .toList();
    }

    List<OperationAudited> events() {
        return one.member().events().stream()
                .filter(OperationAudited.class::isInstance)
                .map(OperationAudited.class::cast)
                .toList();
    }
}
