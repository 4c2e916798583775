// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.internal.cron.CronSchedule;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import org.assertj.core.api.AbstractAssert;
import org.assertj.core.api.Assertions;
import org.assertj.core.api.ListAssert;
import org.jspecify.annotations.Nullable;

/** Assertions about the slots of a cron, as its expression and its zone define them. */
public final class CronSlotsAssert extends AbstractAssert<CronSlotsAssert, CronInfo> {

    /** A cron fires at most once per second. */
    private static final int MOST_SLOTS = 1_000_000;

    private final CronSchedule schedule;

    CronSlotsAssert(CronInfo actual) {
        super(actual, CronSlotsAssert.class);
        this.schedule = CronSchedule.of(actual.expression(), actual.zone());
    }

    /** Asserts that there is a slot at each of these instants. */
    public CronSlotsAssert at(Instant... slots) {
        for (Instant slot : slots) {
            Instant next = schedule.next(slot.minusMillis(1));
            if (!slot.equals(next)) {
                failWithMessage("Expected a slot of %s at %s; the next one is at %s", described(), slot, next);
            }
        }
        return this;
    }

    /** Asserts that there is a slot at each of these local times of the cron's zone. */
    public CronSlotsAssert at(LocalDateTime... slots) {
        for (LocalDateTime slot : slots) {
            if (ZoneId.of(actual.zone()).getRules().getValidOffsets(slot).isEmpty()) {
                failWithMessage(
                        "%s has no slot at %s: the clock change skips that time in %s",
                        described(), slot, actual.zone());
            }
            at(slot.atZone(ZoneId.of(actual.zone())).toInstant());
        }
        return this;
    }

    /** Asserts that there is no slot at any of these instants. */
    public CronSlotsAssert notAt(Instant... slots) {
        for (Instant slot : slots) {
            if (slot.equals(schedule.next(slot.minusMillis(1)))) {
                failWithMessage("Expected no slot of %s at %s", described(), slot);
            }
        }
        return this;
    }

    /** Asserts the next slots after a time: these, in this order. */
    public CronSlotsAssert after(Instant time, Instant... slots) {
        var found = new ArrayList<@Nullable Instant>();
        Instant last = time;
        for (int i = 0; i < slots.length && last != null; i++) {
            last = schedule.next(last);
            found.add(last);
        }
        Assertions.assertThat(found)
                .as("the slots of %s after %s", described(), time)
                .isEqualTo(List.of(slots));
        return this;
    }

    /** Asserts how many slots a year has, in the zone of the cron. */
    public CronSlotsAssert timesIn(int year, int count) {
        ZoneId zone = ZoneId.of(actual.zone());
        int found = slots(
                        LocalDateTime.of(year, 1, 1, 0, 0).atZone(zone).toInstant(),
                        LocalDateTime.of(year + 1, 1, 1, 0, 0).atZone(zone).toInstant())
                .size();
        if (found != count) {
            failWithMessage("Expected %s slots of %s in %s, but found %s", count, described(), year, found);
        }
        return this;
    }

    /** Begins assertions about all slots from a time on and before another. */
    public ListAssert<Instant> between(Instant from, Instant before) {
        return Assertions.assertThat(slots(from, before)).as("the slots of %s", described());
    }

    private List<Instant> slots(Instant from, Instant before) {
        var slots = new ArrayList<Instant>();
        for (Instant slot = schedule.next(from.minusMillis(1));
                slot != null && slot.isBefore(before);
                slot = schedule.next(slot)) {
            slots.add(slot);
            if (slots.size() > MOST_SLOTS) {
                throw new IllegalArgumentException("%s has more than %d slots before %s"
                        .formatted(described(), MOST_SLOTS, before.atOffset(ZoneOffset.UTC)));
            }
        }
        return slots;
    }

    private String described() {
        return "cron '%s' (%s, %s)".formatted(actual.name(), actual.expression(), actual.zone());
    }
}
