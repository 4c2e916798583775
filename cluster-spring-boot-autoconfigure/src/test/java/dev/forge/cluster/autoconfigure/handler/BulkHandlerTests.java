// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Handlers that take many jobs at a time. */
class BulkHandlerTests extends AbstractHandlerTests {

    private static final List<Integer> SIZES = new CopyOnWriteArrayList<>();

    BulkHandlerTests(TestDatabase database) {
        super(database);
        SIZES.clear();
    }

    record Document(int number) {}

    static class Index {

        @ClusterJob(batchSizeString = "${batch}", batchWait = "5s")
        List<String> index(List<JobContext> jobs, List<Document> documents) {
            SIZES.add(documents.size());
            return IntStream.range(0, documents.size())
                    .mapToObj(i -> documents.get(i).number + " " + jobs.get(i).id())
                    .toList();
        }
    }

    private static List<UUID> enqueue(Jobs jobs, int count) {
        return IntStream.range(0, count)
                .mapToObj(i -> jobs.enqueue(new Document(i)))
                .map(EnqueuedJob::id)
                .toList();
    }

    @Test
    void payloads_and_contexts_come_in_the_same_order() {
        runner().withBean(Index.class)
                .withPropertyValues(
                        "batch=4", "forge.cluster.worker.max-concurrent-jobs=1", "forge.cluster.worker.prefetch=10")
                .run(context -> {
                    List<UUID> ids = enqueue(context.getBean(Jobs.class), 4);
                    for (int i = 0; i < 4; i++) {
                        assertThat(ended(context, ids.get(i)).result()).isEqualTo("\"%d %s\"".formatted(i, ids.get(i)));
                    }
                    assertThat(SIZES.stream().mapToInt(Integer::intValue).sum()).isEqualTo(4);
                });
    }

    static class Store {

        private final JdbcClient jdbc;

        Store(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob(batchSize = 5, batchWait = "200ms", maxAttempts = 1)
        @Transactional
        public void store(List<Document> documents) {
            SIZES.add(documents.size());
            documents.forEach(document -> jdbc.sql("INSERT INTO documents VALUES (?)")
                    .param(document.number)
                    .update());
            if (documents.contains(new Document(2))) {
                throw new IllegalStateException("two");
            }
        }
    }

    @Test
    void transaction_of_many_jobs_commits_or_rolls_back_with_them() {
        database.jdbc()
                .sql("CREATE TABLE IF NOT EXISTS documents (number int PRIMARY KEY)")
                .update();
        database.jdbc().sql("TRUNCATE documents").update();
        runner().withBean(Store.class).run(context -> {
            List<JobInfo> jobs = enqueue(context.getBean(Jobs.class), 20).stream()
                    .map(id -> ended(context, id))
                    .toList();
            assertThat(jobs)
                    .extracting(JobInfo::status)
                    .containsExactlyElementsOf(IntStream.range(0, 20)
                            .mapToObj(i -> i == 2 ? JobStatus.FAILED : JobStatus.COMPLETED)
                            .toList());
            assertThat(database.jdbc()
                            .sql("SELECT number FROM documents ORDER BY 1")
                            .query(Integer.class)
                            .list())
                    .containsExactlyElementsOf(
                            IntStream.range(0, 20).filter(i -> i != 2).boxed().toList());
        });
    }

    static class NoList {
        @ClusterJob(batchSize = 2)
        void impossible(Document document) {}
    }

    static class OnlyContexts {
        @ClusterJob(batchSize = 2)
        void impossible(List<JobContext> jobs) {}
    }

    static class TwoLists {
        @ClusterJob(batchSize = 2)
        void impossible(List<Document> one, List<Document> two) {}
    }

    @SuppressWarnings("rawtypes")
    static class RawList {
        @ClusterJob(batchSize = 2)
        void impossible(List documents) {}
    }

    static class OneOutcome {
        @ClusterJob(batchSize = 2)
        Outcome impossible(List<Document> documents) {
            return Outcome.complete();
        }
    }

    static class FutureText {
        @ClusterJob(batchSize = 2)
        CompletableFuture<String> impossible(List<Document> documents) {
            return CompletableFuture.completedFuture("");
        }
    }

