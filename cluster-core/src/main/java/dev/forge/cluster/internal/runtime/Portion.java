// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

/**
 * How much is tried at once: half as much after a failure, down to one, and twice as much after a success, up to the most. Work that
 * takes longer than a statement may would otherwise be repeated and fail for ever.
 */
public final class Portion {

    private final int most;
    private volatile int size;

    public Portion(int most) {
        this.most = most;
        this.size = most;
    }

    public int size() {
        return size;
    }

    public void succeeded() {
        size = (int) Math.min(most, 2L * size);
    }

    /**
     * Tries less next time.
     *
     * @param tried how much was tried, which may have been less than was possible
     */
    public void failed(int tried) {
        size = Math.max(1, Math.min(tried, size) / 2);
    }
}
