// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Groups and limits that handlers declare. */
class GroupHandlerTests extends AbstractHandlerTests {

    GroupHandlerTests(TestDatabase database) {
        super(database);
    }

    record Sync(String customer, int size) {}

    record Tagged(Map<String, String> tags) {}

    static class Work {

        @ClusterJob(
                group = "#payload.customer",
                concurrency = 20,
                groupConcurrencyString = "${most}",
                groupRate = "10/15m",
                groupBurst = 3)
        String sync(Sync sync, JobContext job) {
            return job.group();
        }

        @ClusterJob(group = "#payload.tags['region'] ?: 'none'")
        String byTag(Tagged tagged, JobContext job) {
            return job.group();
        }

        @ClusterJob(batchSize = 10, group = "#payload.length() > 3 ? #payload.substring(0, 3) : null")
        List<String> byPrefix(List<String> texts, List<JobContext> jobs) {
            return jobs.stream().map(job -> String.valueOf(job.group())).toList();
        }
    }

    @Test
    void group_and_limits_are_those_of_the_annotation() {
        runner().withBean(Work.class).withPropertyValues("most=2").run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            JobOperations operations = context.getBean(JobOperations.class);
            assertThat(operations.limits("sync"))
                    .isEqualTo(new JobLimits(20, 2, new RateLimit(10, Duration.ofMinutes(15), 3)));
            assertThat(operations.limits("by-prefix")).isEqualTo(JobLimits.none());

            assertThat(ended(context, jobs.enqueue(new Sync("acme", 1)).id()).result())
                    .isEqualTo("\"acme\"");
            JobOptions own = JobOptions.defaults().withGroup("own");
            assertThat(ended(context, jobs.enqueue(new Sync("acme", 1), own).id())
                            .result())
                    .isEqualTo("\"own\"");
            assertThat(ended(
                                    context,
                                    jobs.enqueue(new Tagged(Map.of("region", "eu")))
                                            .id())
                            .result())
                    .isEqualTo("\"eu\"");
            assertThat(ended(context, jobs.enqueueNamed("by-prefix", "abcdef").id())
                            .result())
                    .isEqualTo("\"abc\"");
            assertThat(ended(context, jobs.enqueueNamed("by-prefix", "ab").id()).group())
                    .isNull();
        });
    }

    static class UnknownVariable {
        @ClusterJob(group = "#order.customer")
        void run(Sync sync) {}
    }

    static class UnknownProperty {
        @ClusterJob(group = "#payload.client")
        void run(Sync sync) {}
    }

    static class Unparsable {
        @ClusterJob(group = "#payload.")
        void run(Sync sync) {}
    }

    static class NoPayload {
        @ClusterJob(group = "#payload.customer")
        void run() {}
    }

    static class WrongRate {
        @ClusterJob(groupRate = "often")
        void run(Sync sync) {}
    }

    static class BurstWithoutRate {
        @ClusterJob(groupBurst = 5)
        void run(Sync sync) {}
    }

    static class OrderedInParallel {
        @ClusterJob(ordered = true, groupConcurrency = 2)
        void run(Sync sync) {}
    }

    static class NoConcurrency {
        @ClusterJob(concurrency = -1)
        void run(Sync sync) {}
    }

    static Stream<Arguments> wrong() {
        return Stream.of(
                Arguments.of(UnknownVariable.class, "group (#order.customer): #order is unknown; use #payload"),
                Arguments.of(UnknownProperty.class, "has no property 'client'; it has [customer, size]"),
                Arguments.of(Unparsable.class, "group (#payload.)"),
                Arguments.of(NoPayload.class, "the handler takes no payload; use JobOptions.withGroup"),
                Arguments.of(WrongRate.class, "groupRate (often): is not a rate such as 10/s, 100/m or 1/15m"),
                Arguments.of(BurstWithoutRate.class, "groupBurst (5) needs a groupRate"),
                Arguments.of(
                        OrderedInParallel.class, "groupConcurrency (2): the jobs of a group run one after the other"),
                Arguments.of(NoConcurrency.class, "concurrency (-1)"));
    }

    @ParameterizedTest
    @MethodSource("wrong")
    void wrong_declaration_fails_the_start(Class<?> handlers, String reason) {
        runner().withBean(handlers)
                .run(context -> assertThat(refusal(context.getStartupFailure()).getMessage())
                        .contains(handlers.getSimpleName() + ".run")
                        .contains(reason));
    }
}
