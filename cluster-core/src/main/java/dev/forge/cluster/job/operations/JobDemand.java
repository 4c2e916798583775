// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * How much work waits for workers, and how many slots they have: a signal for automatic scaling. Jobs that only the leader runs are
 * not part of it.
 *
 * <pre>{@code
 * int slots = operations.demand().executor("default").neededSlots(Duration.ofMinutes(1));
 * }</pre>
 *
 * <p>Capabilities that active workers offer or handlers declare, and names that a node has had a handler for, are complete. Up to
 * 1,000 entries have another capability, and up to 1,000 another name; {@link #OTHER} entries count what is beyond, without slots
 * that they need.
 *
 * @param entries the demand of each name and capability, in the order of their names
 * @param executors the demand of each executor, in the order of their names. A job that no active worker has a handler for counts
 *     for the executor that this node would run it on
 * @param capabilities the demand of each capability that workers offer or jobs require, in the order of their names
 */
public record JobDemand(List<Entry> entries, List<Total> executors, List<Total> capabilities) {

    /** The capability, or name, of an entry that counts jobs with further capabilities, or names, together. */
    public static final String OTHER = "(other)";

    /** Creates a demand. */
    public JobDemand {
        entries = List.copyOf(entries);
        executors = List.copyOf(executors);
        capabilities = List.copyOf(capabilities);
    }

    /** Returns the demand of an executor; a demand without slots and jobs if no active worker has that executor. */
    public Total executor(String name) {
        return executors.stream()
                .filter(total -> total.name.equals(name))
                .findFirst()
                .orElseGet(() -> new Total(name, 0, List.of()));
    }

    /**
     * The demand of the jobs of one name that require the same capability.
     *
     * @param name the name of the jobs
     * @param capability the capability that they require; null: none
     * @param executor the executor that runs them; if workers have different rules, the one with the most slots
     * @param due the jobs whose time has come and that have not started, including those that a node has claimed ahead. Jobs that
     *     wait for a predecessor with the same unique key are not due
     * @param oldestDueAge how long the oldest pending job has been due; null if none is due
     * @param startable how many of the due jobs could start now if there were enough slots. None if the name is paused or no node
     *     has ever had a handler for it; no more than the limits of the name and of its groups allow
     * @param running the jobs that run
     * @param slots the slots of the executor on all active workers that have the handler and offer the capability. Other names share
     *     these slots
     * @param callSize the largest number of jobs that one slot runs at once; 1 unless the handler takes many jobs
     * @param meanDuration how long a job ran on average, of those among the last completed jobs of the cluster that ended within ten
     *     minutes; null if there were none. A job of a call for many has the duration of the call
     * @param paused whether the name is paused
     */
    public record Entry(
            String name,
            @Nullable String capability,
            String executor,
            JobCount due,
            @Nullable Duration oldestDueAge,
            long startable,
            long running,
            int slots,
            int callSize,
            @Nullable Duration meanDuration,
            boolean paused) {

        /** Creates the demand of a name and a capability. */
        public Entry {
            if (callSize < 1) {
                throw new IllegalArgumentException("JobDemand: callSize (%d) must be at least 1".formatted(callSize));
            }
        }

        /**
         * Returns how many slots these jobs need: one for each running call, and as many as start and end all {@link #startable}
         * jobs within that time, according to their mean duration. One for each call if that duration is not known. At least one if
         * a job is due, workers have slots for it and its name is not paused.
         *
         * @param within longer than zero
         */
        public long neededSlots(Duration within) {
            requirePositive(within);
            long waiting = calls(startable);
            if (waiting > 0 && meanDuration != null) {
                double needed = Math.ceil((double) waiting * meanDuration.toMillis() / Math.max(1, within.toMillis()));
                waiting = Math.max(1, Math.min(waiting, (long) needed));
            }
            // A rate lets the next job start soon: without a worker it would start later.
            boolean limited = due.jobs() > 0 && slots > 0 && !paused;
            return Math.max(limited ? 1 : 0, calls(running) + waiting);
        }

        /**
         * Returns how long all slots would need for the due jobs if they ran no others; zero if no job is due. Limits reduce the
         * number of slots that are used; rates of groups and the remaining time of running jobs are left out.
         *
         * @return null if it is not known: the mean duration is unknown, there are no slots, or none of the jobs may start
         */
        public @Nullable Duration timeToDrain() {
            if (due.jobs() == 0) {
                return Duration.ZERO;
            }
            long parallel = Math.min(slots, calls(startable) + calls(running));
            return meanDuration == null || parallel < 1 || isHeldBack() ? null : dividedBy(parallel);
        }

        /** Returns whether nothing is done about the due jobs at present. */
        private boolean isHeldBack() {
            return paused || (startable == 0 && running == 0);
        }

        private Duration dividedBy(long slots) {
            return Duration.ofMillis((long) Math.ceil(workMillis() / slots));
        }

        private double workMillis() {
            return meanDuration == null ? 0 : (double) calls(due.jobs()) * meanDuration.toMillis();
        }

        private long calls(long jobs) {
            return (jobs + callSize - 1) / callSize;
        }
    }

    /**
     * The demand of several entries together.
     *
     * @param name what they have in common: an executor, a capability or a name
     * @param slots the slots of all active workers for them
     * @param entries the entries
     */
    public record Total(String name, int slots, List<Entry> entries) {

        /** Creates a total. */
        public Total {
            entries = List.copyOf(entries);
        }

        /** Returns the number of due jobs; see {@link Entry#due}. */
        public JobCount due() {
            return new JobCount(
                    entries.stream().mapToLong(entry -> entry.due.jobs()).sum(),
                    entries.stream().allMatch(entry -> entry.due.exact()));
        }

        /** Returns how long the oldest pending job has been due; null if none is due. */
        public @Nullable Duration oldestDueAge() {
            return entries.stream()
                    .flatMap(entry -> Stream.ofNullable(entry.oldestDueAge))
                    .max(Comparator.naturalOrder())
                    .orElse(null);
        }

        /** Returns how many of the due jobs could start now if there were enough slots; see {@link Entry#startable}. */
        public long startable() {
            return entries.stream().mapToLong(Entry::startable).sum();
        }

        /** Returns the number of running jobs. */
        public long running() {
            return entries.stream().mapToLong(Entry::running).sum();
        }

        /** Returns the sum of what the entries need; see {@link Entry#neededSlots}. */
        public long neededSlots(Duration within) {
            requirePositive(within);
            return entries.stream()
                    .mapToLong(entry -> entry.neededSlots(within))
                    .sum();
        }

        /**
         * Returns how long the slots need for all due jobs, except for those of which none may start: because their name is paused,
         * or because no node has ever had a handler for them; see {@link Entry#timeToDrain}.
         *
         * @return null if it is not known for one of the entries
         */
        public @Nullable Duration timeToDrain() {
            List<Entry> waiting = entries.stream()
                    .filter(entry ->
                            entry.due.jobs() > 0 && !(entry.isHeldBack() && (entry.paused || entry.slots == 0)))
                    .toList();
            if (waiting.isEmpty()) {
                return Duration.ZERO;
            }
            if (slots == 0 || waiting.stream().anyMatch(entry -> entry.timeToDrain() == null)) {
                return null;
            }
            double work = waiting.stream().mapToDouble(Entry::workMillis).sum();
            Duration all = Duration.ofMillis((long) Math.ceil(work / slots));
            // Limits may keep the jobs of one name waiting although other slots are free.
            return waiting.stream()
                    .flatMap(entry -> Stream.ofNullable(entry.timeToDrain()))
                    .filter(time -> time.compareTo(all) > 0)
                    .max(Comparator.naturalOrder())
                    .orElse(all);
        }
    }

    private static void requirePositive(Duration within) {
        if (within.isNegative() || within.isZero()) {
            throw new IllegalArgumentException(
                    "JobDemand.neededSlots: within (%s) must be longer than zero".formatted(within));
        }
    }
}
