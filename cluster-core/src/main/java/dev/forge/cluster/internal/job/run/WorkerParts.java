// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.observe.JobInterceptor;
import java.util.List;
import java.util.function.Supplier;

/** What a worker depends on. */
public record WorkerParts(
        WorkerSettings settings,
        JobHandlers handlers,
        JobStores stores,
        PayloadJson json,
        JobMonitor monitor,
        Supplier<List<JobInterceptor>> interceptors) {}
