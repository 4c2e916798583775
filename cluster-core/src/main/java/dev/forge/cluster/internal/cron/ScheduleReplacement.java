// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.internal.cron.CronSlotBatch.Rules;
import dev.forge.cluster.internal.cron.CronSlotStore.CronAdvance;
import dev.forge.cluster.internal.cron.CronSlotStore.DecidedSlot;
import dev.forge.cluster.internal.cron.CronSlotStore.HandlerAvailability;
import dev.forge.cluster.internal.cron.CronStore.CronRow;
import dev.forge.cluster.internal.database.Schema;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Decides the slots that are due when a cron gets another schedule. They belong to the old schedule, which decides them as
 * the leader would have done a moment later. Slots that cannot be decided now are recorded as missed: no live node has their
 * handler, or they wait for the previous run.
 */
final class ScheduleReplacement {

    private final Schema schema;
    private final DataSource source;
    private final CronSlotStore store;
    private final Rules rules;

    ScheduleReplacement(Schema schema, DataSource source, Rules rules) {
        this.schema = schema;
        this.source = source;
        this.store = new CronSlotStore(schema, source);
        this.rules = rules;
    }

    /**
     * Decides the slots of the old schedule up to {@code now}, in the current transaction.
     *
     * @param old the row, locked and still with the old schedule
     * @param term the term of the leader; null if this node decides without being the leader
     * @return the decisions to be reported after the commit
     */
    List<DecidedSlot> decideDueSlots(CronRow old, Instant now, @Nullable Long term) {
        Instant next = old.next();
        if (next == null || next.isAfter(now)) {
            return List.of();
        }
        CronSchedule schedule;
        try {
            schedule = rules.schedules().of(old.definition());
        } catch (IllegalArgumentException e) {
            // An expression that cannot be parsed has no slots.
            return List.of();
        }
        String name = old.definition().name();
        Map<String, HandlerAvailability> handlers = store.availableHandlers();
        var decided = new ArrayList<DecidedSlot>();
        while (next != null && !next.isAfter(now)) {
            var batch = new CronSlotBatch(schema, source, rules, handlers, term);
            // Not as of the time of the transaction, which may have begun before the slot was due.
            batch.decide(store.lock(name).map(cron -> cron.at(now)).stream().toList());
            decided.addAll(batch.decided());
            Optional<CronAdvance> advance = batch.advanceOf(name);
            if (advance.isEmpty() || next.equals(advance.get().next())) {
                recordMissed(old, schedule, next, now, term);
                return decided;
            }
            next = advance.get().next();
        }
        return decided;
    }

    private void recordMissed(CronRow old, CronSchedule schedule, Instant from, Instant now, @Nullable Long term) {
        var missed = new ArrayList<DecidedSlot>();
        Instant purged = now.minus(rules.settings().retention());
        Instant slot = from.isBefore(purged) ? schedule.next(purged) : from;
        while (slot != null && !slot.isAfter(now)) {
            missed.add(new DecidedSlot(
                    old.definition().name(), slot, Outcome.MISSED, "schedule changed", null, null, 0, null));
            slot = schedule.next(slot);
            if (missed.size() == CronSlotBatch.MAX_SLOTS || slot == null || slot.isAfter(now)) {
                store.record(missed, term);
                missed.clear();
            }
        }
    }
}
