// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/** What a call does that changes the cluster's tables while only a transaction of another DataSource is active. */
public enum ForeignTransactions {
    /** Changes the tables at once, and logs a warning the first time at each place in the application. */
    WARN,
    /** Throws {@link ForeignTransactionException}. */
    REFUSE,
    /** Changes the tables at once. */
    ALLOW
}
