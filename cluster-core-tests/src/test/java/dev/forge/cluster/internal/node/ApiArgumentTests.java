// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static java.util.Map.entry;

import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.audit.AuditStore;
import dev.forge.cluster.internal.audit.DefaultAuditTrail;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobHistoryQuery;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowOperations;
import dev.forge.cluster.workflow.Workflows;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Parameter;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.assertj.core.api.SoftAssertions;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.core.ParameterizedTypeReference;

/** Every method of these interfaces refuses the same mistake in the same way: it names method, argument and value. */
@ClusterPostgres
class ApiArgumentTests {

    /** A valid argument of each type. */
    private static final Map<Class<?>, Object> VALID = Map.ofEntries(
            entry(UUID.class, UUID.randomUUID()),
            entry(String.class, "order"),
            entry(Object.class, "payload"),
            entry(int.class, 10),
            entry(Class.class, String.class),
            entry(ParameterizedTypeReference.class, new ParameterizedTypeReference<List<String>>() {}),
            entry(Collection.class, List.of("order")),
            entry(Function.class, (Function<Object, JobOptions>) payload -> JobOptions.defaults()),
            entry(Supplier.class, (Supplier<String>) () -> "done"),
            entry(Instant.class, Instant.parse("2030-01-01T00:00:00Z")),
            entry(Duration.class, Duration.ofHours(1)),
            entry(JobOptions.class, JobOptions.defaults()),
            entry(JobBatchOptions.class, JobBatchOptions.named("batch")),
            entry(JobFilter.class, JobFilter.all()),
            entry(BulkOptions.class, BulkOptions.defaults()),
            entry(JobLimits.class, JobLimits.none()),
            entry(JobHistoryQuery.class, JobHistoryQuery.last(Duration.ofHours(1))),
            entry(CronDefinition.class, CronDefinition.cron("yearly", "@yearly").withHandler("order")),
            entry(WorkflowFilter.class, WorkflowFilter.all()),
            entry(AuditFilter.class, AuditFilter.all()),
            entry(Operator.class, Operator.named("alice")));

    private final TestDatabase database;
    private final TestCluster cluster;
    private final Map<Class<?>, Object> apis = new LinkedHashMap<>();

    ApiArgumentTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
    }

    @BeforeEach
    void start() {
        var flows = new TestWorkflows(cluster).on("order", context -> null);
        flows.work = work -> work.on("order", context -> {});
        TestWorkflows.Member one = flows.start("one");
        apis.put(Jobs.class, one.member().jobs());
        apis.put(JobOperations.class, one.member().operations());
        apis.put(Workflows.class, one.workflows());
        apis.put(WorkflowOperations.class, one.operations());
        apis.put(Crons.class, one.member().crons());
        apis.put(
                AuditTrail.class,
                new DefaultAuditTrail(
                        one.member().node().resources().audit(),
                        new AuditStore(cluster.schema, database.dataSource())));
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    /** A parameter of a method that gets an invalid argument. */
    private record Place(Class<?> api, Method method, int index) {

        Parameter parameter() {
            return method.getParameters()[index];
        }

        boolean isNullable() {
            return parameter().getAnnotatedType().isAnnotationPresent(Nullable.class);
        }

        /** Returns how the message begins. */
        String prefix() {
            return "%s.%s: %s "
                    .formatted(
                            api.getSimpleName(), method.getName(), parameter().getName());
        }
    }

    private List<Place> places(Predicate<Place> wanted) {
        var places = new ArrayList<Place>();
        for (Class<?> api : apis.keySet()) {
            for (Method method : api.getMethods()) {
                for (int i = 0; i < method.getParameterCount(); i++) {
                    places.add(new Place(api, method, i));
                }
            }
        }
        return places.stream().filter(wanted).toList();
    }

    private @Nullable Throwable call(Place place, @Nullable Object argument) {
        Parameter[] parameters = place.method.getParameters();
        Object[] arguments = Stream.of(parameters)
                .map(parameter -> parameter.getAnnotatedType().isAnnotationPresent(Nullable.class)
                        ? null
                        : VALID.get(parameter.getType()))
                .toArray();
        arguments[place.index] = argument;
        try {
            place.method.invoke(apis.get(place.api), arguments);
            return null;
        } catch (InvocationTargetException e) {
            return e.getCause();
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    private void refused(List<Place> places, @Nullable Object argument, String message) {
        SoftAssertions.assertSoftly(softly -> {
            softly.assertThat(places).isNotEmpty();
            places.forEach(place -> softly.assertThat(call(place, argument))
                    .as("%s with %s %s", place.method, place.parameter().getName(), argument)
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageStartingWith(place.prefix() + message));
        });
    }

    @Test
    void null_argument_is_refused() {
        refused(
                places(place -> !place.parameter().getType().isPrimitive() && !place.isNullable()),
                null,
                "must not be null");
    }

    @ParameterizedTest
    @ValueSource(ints = {-1, 0, Integer.MAX_VALUE})
    void number_outside_of_its_range_is_refused(int number) {
        refused(
                places(place -> place.parameter().getType() == int.class),
                number,
                "(%d) must be between 1 and ".formatted(number));
    }

    @Test
    void cursor_that_is_damaged_or_of_another_list_is_refused() {
        List<Place> cursors = places(place -> place.parameter().getName().equals("cursor"));
        for (String cursor : List.of("", "x", "!", new Cursors("test", "another list").encode(List.of("order")))) {
            refused(cursors, cursor, "'%s' is damaged or belongs to another list".formatted(cursor));
        }
    }
}
