// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.workflow.Step;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Arguments of the methods that change options. */
class OptionsTests {

    private static final Duration SECOND = Duration.ofSeconds(1);

    private static final List<Object> OPTIONS = List.of(
            JobOptions.defaults(),
            JobBatchOptions.named("import"),
            BulkOptions.defaults(),
            JobLimits.none(),
            CronDefinition.cron("nightly", "@daily"),
            RateLimit.of(1, SECOND),
            Step.of("charge", String.class, () -> "done"));

    private static final Map<Class<?>, Object> VALUES = Map.ofEntries(
            Map.entry(int.class, 1),
            Map.entry(long.class, 1L),
            Map.entry(String.class, "text"),
            Map.entry(Object.class, "text"),
            Map.entry(Duration.class, SECOND),
            Map.entry(UniquePolicy.class, UniquePolicy.KEEP),
            Map.entry(JobOptions.class, JobOptions.defaults()));

    /** Returns a call for each parameter that does not allow null. */
    static Stream<Arguments> calls() {
        return OPTIONS.stream()
                .flatMap(options -> Arrays.stream(options.getClass().getMethods())
                        .filter(method -> method.getName().startsWith("with"))
                        .filter(method -> !Modifier.isStatic(method.getModifiers()))
                        .flatMap(method -> IntStream.range(0, method.getParameterCount())
                                .filter(parameter -> isRequired(method, parameter))
                                .mapToObj(parameter -> Arguments.of(options, method, parameter))));
    }

    private static boolean isRequired(Method method, int parameter) {
        return !method.getParameterTypes()[parameter].isPrimitive()
                && !method.getAnnotatedParameterTypes()[parameter].isAnnotationPresent(Nullable.class);
    }

    @ParameterizedTest
    @MethodSource("calls")
    void null_is_rejected_with_the_names_of_method_and_parameter(Object options, Method method, int parameter) {
        Object[] arguments =
                Arrays.stream(method.getParameterTypes()).map(VALUES::get).toArray();
        arguments[parameter] = null;
        Throwable failure = catchThrowable(() -> method.invoke(options, arguments));
        assertThat(failure).isInstanceOf(InvocationTargetException.class);
        assertThat(failure.getCause())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("%s.%s: %s must not be null"
                        .formatted(
                                options.getClass().getSimpleName(),
                                method.getName(),
                                method.getParameters()[parameter].getName()));
    }

    @Test
    void all_kinds_of_options_have_parameters_to_check() {
        assertThat(calls().map(call -> call.get()[0].getClass().getSimpleName()))
                .contains("JobOptions", "JobBatchOptions", "BulkOptions", "JobLimits", "CronDefinition", "Step");
    }

    private static void outOfRange(String message, ThrowingCallable call) {
        assertThatIllegalArgumentException().isThrownBy(call).withMessage(message);
    }

    @Test
    void value_out_of_range_is_rejected_with_the_value_and_the_range() {
        JobOptions job = JobOptions.defaults();
        outOfRange(
                "JobOptions.withDelay: delay (PT-1S) must be between PT0S and PT876000H",
                () -> job.withDelay(SECOND.negated()));
        outOfRange(
                "JobOptions.withDelay: delay (PT876001H) must be between PT0S and PT876000H",
                () -> job.withDelay(Duration.ofHours(876_001)));
        outOfRange(
                "JobOptions.withTime: at (3001-01-01T00:00:00Z) must be between 1970-01-01T00:00:00Z and 3000-01-01T00:00:00Z",
                () -> job.withTime(Instant.parse("3001-01-01T00:00:00Z")));
        outOfRange("JobOptions.withMaxAttempts: maxAttempts (0) must be at least 1", () -> job.withMaxAttempts(0));
        outOfRange(
                "JobOptions.withUniqueFor: window (PT0S) must be between PT0.001S and PT8784H",
                () -> job.withUniqueFor(Duration.ZERO));
        outOfRange(
                "JobOptions.withUniqueFor: window (PT8808H) must be between PT0.001S and PT8784H",
                () -> job.withUniqueFor(Duration.ofDays(367)));
        outOfRange(
                "JobOptions.withDebounce: delay (PT2S) must be between PT0.001S and PT1S",
                () -> job.withDebounce(SECOND.multipliedBy(2), SECOND));
        outOfRange(
                "JobOptions.withDebounce: max (PT8808H) must be between PT0.001S and PT8784H",
                () -> job.withDebounce(SECOND, Duration.ofDays(367)));
        outOfRange(
                "JobOptions.withTags: length of tag (101) must be between 1 and 100",
                () -> job.withTags("x".repeat(101)));
        String[] eleven = IntStream.range(0, 11).mapToObj(String::valueOf).toArray(String[]::new);
        outOfRange("JobOptions.withTags: number of tags (11) must be between 0 and 10", () -> job.withTags(eleven));
        outOfRange(
                "JobOptions.withStartAfterSuccessOf: number of jobs (0) must be between 1 and 1000",
                job::withStartAfterSuccessOf);
        CronDefinition cron = CronDefinition.cron("nightly", "@daily");
        outOfRange(
                "CronDefinition.withCatchUpLimit: limit (1001) must be between 1 and 1000",
                () -> cron.withCatchUpLimit(1_001));
        outOfRange(
                "CronDefinition.withJitter: jitter (PT48H) must be between PT0S and PT24H",
                () -> cron.withJitter(Duration.ofDays(2)));
        outOfRange(
                "CronDefinition.withMaxAttempts: maxAttempts (0) must be between 1 and 2147483647",
                () -> cron.withMaxAttempts(0));
        outOfRange(
                "CronDefinition.withTimeout: timeout (PT0S) must be between PT0.001S and PT876600H",
                () -> cron.withTimeout(Duration.ZERO));
        outOfRange(
                "CronDefinition.withRetention: retention (PT-1S) must be between PT0S and PT876600H",
                () -> cron.withRetention(SECOND.negated()));
        Step<String> step = Step.of("charge", String.class, () -> "done");
        outOfRange("Step.withMaxAttempts: maxAttempts (0) must be at least 1", () -> step.withMaxAttempts(0));
        outOfRange("Step.withTimeout: timeout (PT0S) must be positive", () -> step.withTimeout(Duration.ZERO));
        outOfRange("Step.withBackoff: delay (PT-1S) must not be negative", () -> step.withBackoff(SECOND.negated()));
    }

    @Test
    void predecessor_that_is_null_is_rejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> JobOptions.defaults().withStartAfterEndOf(UUID.randomUUID(), null))
                .withMessage("JobOptions.withStartAfterEndOf: jobs[] must not be null");
    }
}
