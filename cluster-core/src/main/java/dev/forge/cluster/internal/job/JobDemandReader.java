// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.job.PublishedExecutors.Route;
import dev.forge.cluster.internal.job.store.JobDemandReports;
import dev.forge.cluster.internal.job.store.JobDemandReports.Due;
import dev.forge.cluster.internal.job.store.JobDemandReports.Held;
import dev.forge.cluster.internal.job.store.JobDemandReports.Limits;
import dev.forge.cluster.internal.job.store.JobDemandReports.NameState;
import dev.forge.cluster.internal.job.store.JobDemandReports.Place;
import dev.forge.cluster.job.JobCount;
import dev.forge.cluster.job.JobDemand;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Calculates the demand for workers from what the nodes publish and from bounded counts of jobs. */
final class JobDemandReader {

    private static final NameState UNKNOWN = new NameState(false, false);
    private static final Limits UNLIMITED = new Limits(null, false);
    private static final Held NONE_HELD = new Held(0, 0);
    private static final Due NONE_DUE = new Due(0, 0, Duration.ZERO);

    private final JobDemandReports reports;
    private final JobEngine engine;
    private final Function<String, String> handlerOf;

    /** @param handlerOf returns the name of this node's handler for jobs of a name; the name itself if it has none */
    JobDemandReader(JobDemandReports reports, JobEngine engine, Function<String, String> handlerOf) {
        this.reports = reports;
        this.engine = engine;
        this.handlerOf = handlerOf;
    }

    /** Active workers that publish the same. */
    private record Group(PublishedExecutors executors, Set<String> capabilities, int nodes) {

        boolean offers(String capability) {
            return capability.isEmpty() || capabilities.contains(capability);
        }

        int slots(String executor) {
            return nodes * executors.slots().getOrDefault(executor, 0);
        }

        int slots() {
            return nodes
                    * executors.slots().values().stream()
                            .mapToInt(Integer::intValue)
                            .sum();
        }
    }

    /** Reads the demand. One call at a time: they use the connections of the cluster. */
    synchronized JobDemand read() {
        List<Group> workers = reports.workers().stream()
                .map(row -> new Group(PublishedExecutors.parse(row.executors()), row.capabilities(), row.nodes()))
                .toList();
        Set<String> handled = workers.stream()
                .flatMap(group -> group.executors.routes().keySet().stream())
                .collect(Collectors.toCollection(TreeSet::new));
        return new Calculation(workers, reports.due(handled), reports.held()).demand();
    }

    private final class Calculation {

        private final List<Group> workers;
        private final Map<Place, Due> due;
        private final Map<Place, Held> held;
        private final Map<String, String> handlers = new HashMap<>();
        private final List<Place> places;

        Calculation(List<Group> workers, Map<Place, Due> due, Map<Place, Held> held) {
            this.workers = workers;
            this.due = due;
            this.held = held;
            var found = new TreeSet<>(Comparator.comparing(Place::name).thenComparing(Place::capability));
            found.addAll(due.keySet());
            found.addAll(held.keySet());
            for (Group group : workers) {
                group.executors.routes().forEach((name, route) -> found.add(new Place(name, route.capability())));
            }
            this.places = List.copyOf(found);
            places.forEach(place -> handlers.computeIfAbsent(place.name(), this::handler));
        }

        private String handler(String name) {
            return routes(name).map(Route::handler).findFirst().orElseGet(() -> handlerOf.apply(name));
        }

        private Stream<Route> routes(String name) {
            return workers.stream()
                    .flatMap(group -> Stream.ofNullable(group.executors.routes().get(name)));
        }

        JobDemand demand() {
            Map<String, NameState> states = reports.states(handlers.keySet());
            Map<Place, Long> startable = startable(states);
            Map<String, Duration> durations = reports.durations();
            List<JobDemand.Entry> entries = places.stream()
                    .map(place -> entry(
                            place,
                            startable.getOrDefault(place, 0L),
                            durations.get(place.name()),
                            states.getOrDefault(place.name(), UNKNOWN).paused()))
                    .toList();
            return new JobDemand(entries, executors(entries), capabilities(entries));
        }

        private JobDemand.Entry entry(Place place, long startable, @Nullable Duration mean, boolean paused) {
            Due waiting = due.getOrDefault(place, NONE_DUE);
            Held holding = held.getOrDefault(place, NONE_HELD);
            String name = place.name();
            boolean exact = waiting.jobs() <= JobDemandReports.MOST_COUNTED;
            return new JobDemand.Entry(
                    name,
                    place.capability().isEmpty() ? null : place.capability(),
                    executor(name),
                    new JobCount(Math.min(waiting.jobs(), JobDemandReports.MOST_COUNTED) + holding.claimed(), exact),
                    waiting.jobs() == 0 ? null : waiting.oldest(),
                    startable,
                    holding.running(),
                    slots(place),
                    routes(name).mapToInt(Route::callSize).max().orElse(1),
                    mean,
                    paused);
        }

