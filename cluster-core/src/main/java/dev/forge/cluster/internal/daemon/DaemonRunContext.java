// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.FencedLeadership;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.function.Supplier;

/** The context that the method of a daemon receives. */
final class DaemonRunContext implements DaemonContext {

    private final DaemonRun run;
    private final Elector elector;
    private final String nodeName;
    private final FencedLeadership leadership;

    DaemonRunContext(DaemonRun run, Elector elector, String nodeName, FencedLeadership leadership) {
        this.run = run;
        this.elector = elector;
        this.nodeName = nodeName;
        this.leadership = leadership;
    }

    @Override
    public String name() {
        return run.name();
    }

    @Override
    public int instance() {
        return run.instance();
    }

    @Override
    public String nodeName() {
        return nodeName;
    }

    @Override
    public long term() {
        return run.term();
    }

    @Override
    public OptionalLong fencingToken() {
        return run.isElected() ? elector.fencingToken(run.key(), run.term()) : OptionalLong.empty();
    }

    @Override
    public boolean stopRequested() {
        return run.stopRequested();
    }

    @Override
    public boolean awaitStop(Duration patience) throws InterruptedException {
        return run.awaitStop(patience);
    }

    @Override
    public <T> T fenced(Supplier<T> work) {
        if (!run.isElected()) {
            throw new IllegalStateException(
                    "Daemon %s has scope NODE and runs on every node: it has no term to fence its writes with"
                            .formatted(name()));
        }
        return leadership.fenced(run.key(), run.tenure().node(), run.term(), work);
    }

    @Override
    public void note(String text) {
        run.note(text);
    }
}
