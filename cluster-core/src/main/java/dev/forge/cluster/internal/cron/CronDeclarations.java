// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** Registry of the crons that this application declares. Complete before the node starts. */
public final class CronDeclarations {

    private final JobHandlers handlers;
    private final Map<String, Definition> crons = new TreeMap<>();

    /** @param handlers registry that receives the handlers of the crons, because runs are jobs */
    public CronDeclarations(JobHandlers handlers) {
        this.handlers = handlers;
    }

    /** Adds a cron and its handler, which has the name of the cron. */
    public void add(JobHandler handler, Definition cron) {
        handlers.addForLeader(handler, "is a cron; Crons.trigger runs it now");
        crons.put(cron.name(), cron);
    }

    /** Returns all declared crons, by name. */
    public Map<String, Definition> all() {
        return Collections.unmodifiableMap(crons);
    }

    /** Returns the declared cron of that name; null if there is none. */
    public @Nullable Definition find(String name) {
        return crons.get(name);
    }

    /** Returns the handlers of all jobs, those of crons included. */
    public JobHandlers handlers() {
        return handlers;
    }
}
