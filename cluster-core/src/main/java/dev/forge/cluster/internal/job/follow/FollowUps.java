// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.follow;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.Bisect;
import dev.forge.cluster.internal.runtime.Portion;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Collects what has changed and follows it up a little later, many changes at a time, in a loop of its own. Does nothing while nothing
 * changes, and takes a limited part of the time however much changes. A change that is lost because its node crashes, or because there
 * are too many, is found by the next sweep.
 */
final class FollowUps {

    private static final Logger log = GuardedLogger.of(FollowUps.class);

    private static final Duration INTERVAL = Duration.ofMillis(20);
    private static final Duration NOTHING_TO_DO = Duration.ofHours(1);

    /** The work takes at most this part of the time. */
    private static final int SHARE = 10;

    /** Each failure may cost a timeout. */
    private static final int MOST_FAILURES = 30;

    private static final int MOST_AT_A_TIME = 500;
    private static final int MOST_COLLECTED = 100_000;

    private final LongSupplier nanos;
    private final Consumer<List<UUID>> work;
    private final NodeLoop loop;
    private final Set<UUID> changed = ConcurrentHashMap.newKeySet();
    private final Portion portion = new Portion(MOST_AT_A_TIME);
    private volatile long notBefore;
    private volatile boolean paused = true;

    /** @param work follows changes up, and removes them from the list as soon as it has: the next pass tries the rest again */
    FollowUps(String loop, LongSupplier nanos, Consumer<List<UUID>> work) {
        this.nanos = nanos;
        this.work = work;
        this.loop = NodeLoop.of(loop, this::untilNext, this::pass);
        this.notBefore = nanos.getAsLong();
    }

    /**
     * Does work for many at a time or, if one of them cannot be changed at present because another transaction has locked its row or
     * the database rejects it, for each half. Those that cannot be changed are left to the next sweep.
     */
    static void apart(List<UUID> ids, Consumer<List<UUID>> work) {
        new Bisect<>(
                        work,
                        FollowUps::isOfRow,
                        MOST_FAILURES,
                        (id, failure) -> log.debug("Could not follow up {}; the next sweep will", id, failure))
                .run(ids);
    }

    /** Returns whether one of the rows may be the cause, or their number: a lock, a rejection, a timeout. */
    static boolean isOfRow(DataAccessException failure) {
        return DatabaseFailure.kind(failure) == Kind.LOCK_TIMEOUT
                || DatabaseFailure.kind(failure) == Kind.STATEMENT_TIMEOUT
                || DatabaseFailure.kind(failure).isOfRow();
    }

    /** Drops the pause between passes: each pass follows up all changes. */
    void neverPause() {
        paused = false;
    }

    NodeLoop loop() {
        return loop;
    }

    void add(UUID id) {
        if (changed.size() < MOST_COLLECTED && changed.add(id)) {
            loop.wake();
        }
    }

    private Duration untilNext() {
        return changed.isEmpty() ? NOTHING_TO_DO : Duration.ofNanos(Math.max(0, notBefore - nanos.getAsLong()));
    }

    /** Follows up the next changes, unless the last pass has just ended. */
    void pass() {
        if (changed.isEmpty() || (paused && !untilNext().isZero())) {
            return;
        }
        List<UUID> next = new ArrayList<>(changed.stream().limit(portion.size()).toList());
        int tried = next.size();
        // Before the work: what changes meanwhile is followed up again.
        next.forEach(changed::remove);
        long start = nanos.getAsLong();
        try {
            work.accept(next);
            portion.succeeded();
        } catch (RuntimeException e) {
            portion.failed(tried);
            throw e;
        } finally {
            changed.addAll(next);
            long end = nanos.getAsLong();
            notBefore = end + Math.max(INTERVAL.toNanos(), SHARE * (end - start));
        }
    }
}
