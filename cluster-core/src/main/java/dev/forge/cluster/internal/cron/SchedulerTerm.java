// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.internal.leader.BlockedFences;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.leader.Leadership;
import java.util.UUID;
import org.slf4j.Logger;

/** A term in which this node leads the scheduler role. Changes are committed only while the term lasts. */
final class SchedulerTerm {

    private static final Logger log = GuardedLogger.of(SchedulerTerm.class);

    private final BlockedFences fences;
    private final CronStore store;
    private final LeaderStore leaders;
    private final UUID holder;
    private final long number;

    SchedulerTerm(BlockedFences fences, CronStore store, LeaderStore leaders, UUID holder, long number) {
        this.fences = fences;
        this.store = store;
        this.leaders = leaders;
        this.holder = holder;
        this.number = number;
    }

    long number() {
        return number;
    }

    /** Runs changes in one transaction that ends with the fence of the term; returns false if the term is over. */
    boolean commit(Runnable changes) {
        return Boolean.TRUE.equals(store.transaction().execute(status -> {
            changes.run();
            boolean leads = fences.take(leaders, Leadership.SCHEDULER, holder, number);
            if (!leads) {
                status.setRollbackOnly();
                log.info("Crons: term {} is over, changes rolled back. The next leader fires the crons.", number);
            }
            return leads;
        }));
    }
}
