// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Due;
import dev.forge.cluster.internal.job.operate.JobDemandReports.GroupedPlace;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Held;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Limits;
import dev.forge.cluster.internal.job.operate.JobDemandReports.NameState;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Place;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Waiting;
import dev.forge.cluster.internal.job.operate.PublishedExecutors.Route;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobDemand;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
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
public final class JobDemandReader {

    private static final NameState UNKNOWN = new NameState(false, false);
    private static final Limits UNLIMITED = new Limits(null, false);
    private static final Held NONE_HELD = new Held(0, 0);
    private static final Due NONE_DUE = new Due(0, true, 0, Duration.ZERO);

    private static final Comparator<JobDemand.Entry> ORDER = Comparator.comparing(JobDemand.Entry::name)
            .thenComparing(JobDemand.Entry::capability, Comparator.nullsFirst(Comparator.naturalOrder()));

    /** How many groups of places that no worker is known for are gone through together. */
    private static final int MOST_OTHER_GROUPS = 10_000;

    private final JobDemandReports reports;
    private final List<String> executors;
    private final Function<String, String> executorOf;
    private final JobHandlers handlers;

    /** @param handlers those of this node */
    public JobDemandReader(
            JobDemandReports reports,
            JobHandlers handlers,
            List<String> executors,
            Function<String, String> executorOf) {
        this.reports = reports;
        this.executors = executors;
        this.executorOf = executorOf;
        this.handlers = handlers;
    }

    /** Active workers that publish the same. */
    private record Group(PublishedExecutors executors, Set<String> capabilities, int nodes) {

        boolean offers(String capability) {
            return capability.isEmpty() || capabilities.contains(capability);
        }

