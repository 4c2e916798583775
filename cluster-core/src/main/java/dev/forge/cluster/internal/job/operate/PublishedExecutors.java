// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;

/**
 * What a worker publishes in its row about its executors: other nodes know neither its settings nor its routing rules.
 *
 * @param slots the slots of each executor
 * @param routes the names of jobs that the worker has handlers for
 */
public record PublishedExecutors(Map<String, Integer> slots, Map<String, Route> routes) {

    private static final String SEPARATOR = "\t";
    private static final Pattern NUMBER = Pattern.compile("[0-9]{1,6}");

    /**
     * Where jobs of a name run.
     *
     * @param handler the name of the handler, of which the name of the jobs may be an alias
     * @param callSize the largest number of jobs that a slot runs at once
     * @param capability the capability that the handler declares; {@code ""}: none
     */
    record Route(String handler, String executor, int callSize, String capability) {}

    /** Returns the texts for the row of a worker. */
    public static List<String> texts(
            List<LaneSettings> lanes, JobHandlers handlers, Function<String, String> executorOf) {
        var texts = new ArrayList<String>();
        lanes.forEach(lane ->
                texts.add(lane.name() + SEPARATOR + Math.max(0, lane.slots().getAsInt())));
        for (String name : handlers.names()) {
            JobHandler handler = handlers.named(name);
            if (handler != null) {
                String capability = handler.capability();
                texts.add(String.join(
                        SEPARATOR,
                        name,
                        handler.name(),
                        executorOf.apply(name),
                        Integer.toString(handler.target().callSize()),
                        capability == null ? "" : capability));
            }
        }
        return texts;
    }

    /** Parses the texts of a row. Ignores texts that were edited by hand and cannot be read. */
    static PublishedExecutors parse(Collection<String> texts) {
        var slots = new HashMap<String, Integer>();
        var routes = new HashMap<String, Route>();
        for (String text : texts) {
            String[] parts = text.split(SEPARATOR, -1);
            if (parts.length == 2 && NUMBER.matcher(parts[1]).matches()) {
                slots.put(parts[0], Integer.parseInt(parts[1]));
            } else if (parts.length == 5 && NUMBER.matcher(parts[3]).matches()) {
                int callSize = Math.max(1, Integer.parseInt(parts[3]));
                routes.put(parts[0], new Route(parts[1], parts[2], callSize, parts[4]));
            }
        }
        return new PublishedExecutors(slots, routes);
    }
}
