// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.LeaderCapabilities;
import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.leader.Leadership;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Function;

/** Decides which jobs the lanes of a node take. */
public final class LaneSelections {

    private final Node node;
    private final WorkerSettings settings;
    private final JobHandlers handlers;

    public LaneSelections(Node node, WorkerSettings settings, JobHandlers handlers) {
        this.node = node;
        this.settings = settings;
        this.handlers = handlers;
    }

    /**
     * Returns the lanes of a worker: one for each executor.
     *
     * @param laneOf returns the lane for jobs of a name
     * @param mayClaim false closes the lanes for the time being
     */
    public List<Lane.Selection> ofWorker(Function<String, String> laneOf, BooleanSupplier mayClaim) {
        var capabilities = new ArrayList<>(node.settings().presence().capabilities());
        capabilities.add("");
        return settings.lanes().stream()
                .map(lane -> new Lane.Selection(
                        lane,
                        () -> handlers.names().stream()
                                .filter(name -> laneOf.apply(name).equals(lane.name()))
                                .toList(),
                        List.copyOf(capabilities),
                        mayClaim))
                .toList();
    }

    /** Returns the lanes of a node that may lead, worker or not: they run crons. */
    public List<Lane.Selection> ofLeader() {
        return List.of(
                // Not while a predecessor may still run them: effects of a run other than fenced writes are not fenced.
                leaderLane(LeaderCapabilities.LEADER, () -> node.elector().isUndisputed(Leadership.SCHEDULER)),
                leaderLane(LeaderCapabilities.SCHEDULER, () -> true));
    }

    private Lane.Selection leaderLane(String capability, BooleanSupplier mayClaim) {
        return new Lane.Selection(
                new WorkerSettings.LaneSettings("cron" + capability, settings.cronSlots(), 0, false),
                () -> handlers.ofLeader().keySet(),
                List.of(capability),
                mayClaim);
    }
}
