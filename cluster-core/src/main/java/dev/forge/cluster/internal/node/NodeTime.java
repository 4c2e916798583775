// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import java.time.InstantSource;

/** The times that components of a node measure by. A test may stop and move them. */
public interface NodeTime {

    /** Returns the monotonic time of this process, plus what a test that steps this node has moved it by. */
    long nanos();

    /** Returns a monotonic time whose differences are those of the database's time, which a test may stop and move. */
    long databaseNanos();

    /** Returns the clock of this machine, for times that only this node sees. */
    InstantSource clock();

    /** Returns whether a test drives this node: no loop runs by itself. */
    boolean isStepped();

    /** Returns whether a test has moved the time: what is late then is what the test asked for. */
    boolean isTimeMoved();
}
