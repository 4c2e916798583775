// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.Page;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.autoconfigure.RecordedClusterAutoConfiguration;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.boot.data.jpa.test.autoconfigure.DataJpaTest;
import org.springframework.boot.jdbc.test.autoconfigure.AutoConfigureTestDatabase;
import org.springframework.context.annotation.ClassPathScanningCandidateComponentProvider;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionTemplate;
import shop.Mailing.SendMail;
import shop.Mailing.Ship;

/** A slice with a database of its own: the cluster is not part of it, and {@code Jobs} records. */
@DataJpaTest
@AutoConfigureTestDatabase(replace = AutoConfigureTestDatabase.Replace.NONE)
@ClusterPostgres(migrated = false)
class DataSliceTests {

    @Test
    void jobs_are_recorded(@Autowired Jobs jobs) {
        jobs.enqueue(new Ship("ada"));
        assertThat(jobs).enqueued(Ship.class).once();
    }

    @Test
    @Transactional(propagation = Propagation.NOT_SUPPORTED)
    void jobs_of_a_rolled_back_transaction_are_forgotten(@Autowired Jobs jobs, @Autowired DataSource database) {
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database));
        JobOptions unique = JobOptions.defaults().withUniqueKey("ada", UniquePolicy.REPLACE);
        jobs.enqueue(new Ship("first"), unique);
        transaction.executeWithoutResult(status -> {
            jobs.enqueue(new SendMail("ada", "hello"));
            jobs.enqueue(new Ship("second"), unique);
            assertThat(jobs)
                    .enqueued(Ship.class)
                    .withPayload(new Ship("second"))
                    .once();
            status.setRollbackOnly();
        });
        assertThat(jobs).neverEnqueued(SendMail.class);
        assertThat(jobs).enqueued(Ship.class).withPayload(new Ship("first")).once();
        transaction.executeWithoutResult(status -> jobs.enqueue(new SendMail("ada", "hello")));
        assertThat(jobs).enqueued(SendMail.class).once();
    }

    @Test
    @Transactional(propagation = Propagation.NOT_SUPPORTED)
    void jobs_after_a_savepoint_are_forgotten(@Autowired Jobs jobs, @Autowired DataSource database) {
        var manager = new JdbcTransactionManager(database);
        var nested = new TransactionTemplate(manager);
        nested.setPropagationBehavior(TransactionDefinition.PROPAGATION_NESTED);
        new TransactionTemplate(manager).executeWithoutResult(outer -> {
            nested.executeWithoutResult(inner -> {
                jobs.enqueue(new Ship("lost"));
                inner.setRollbackOnly();
            });
            jobs.enqueue(new Ship("ada"));
            nested.executeWithoutResult(inner -> {
                jobs.enqueue(new Ship("lost"));
                inner.setRollbackOnly();
            });
            nested.executeWithoutResult(inner -> jobs.enqueue(new Ship("eve")));
        });
        assertThat(customers(jobs)).containsExactly("ada", "eve");
    }

    @Test
    void unique_key_keeps_the_first_job(@Autowired Jobs jobs) {
        JobOptions unique = JobOptions.defaults().withUniqueKey("k");
        EnqueuedJob first = jobs.enqueue(new Ship("ada"), unique);
        EnqueuedJob second = jobs.enqueue(new Ship("eve"), unique);
        assertThat(first.created()).isTrue();
        assertThat(second).isEqualTo(new EnqueuedJob(first.id(), false));
        assertThat(jobs.enqueue(new SendMail("ada", "hello"), unique).created()).isTrue();
        assertThat(customers(jobs)).containsExactly("ada");
        assertThatThrownBy(() -> jobs.enqueueAll(List.of(new Ship("a"), new Ship("b")), unique))
                .isInstanceOf(JobRejectedException.class);
    }

    @Test
    void filters_and_pages_are_those_of_the_cluster(@Autowired Jobs jobs, @Autowired JobOperations operations) {
        UUID ada = jobs.enqueue(new Ship("ada"), JobOptions.defaults().withTags("express", "gift"))
                .id();
        jobs.enqueue(new Ship("eve"), JobOptions.defaults().withMetadata("shop", "1"));
        jobs.enqueue(new Ship("bob"), JobOptions.defaults().withGroup("g"));
        JobFilter all = JobFilter.all();
        assertThat(operations.search(all.withStatuses(JobStatus.FAILED), 10).items())
                .isEmpty();
        assertThat(operations.search(all.withError("x"), 10).items()).isEmpty();
        assertThat(operations.search(all.withTags("gift"), 10).items())
                .extracting(JobInfo::id)
                .containsExactly(ada);
        assertThat(operations.count(all.withMetadata("shop", "1")).jobs()).isEqualTo(1);
        assertThat(operations.count(all.withGroup("other")).jobs()).isZero();
        assertThat(operations.search(all.withIds(List.of(ada)), 10).items()).hasSize(1);
        Page<JobInfo> page = operations.search(all, 2);
        assertThat(page.items()).hasSize(2).doesNotContain(jobs.find(ada).orElseThrow());
        Page<JobInfo> last = operations.search(all, 2, page.next());
        assertThat(last.items()).extracting(JobInfo::id).containsExactly(ada);
        assertThat(last.next()).isNull();
    }

    @Test
    void jobs_are_in_the_order_of_enqueueing(@Autowired Jobs jobs) {
        List<String> names = IntStream.range(0, 1_200).mapToObj(i -> "c" + i).toList();
        jobs.enqueueAll(names.stream().map(Ship::new).toList());
        assertThat(customers(jobs)).containsExactlyElementsOf(names);
    }

    private static List<String> customers(Jobs jobs) {
        return assertThat(jobs).enqueued(Ship.class).jobs().stream()
                .map(job -> job.payload().replaceAll(".*:\\s*\"|\"}", ""))
                .toList();
    }

    @Test
    void scan_finds_no_recorder() {
        assertThat(new ClassPathScanningCandidateComponentProvider(true)
                        .findCandidateComponents("dev.forge.cluster.test"))
                .extracting(BeanDefinition::getBeanClassName)
                .doesNotContain(RecordedClusterAutoConfiguration.class.getName());
    }
}
