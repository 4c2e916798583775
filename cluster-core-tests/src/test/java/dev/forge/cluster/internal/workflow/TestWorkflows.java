// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;

/** Creates nodes with workflows, wired as the auto-configuration does. */
public final class TestWorkflows {

    private final TestCluster cluster;
    private final List<WorkflowHandler> handlers = new ArrayList<>();
    public int attempts = 3;
    Duration completed = Duration.ofDays(1);
    public DataSource source;
    public WorkflowSettings.Limits limits = WorkflowSettings.Limits.DEFAULTS;
    public Consumer<TestJobs> work = jobs -> {};

    public TestWorkflows(TestCluster cluster) {
        this.cluster = cluster;
        this.source = cluster.source;
    }

    public interface Code {
        Object run(WorkflowContext wf) throws Throwable;
    }

    public interface CodeWithInput {
        Object run(WorkflowContext wf, Object input) throws Throwable;
    }

    public TestWorkflows on(String name, String version, Code code) {
        return add(name, version, false, null, (wf, input) -> code.run(wf));
    }

    public TestWorkflows on(String name, Code code) {
        return on(name, "1", code);
    }

    public TestWorkflows on(String name, Type input, CodeWithInput code) {
        return add(name, "1", false, input, code);
    }

    TestWorkflows deprecated(String name, String version, Code code) {
        return add(name, version, true, null, (wf, input) -> code.run(wf));
    }

    private TestWorkflows add(String name, String version, boolean deprecated, Type input, CodeWithInput code) {
        handlers.add(new WorkflowHandler(
                new WorkflowVersion(name, version), deprecated, input, code::run, "test " + name + " " + version));
        return this;
    }

    /** A node that executes workflows. */
    public record Member(
            TestCluster.Member member,
            WorkflowEngine engine,
            DefaultWorkflows workflows,
            DefaultWorkflowOperations operations) {

        /** Waits until the run has that status, and returns it. */
        public WorkflowInfo await(UUID run, WorkflowStatus status) {
            dev.forge.cluster.internal.PatientAwaits.await()
                    .alias("run " + run + " " + status)
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> workflows.find(run).orElseThrow().status() == status);
            return workflows.find(run).orElseThrow();
        }

        /** Waits until the run has ended, and returns it. */
        public WorkflowInfo ended(UUID run) {
            dev.forge.cluster.internal.PatientAwaits.await()
                    .alias("end of run " + run)
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> workflows.find(run).orElseThrow().status().isFinal());
            return workflows.find(run).orElseThrow();
        }
    }

    public Member start(String name) {
        return start(name, UnaryOperator.identity());
    }

    public Member start(String name, UnaryOperator<NodeSettings> change) {
        var jobs = new TestJobs(source);
        work.accept(jobs);
        TestCluster.Member member = cluster.create(name, jobs, change);
        var tools = new JobEngine.Dependencies(
                source, new TestJobs.Json(), jobs.monitor, () -> jobs.interceptors, null, jobs.maxPayload);
        var engine = new WorkflowEngine(
                member.node(),
                member.engine(),
                jobs.handlers(),
                new WorkflowEngine.Resources(tools, member.control().shared(), new JdbcTransactionManager(source)),
                new WorkflowSettings(
                        attempts,
                        TestJobs.AT_ONCE,
                        0,
                        new WorkflowSettings.Retention(completed, completed),
                        new WorkflowSettings.StrandedCheck(Duration.ofMillis(200), false),
                        limits));
        member.node().components().register(engine);
        handlers.forEach(engine::add);
        cluster.members().add(member);
        member.node().start();
        return new Member(
                member, engine, new DefaultWorkflows(member.node(), engine), new DefaultWorkflowOperations(engine));
    }
}
