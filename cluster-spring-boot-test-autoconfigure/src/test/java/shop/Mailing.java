// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import java.time.Duration;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** Handlers of jobs. */
@Component
class Mailing {

    private final Jobs jobs;
    private final JdbcClient jdbc;

    Mailing(Jobs jobs, JdbcClient jdbc) {
        this.jobs = jobs;
        this.jdbc = jdbc;
    }

    record SendMail(String to, String text) {}

    record SendReminder(String to) {}

    record Ship(String customer) {}

    record Flaky(int succeedsInAttempt) {}

    @ClusterJob
    String send(SendMail mail) {
        if (mail.to.isBlank()) {
            throw new IllegalArgumentException("no recipient");
        }
        jobs.enqueue(new SendReminder(mail.to), JobOptions.defaults().withDelay(Duration.ofDays(3)));
        return "sent to " + mail.to;
    }

    @ClusterJob
    void remind(SendReminder reminder) {
        jdbc.sql("INSERT INTO orders (customer, status) VALUES (?, 'reminded')")
                .params(reminder.to)
                .update();
    }

    @ClusterJob
    @Transactional
    void ship(Ship order) {
        jdbc.sql("INSERT INTO orders (customer, status) VALUES (?, 'shipped')")
                .params(order.customer)
                .update();
    }

    @ClusterJob(name = "flaky", maxAttempts = 5)
    void flaky(Flaky flaky, dev.forge.cluster.job.JobContext job) {
        if (job.attempt() < flaky.succeedsInAttempt) {
            throw new IllegalStateException("attempt " + job.attempt());
        }
    }
}