        // Slots ---------------------------------------------------------------------------------------------

        private int slots(Place place) {
            return workers.stream()
                    .filter(group -> group.offers(place.capability()))
                    .mapToInt(group -> {
                        Route route = group.executors.routes().get(place.name());
                        return route == null ? 0 : group.slots(route.executor());
                    })
                    .sum();
        }

        private String executor(String name) {
            var slots = new TreeMap<String, Integer>();
            for (Group group : workers) {
                Route route = group.executors.routes().get(name);
                if (route != null) {
                    slots.merge(route.executor(), group.slots(route.executor()), Integer::sum);
                }
            }
            return slots.entrySet().stream()
                    .max(Map.Entry.comparingByValue())
                    .map(Map.Entry::getKey)
                    .orElseGet(() -> engine.executorOf(name));
        }

        private List<JobDemand.Total> executors(List<JobDemand.Entry> entries) {
            var names = new TreeSet<>(engine.executors());
            entries.forEach(entry -> names.add(entry.executor()));
            workers.forEach(group -> names.addAll(group.executors.slots().keySet()));
            return names.stream()
                    .map(name -> new JobDemand.Total(
                            name,
                            workers.stream()
                                    .mapToInt(group -> group.slots(name))
                                    .sum(),
                            entries.stream()
                                    .filter(entry -> entry.executor().equals(name))
                                    .toList()))
                    .toList();
        }

        private List<JobDemand.Total> capabilities(List<JobDemand.Entry> entries) {
            var names = new TreeSet<String>();
            places.forEach(place -> names.add(place.capability()));
            workers.forEach(group -> names.addAll(group.capabilities));
            names.remove("");
            return names.stream()
                    .map(name -> new JobDemand.Total(
                            name,
                            workers.stream()
                                    .filter(group -> group.offers(name))
                                    .mapToInt(Group::slots)
                                    .sum(),
                            entries.stream()
                                    .filter(entry -> name.equals(entry.capability()))
                                    .toList()))
                    .toList();
        }

        // Limits --------------------------------------------------------------------------------------------

        /** Returns how many due jobs could start if there were enough slots. */
        private Map<Place, Long> startable(Map<String, NameState> states) {
            Map<String, Limits> limits = reports.limits(handlers.values());
            Map<Place, Long> inGroups = startableInGroups(limits);
            Map<String, Long> room = room(limits);
            var startable = new HashMap<Place, Long>();
            for (Place place : places) {
                NameState state = states.getOrDefault(place.name(), UNKNOWN);
                String handler = Objects.requireNonNull(handlers.get(place.name()));
                long pending = 0;
                if (state.registered() && !state.paused()) {
                    Due waiting = due.getOrDefault(place, NONE_DUE);
                    pending = limits.getOrDefault(handler, UNLIMITED).perGroup()
                            ? waiting.ungrouped() + inGroups.getOrDefault(place, 0L)
                            : waiting.jobs();
                    Long left = room.get(handler);
                    if (left != null) {
                        pending = Math.min(pending, left);
                        room.put(handler, left - pending);
                    }
                }
                // Claimed jobs have a place of their limits, and a pause does not stop them.
                startable.put(
                        place,
                        Math.min(pending, JobDemandReports.MOST_COUNTED)
                                + held.getOrDefault(place, NONE_HELD).claimed());
            }
            return startable;
        }

        private Map<Place, Long> startableInGroups(Map<String, Limits> limits) {
            var limited = new HashMap<String, String>();
            due.forEach((place, jobs) -> {
                String handler = Objects.requireNonNull(handlers.get(place.name()));
                if (jobs.jobs() > jobs.ungrouped()
                        && limits.getOrDefault(handler, UNLIMITED).perGroup()) {
                    limited.put(place.name(), handler);
                }
            });
            return limited.isEmpty() ? Map.of() : reports.startableInGroups(limited);
        }

        /** Returns how many more jobs of each handler with a limit may run. */
        private Map<String, Long> room(Map<String, Limits> limits) {
            var room = new HashMap<String, Long>();
            limits.forEach((handler, limit) -> {
                Integer concurrency = limit.concurrency();
                if (concurrency != null) {
                    long running = held.entrySet().stream()
                            .filter(entry ->
                                    handler.equals(handlers.get(entry.getKey().name())))
                            .mapToLong(entry -> entry.getValue().running()
                                    + entry.getValue().claimed())
                            .sum();
                    room.put(handler, Math.max(0, concurrency - running));
                }
            });
            return room;
        }
    }
}
