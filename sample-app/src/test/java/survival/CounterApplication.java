// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import dev.forge.cluster.job.ClusterJob;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Isolation;
import org.springframework.transaction.annotation.Transactional;

/** A node whose jobs read a counter and write the next number. Only SERIALIZABLE transactions lose no number. */
@EnableAutoConfiguration
public class CounterApplication {

    public static void main(String[] args) {
        SpringApplication.run(CounterApplication.class, args);
    }

    @Bean
    @ConditionalOnProperty(name = "counter.isolation", havingValue = "declared")
    Declared declared(JdbcClient jdbc) {
        return new Declared(jdbc);
    }

    @Bean
    @ConditionalOnProperty(name = "counter.isolation", havingValue = "statement")
    First first(JdbcClient jdbc) {
        return new First(jdbc);
    }

    /** Declares the level. */
    public static class Declared {

        private final JdbcClient jdbc;

        Declared(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob(name = "count")
        @Transactional(isolation = Isolation.SERIALIZABLE)
        public void count() {
            increment(jdbc);
        }
    }

    /** Sets the level with the first statement. */
    public static class First {

        private final JdbcClient jdbc;

        First(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob(name = "count")
        @Transactional
        public void count() {
            jdbc.sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").update();
            increment(jdbc);
        }
    }

    private static void increment(JdbcClient jdbc) {
        int n = jdbc.sql("SELECT n FROM counter").query(Integer.class).single();
        jdbc.sql("UPDATE counter SET n = ?").param(n + 1).update();
    }
}
