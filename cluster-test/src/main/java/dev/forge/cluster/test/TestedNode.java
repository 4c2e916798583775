// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.workflow.Workflows;
import javax.sql.DataSource;

/**
 * What a {@link ClusterTester} drives; the auto-configuration of tests creates it.
 *
 * @param application the data source of the application
 */
public record TestedNode(
        Node node,
        JobEngine engine,
        InspectableJobs jobs,
        JobOperations operations,
        WorkflowEngine workflowEngine,
        Workflows workflows,
        Crons crons,
        CronEngine cronEngine,
        DataSource application) {}
