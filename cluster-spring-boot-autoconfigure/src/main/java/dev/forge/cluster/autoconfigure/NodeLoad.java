// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.internal.node.NodeStore.Load;
import java.util.function.Supplier;

/** Measures the load of this process for its heartbeat. */
final class NodeLoad implements Supplier<Load> {

    private final ClusterDatabase database;
    private final ProcessCpu cpu = new ProcessCpu();

    NodeLoad(ClusterDatabase database) {
        this.database = database;
    }

    @Override
    public Load get() {
        return new Load(connections(), 0, cpu.load(), memory());
    }

    /** Returns the open connections of the application's pool; 0 if it is not HikariCP. */
    private int connections() {
        return ClusterDatabase.HIKARI ? HikariConnections.open(database) : 0;
    }

    private static double memory() {
        Runtime runtime = Runtime.getRuntime();
        return (double) (runtime.totalMemory() - runtime.freeMemory()) / runtime.maxMemory();
    }

    /** A class of its own, because HikariCP may be absent. */
    private static final class HikariConnections {
        static int open(ClusterDatabase database) {
            HikariDataSource hikari = ClusterDatabase.hikari(database.application());
            return hikari == null || hikari.getHikariPoolMXBean() == null
                    ? 0
                    : hikari.getHikariPoolMXBean().getTotalConnections();
        }
    }
}