        /** @param name a name that these workers have a handler for */
        Route route(String name) {
            return Objects.requireNonNull(executors.routes().get(name));
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
    public synchronized JobDemand read() {
        List<Group> workers = reports.workers().stream()
                .map(row -> new Group(PublishedExecutors.parse(row.executors()), row.capabilities(), row.nodes()))
                .toList();
        Set<String> handled = workers.stream()
                .flatMap(group -> group.executors.routes().keySet().stream())
                .collect(Collectors.toCollection(TreeSet::new));
        Set<String> capabilities = capabilities(workers);
        return new Calculation(workers, capabilities, reports.due(handled, capabilities), reports.held()).demand();
    }

    /** Returns the capabilities that workers offer, and those that handlers declare: their workers may be scaled to zero. */
    private Set<String> capabilities(List<Group> workers) {
        var capabilities = new TreeSet<>(Set.of(""));
        for (Group group : workers) {
            capabilities.addAll(group.capabilities);
            group.executors.routes().values().forEach(route -> capabilities.add(route.capability()));
        }
        handlers.all().forEach(handler -> {
            String capability = handler.capability();
            if (capability != null) {
                capabilities.add(capability);
            }
        });
        capabilities.removeIf(capability -> capability.startsWith("@"));
        return capabilities;
    }

    private String handlerOf(String name) {
        JobHandler handler = handlers.named(name);
        return handler == null ? name : handler.name();
    }

    private final class Calculation {

        private final List<Group> workers;
        private final Set<String> capabilities;
        private final Map<Place, Due> due;
        private final Map<String, Due> rest;
        private final Map<Place, Held> held;

        /** The workers that have a handler for a name. */
        private final Map<String, List<Group>> knowing = new HashMap<>();

        private final Map<String, String> handlerNames = new HashMap<>();
        private final Set<Place> places;

        Calculation(List<Group> workers, Set<String> capabilities, Waiting waiting, Map<Place, Held> held) {
            this.workers = workers;
            this.capabilities = capabilities;
            this.due = waiting.places();
            this.rest = waiting.rest();
            this.held = held;
            this.places = new HashSet<>(due.keySet());
            places.addAll(held.keySet());
            for (Group group : workers) {
                group.executors.routes().forEach((name, route) -> {
                    knowing.computeIfAbsent(name, key -> new ArrayList<>()).add(group);
                    places.add(new Place(name, route.capability()));
                });
            }
            places.forEach(place -> handlerNames.computeIfAbsent(place.name(), this::handler));
        }

        private String handler(String name) {
            return routes(name).map(Route::handler).findFirst().orElseGet(() -> handlerOf(name));
        }

        private Stream<Route> routes(String name) {
            return knowing(name).stream().map(group -> group.route(name));
        }

        private List<Group> knowing(String name) {
            return knowing.getOrDefault(name, List.of());
        }

        JobDemand demand() {
            var names = new HashSet<>(handlerNames.keySet());
            names.addAll(rest.keySet());
            Map<String, NameState> states = reports.states(names);
            Map<Place, Long> startable = startable(states);
            Map<String, Duration> durations = reports.durations();
            List<JobDemand.Entry> entries = Stream.concat(
                            places.stream()
                                    .map(place -> entry(
                                            place,
                                            startable.getOrDefault(place, 0L),
                                            durations.get(place.name()),
                                            isPaused(states, place.name()))),
                            rest.entrySet().stream()
                                    .map(more -> rest(more.getKey(), more.getValue(), isPaused(states, more.getKey()))))
                    .sorted(ORDER)
                    .toList();
            return new JobDemand(entries, executors(entries), capabilities(entries));
        }

        private JobDemand.Entry entry(Place place, long startable, @Nullable Duration mean, boolean paused) {
            Due waiting = due.getOrDefault(place, NONE_DUE);
            Held holding = held.getOrDefault(place, NONE_HELD);
            String name = place.name();
            return new JobDemand.Entry(
                    name,
                    place.capability().isEmpty() ? null : place.capability(),
                    executor(name),
                    new JobCount(waiting.jobs() + holding.claimed(), waiting.exact()),
                    waiting.jobs() == 0 ? null : waiting.oldest(),
                    startable,
                    holding.running(),
                    slots(place),
                    routes(name).mapToInt(Route::callSize).max().orElse(1),
                    mean,
                    paused);
        }

        /** Returns the demand of jobs whose capabilities are not listed: nobody knows a worker for them, so they need no slots. */
        private JobDemand.Entry rest(String name, Due more, boolean paused) {
            return new JobDemand.Entry(
                    name,
                    JobDemand.OTHER,
                    executor(name),
                    new JobCount(more.jobs(), false),
                    more.oldest(),
                    0,
                    0,
                    0,
                    1,
                    null,
                    paused);
        }

        // Slots ---------------------------------------------------------------------------------------------

        private int slots(Place place) {
            return knowing(place.name()).stream()
                    .filter(group -> group.offers(place.capability()))
                    .mapToInt(group -> group.slots(group.route(place.name()).executor()))
                    .sum();
        }

        private String executor(String name) {
            var slots = new TreeMap<String, Integer>();
            for (Group group : knowing(name)) {
                String executor = group.route(name).executor();
                slots.merge(executor, group.slots(executor), Integer::sum);
            }
            return slots.entrySet().stream()
                    .max(Map.Entry.comparingByValue())
                    .map(Map.Entry::getKey)
                    .orElseGet(() -> executorOf.apply(name));
        }

        private List<JobDemand.Total> executors(List<JobDemand.Entry> entries) {
            Map<String, List<JobDemand.Entry>> byExecutor =
                    entries.stream().collect(Collectors.groupingBy(JobDemand.Entry::executor));
            var names = new TreeSet<>(executors);
            names.addAll(byExecutor.keySet());
            workers.forEach(group -> names.addAll(group.executors.slots().keySet()));
            return names.stream()
                    .map(name -> new JobDemand.Total(
                            name,
                            workers.stream()
                                    .mapToInt(group -> group.slots(name))
                                    .sum(),
                            byExecutor.getOrDefault(name, List.of())))
                    .toList();
        }

        private List<JobDemand.Total> capabilities(List<JobDemand.Entry> entries) {
            var byCapability = new HashMap<String, List<JobDemand.Entry>>();
            for (JobDemand.Entry entry : entries) {
                String capability = entry.capability();
                if (capability != null) {
                    byCapability
                            .computeIfAbsent(capability, key -> new ArrayList<>())
                            .add(entry);
                }
            }
            var names = new TreeSet<>(byCapability.keySet());
            workers.forEach(group -> names.addAll(group.capabilities));
            return names.stream()
                    .map(name -> new JobDemand.Total(
                            name,
                            workers.stream()
                                    .filter(group -> group.offers(name))
                                    .mapToInt(Group::slots)
                                    .sum(),
                            byCapability.getOrDefault(name, List.of())))
                    .toList();
        }

        // Limits --------------------------------------------------------------------------------------------

        /** Returns how many due jobs could start if there were enough slots. */
        private Map<Place, Long> startable(Map<String, NameState> states) {
            Map<String, Limits> limits = reports.limits(new HashSet<>(handlerNames.values()));
            Map<Place, Long> inGroups = startableInGroups(limits, states);
            Map<String, Long> room = room(limits);
            var startable = new HashMap<Place, Long>();
            for (Place place : places) {
                NameState state = states.getOrDefault(place.name(), UNKNOWN);
                String handler = Objects.requireNonNull(handlerNames.get(place.name()));
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
                        place, pending + held.getOrDefault(place, NONE_HELD).claimed());
            }
            return startable;
        }

        private Map<Place, Long> startableInGroups(Map<String, Limits> limits, Map<String, NameState> states) {
            List<Place> limited = due.keySet().stream()
                    .filter(place -> {
                        NameState state = states.getOrDefault(place.name(), UNKNOWN);
                        Due waiting = Objects.requireNonNull(due.get(place));
                        return state.registered()
                                && !state.paused()
                                && waiting.jobs() > waiting.ungrouped()
                                && limits.getOrDefault(handlerNames.get(place.name()), UNLIMITED)
                                        .perGroup();
                    })
                    .toList();
            if (limited.isEmpty()) {
                return Map.of();
            }
            long others = limited.stream()
                    .filter(place -> !capabilities.contains(place.capability()))
                    .count();
            int groupsOfOthers = (int) Math.min(JobDemandReports.MOST_GROUPS, MOST_OTHER_GROUPS / Math.max(1, others));
            return reports.startableInGroups(limited.stream()
                    .map(place -> new GroupedPlace(
                            place,
                            Objects.requireNonNull(handlerNames.get(place.name())),
                            capabilities.contains(place.capability()) ? JobDemandReports.MOST_GROUPS : groupsOfOthers))
                    .toList());
        }

        /** Returns how many more jobs of each handler with a limit may run. */
        private Map<String, Long> room(Map<String, Limits> limits) {
            var running = new HashMap<String, Long>();
            held.forEach((place, jobs) -> running.merge(
                    Objects.requireNonNull(handlerNames.get(place.name())),
                    (long) jobs.running() + jobs.claimed(),
                    Long::sum));
            var room = new HashMap<String, Long>();
            limits.forEach((handler, limit) -> {
                Integer concurrency = limit.concurrency();
                if (concurrency != null) {
                    room.put(handler, Math.max(0, concurrency - running.getOrDefault(handler, 0L)));
                }
            });
            return room;
        }
    }

    private static boolean isPaused(Map<String, NameState> states, String name) {
        return states.getOrDefault(name, UNKNOWN).paused();
    }
}