    static class MonoOutcome {
        @ClusterJob(batchSize = 2)
        Mono<Outcome> impossible(List<Document> documents) {
            return Mono.empty();
        }
    }

    static class TooMany {
        @ClusterJob(batchSize = 1_001)
        void impossible(List<Document> documents) {}
    }

    static class TooPatient {
        @ClusterJob(batchSize = 2, batchWait = "11s")
        void impossible(List<Document> documents) {}
    }

    static class WaitAlone {
        @ClusterJob(batchWait = "1s")
        void impossible(Document document) {}
    }

    static Stream<Arguments> impossible() {
        String lists = "with batchSize it takes a List of payloads, and optionally a List<JobContext>";
        String results = "with batchSize it returns nothing, or a List with a result or an Outcome for each job";
        return Stream.of(
                Arguments.of(NoList.class, lists),
                Arguments.of(OnlyContexts.class, lists),
                Arguments.of(TwoLists.class, lists),
                Arguments.of(RawList.class, lists),
                Arguments.of(OneOutcome.class, results),
                Arguments.of(FutureText.class, results),
                Arguments.of(MonoOutcome.class, results),
                Arguments.of(TooMany.class, "batchSize (1001): must be between 1 and 1000"),
                Arguments.of(TooPatient.class, "batchWait (11s): must be between 0 and 10s"),
                Arguments.of(WaitAlone.class, "batchWait needs a batchSize of more than 1"));
    }

    static class Futures {
        @ClusterJob(batchSize = 2)
        CompletableFuture<List<Document>> futureList(List<Document> documents) {
            return CompletableFuture.completedFuture(documents);
        }

        @ClusterJob(batchSize = 2)
        CompletionStage<Void> futureOfNothing(List<Document> documents) {
            return CompletableFuture.completedFuture(null);
        }

        @ClusterJob(batchSize = 2)
        CompletionStage<?> futureOfAnything(List<Document> documents) {
            return CompletableFuture.completedFuture(null);
        }

        @ClusterJob(batchSize = 2)
        Collection<Outcome> collection(List<? extends JobContext> jobs, List<? extends Document> documents) {
            return new ArrayList<>();
        }

        @ClusterJob(batchSize = 2)
        Flux<Outcome> manyValues(List<Document> documents) {
            return Flux.empty();
        }

        @ClusterJob(batchSize = 2)
        Mono<Void> nothing(List<Document> documents) {
            return Mono.empty();
        }

        @ClusterJob(batchSize = 2)
        List<Outcome> list(List<Document> documents) {
            return new ArrayList<>();
        }
    }

    @Test
    void results_may_be_a_list_nothing_or_a_future_of_these() {
        runner().withBean(Futures.class).run(context -> assertThat(context).hasNotFailed());
    }

    static class Unchecked {
        @ClusterJob(batchSize = 2, batchWait = "10s", maxAttempts = 2)
        Object unchecked(List<Document> documents) {
            SIZES.add(documents.size());
            return "done";
        }
    }

    @Test
    void result_that_fits_no_job_fails_the_jobs_instead_of_running_them_again() {
        runner().withBean(Unchecked.class).run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            List<UUID> ids = jobs.enqueueAll(List.of(new Document(1), new Document(2))).stream()
                    .map(EnqueuedJob::id)
                    .toList();
            assertThat(ids).allSatisfy(id -> {
                JobInfo job = ended(context, id);
                assertThat(job.status()).isEqualTo(JobStatus.FAILED);
                assertThat(job.lastError()).contains("for 2 jobs it returned java.lang.String");
            });
            assertThat(SIZES).containsExactly(2);
        });
    }

    @Test
    void start_up_failure_says_how_to_declare_the_method() {
        runner().withBean(NoList.class)
                .run(context -> assertThat(refusal(context.getStartupFailure()).action())
                        .contains("void impossible(List<Document> documents, List<JobContext> jobs)"));
    }

    @ParameterizedTest
    @MethodSource("impossible")
    void invalid_handler_fails_the_start_naming_its_method(Class<?> bean, String reason) {
        runner().withBean(bean)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining("@ClusterJob on " + bean.getName() + ".impossible")
                        .hasMessageContaining(reason));
    }
}
