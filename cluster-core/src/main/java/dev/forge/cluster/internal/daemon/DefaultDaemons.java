// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.audit.AuditedChanges;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.node.Member;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import java.util.List;
import java.util.Optional;

/** {@link Daemons} on the tables of the schema. */
public final class DefaultDaemons implements Daemons {

    private final Member member;
    private final DaemonEngine engine;
    private final DaemonStore store;
    private final AuditedChanges audited;

    public DefaultDaemons(Node node, DaemonEngine engine, DaemonStore store) {
        this.member = node;
        this.engine = engine;
        this.store = store;
        this.audited = node.resources().audit().on(store.source());
    }

    @Override
    public List<DaemonInfo> list() {
        return store.reports().list(null);
    }

    @Override
    public Optional<DaemonInfo> find(String name) {
        Arguments.required("Daemons.find", "name", name);
        Names.requirePrintable("daemon", name);
        return store.reports().list(name).stream().findFirst();
    }

    @Override
    public boolean pause(String name) {
        Arguments.required("Daemons.pause", "name", name);
        Names.requirePrintable("daemon", name);
        member.requireMayMutate();
        boolean paused = audited.record(new Operation("daemon.pause", name), () -> store.pause(name));
        if (paused) {
            engine.announce();
        }
        return paused;
    }

    @Override
    public boolean resume(String name) {
        Arguments.required("Daemons.resume", "name", name);
        Names.requirePrintable("daemon", name);
        member.requireMayMutate();
        boolean resumed = audited.record(new Operation("daemon.resume", name), () -> store.resume(name));
        engine.announce();
        return resumed;
    }
}
