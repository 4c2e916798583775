// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.store.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.worker.RunningJob.Stop;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.AsyncResults;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;

/**
 * Runs several jobs with one call of their handler, and in one transaction if the handler declares one. If that fails for whatever
 * reason, the jobs run one by one, so that a bad one does not fail the others; only then an attempt counts as failed.
 */
final class BulkExecution {

    private static final Logger log = GuardedLogger.of(BulkExecution.class);

    private final Worker.Dependencies dependencies;
    private final Worker.NodeView node;
    private final Claims claims;
    private final Parts parts;
    private final Consumer<RunningJob> alone;

    /** What single and common attempts share. */
    record Parts(
            StuckHandlers stuck,
            InterceptedHandlers interceptors,
            AttemptResults results,
            TransactionalAttempt transactional,
            Finisher finisher) {}

    /** @param alone runs a started job again, alone */
    BulkExecution(
            Worker.Dependencies dependencies,
            Worker.NodeView node,
            Claims claims,
            Parts parts,
            Consumer<RunningJob> alone) {
        this.dependencies = dependencies;
        this.node = node;
        this.claims = claims;
        this.parts = parts;
        this.alone = alone;
    }

    /** Runs jobs of the same handler on the current thread. */
    void run(List<RunningJob> jobs) {
        var started = new ArrayList<RunningJob>();
        for (RunningJob running : jobs) {
            if (!node.isTrusted() || !claims.isHeld(running) || !running.start(node.nanos())) {
                claims.lose(running, "its lease was over before it could start");
            } else {
                started.add(running);
            }
        }
        if (!started.isEmpty() && !endTogether(started)) {
            started.forEach(alone);
        }
    }

    /** Makes a common attempt; false if the jobs must run one by one. */
    private boolean endTogether(List<RunningJob> started) {
        RunningJob first = started.get(0);
        if (started.size() == 1
                || started.stream().anyMatch(running -> !running.node().equals(first.node()))) {
            return false;
        }
        Map<String, String> before = MDC.getCopyOfContextMap();
        node.setLogContext();
        Mdc.put("forge.job.name", first.name());
        started.forEach(parts.stuck::began);
        try {
            return observed(started);
        } finally {
            started.forEach(parts.stuck::ended);
            Mdc.restore(before);
        }
    }

    private boolean observed(List<RunningJob> started) {
        var attempt = new Attempt(started);
        try {
            started.forEach(running -> dependencies.monitor().started(running.name(), JobExecution.waited(running)));
            dependencies.monitor().observeTogether(started, attempt);
        } catch (Throwable e) {
            // A failing observation must not decide how the jobs end.
            log.warn(
                    "{} jobs {}: observation failed; the jobs are not affected",
                    started.size(),
                    started.get(0).name(),
                    e);
        }
        if (!attempt.made) {
            attempt.run();
        }
        return attempt.ended;
    }

    private final class Attempt implements Runnable {

        private final List<RunningJob> started;
        private boolean made;
        private boolean ended;

        Attempt(List<RunningJob> started) {
            this.started = started;
        }

        @Override
        public void run() {
            made = true;
            ended = attempt(started);
        }
    }

    private boolean attempt(List<RunningJob> started) {
        RunningJob first = started.get(0);
        try {
            JobHandler.Transaction transaction = first.handler().target().transaction();
            if (transaction != null) {
                parts.transactional.runTogether(started, transaction, () -> call(started));
                started.forEach(parts.finisher::settleWritten);
                return true;
            }
            List<Finish> finishes = call(started);
            for (int i = 0; i < started.size(); i++) {
                RunningJob running = started.get(i);
                running.returned();
                running.ending();
                if (running.stopReason() == Stop.LOST) {
                    running.ended(Kind.LOST, null);
                    claims.cancelOrLose(running, "another node had taken it before it ended");
                } else {
                    parts.finisher.add(running, finishes.get(i));
                }
            }
            return true;
        } catch (Throwable e) {
            started.forEach(RunningJob::returned);
            started.forEach(running -> running.ended(Kind.RETURNED, null));
            log.info(
                    "{} jobs {}: their common attempt failed, so they run one by one: {}",
                    started.size(),
                    first.name(),
                    ErrorText.brief(e));
            return false;
        }
    }

    private List<Finish> call(List<RunningJob> started) throws Throwable {
        JobHandler handler = started.get(0).handler();
        Type type = handler.target().payloadType();
        var payloads = new ArrayList<@Nullable Object>(started.size());
        for (RunningJob running : started) {
            payloads.add(
                    type == null
                            ? null
                            : dependencies.json().read(running.claimed().payload(), type));
        }
        Object returned = parts.interceptors.callTogether(payloads, started);
        Object result =
                handler.isTransactional() ? AsyncResults.requireFinished(returned) : AsyncResults.await(returned);
        requireInTime(started.get(0));
        if (result != null && !(result instanceof List<?> list && list.size() == started.size())) {
            throw new IllegalStateException(
                    "the handler must return nothing, or a list with one result or Outcome for each of the %d jobs; it returned %s"
                            .formatted(
                                    started.size(),
                                    result instanceof List<?> list
                                            ? list.size() + " results"
                                            : result.getClass().getName()));
        }
        var finishes = new ArrayList<Finish>(started.size());
        for (int i = 0; i < started.size(); i++) {
            finishes.add(parts.results.ofReturn(started.get(i), result == null ? null : ((List<?>) result).get(i)));
        }
        return finishes;
    }

    private void requireInTime(RunningJob running) {
        Duration timeout = running.limits().timeout();
        if (timeout != null && node.nanos() - running.startedAt() > timeout.toNanos()) {
            throw new IllegalStateException("the call took longer than " + timeout);
        }
    }
}
