// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package storm;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobName;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.transaction.annotation.Transactional;

/** A node whose jobs write a row for every execution; the job "poison" kills its node. */
@SpringBootApplication
public class StormApplication {

    public static void main(String[] args) {
        SpringApplication.run(StormApplication.class, args);
    }

    /** The payload of the jobs. */
    @JobName("plain")
    public record Work(long millis) {}

    @Bean
    Jobs jobs(JdbcClient jdbc) {
        return new Jobs(jdbc);
    }

    @Bean
    StormBatches batches(dev.forge.cluster.job.Jobs jobs, JdbcClient jdbc) {
        return new StormBatches(jobs, jdbc);
    }

    /** The job handlers. */
    public static class Jobs {

        private static final Logger log = LoggerFactory.getLogger(Jobs.class);

        private final JdbcClient jdbc;

        Jobs(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob(name = "transactional", maxAttempts = 1000)
        @Transactional
        public void transactional(Work work, JobContext job) throws InterruptedException {
            effect(job);
            // Sleeps after the effect is written and before it is committed, when a freeze does the most harm.
            TimeUnit.MILLISECONDS.sleep(work.millis());
        }

        /** Writes the effects of all jobs before it sleeps, so a call that is killed or frozen affects the whole batch. */
        @ClusterJob(name = "bulk", batchSize = 20, batchWait = "20ms", maxAttempts = 1000)
        @Transactional
        public void bulk(List<Work> works, List<JobContext> jobs) throws InterruptedException {
            jobs.forEach(this::effect);
            TimeUnit.MILLISECONDS.sleep(works.get(0).millis());
        }

        @ClusterJob(name = "plain", maxAttempts = 1000)
        public void plain(Work work, JobContext job) throws InterruptedException {
            TimeUnit.MILLISECONDS.sleep(work.millis());
            effect(job);
        }

        /** Runs until the test releases it, so the test does not depend on the speed of the machine. */
        @ClusterJob(name = "held-transactional")
        @Transactional
        public void heldTransactional(JobContext job) throws InterruptedException {
            effect(job);
            awaitRelease(job);
        }

        @ClusterJob(name = "held-plain")
        public void heldPlain(JobContext job) throws InterruptedException {
            awaitRelease(job);
            effect(job);
        }

        private void awaitRelease(JobContext job) throws InterruptedException {
            log.info("Holds job {}", job.id());
            while (!jdbc.sql("SELECT EXISTS (SELECT FROM released)")
                    .query(Boolean.class)
                    .single()) {
                TimeUnit.MILLISECONDS.sleep(50);
            }
        }

        @ClusterJob(name = "poison")
        public void poison() {
            Runtime.getRuntime().halt(1);
        }

        private void effect(JobContext job) {
            jdbc.sql("INSERT INTO effects (job, epoch, node) VALUES (?, ?, ?)")
                    .params(job.id(), job.epoch(), job.nodeName())
                    .update();
        }
    }

    /** Removes the guards of the statement that completes a transactional job, to show that they are needed. */
    @Bean
    @ConditionalOnProperty(name = "guards", havingValue = "false")
    static BeanPostProcessor unguarded() {
        return new BeanPostProcessor() {
            @Override
            public Object postProcessAfterInitialization(Object bean, String name) {
                return bean instanceof DataSource source ? new Unguarded(source) : bean;
            }
        };
    }

    private static final class Unguarded extends DelegatingDataSource {

        Unguarded(DataSource guarded) {
            super(guarded);
        }

        @Override
        public Connection getConnection() throws SQLException {
            Connection connection = super.getConnection();
            return (Connection) Proxy.newProxyInstance(
                    Unguarded.class.getClassLoader(), new Class<?>[] {Connection.class}, (proxy, method, arguments) -> {
                        if (method.getName().equals("prepareStatement")) {
                            arguments[0] = withoutGuards((String) arguments[0]);
                        }
                        try {
                            return method.invoke(connection, arguments);
                        } catch (InvocationTargetException e) {
                            throw e.getTargetException();
                        }
                    });
        }

        private static String withoutGuards(String sql) {
            String held = "AND j\\.worker_id IS NOT DISTINCT FROM \\?\\s+AND j\\.status NOT IN \\([^)]*\\)";
            return sql.replaceFirst("(?s)AND j\\.claim_epoch = d\\.epoch " + held, "AND ?::uuid IS NOT NULL")
                    .replaceFirst(
                            "(?s)AND j\\.claim_epoch = \\? " + held,
                            "AND ?::bigint IS NOT NULL AND ?::uuid IS NOT NULL");
        }
    }
}
