// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

/**
 * The order in which a node starts, drains and stops its components. A component comes after those it uses. The rows of a dead node
 * are released in the same order, so that all nodes lock them in the same order.
 */
public final class ComponentOrder {

    /** Decides the number of slots before other components use it. */
    public static final int SLOTS = 0;

    public static final int LOCKS = 10;
    public static final int JOBS = 20;
    /** After the jobs: it writes what they have counted until their end. */
    public static final int HISTORY = 25;

    public static final int CRONS = 30;
    public static final int DAEMONS = 40;
    public static final int WORKFLOWS = 50;
    /** Components that only delete old rows. */
    public static final int CLEAN_UP = 60;

    private ComponentOrder() {}
}
