// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import java.util.concurrent.TimeUnit;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** The job handlers. Any worker of the cluster may run them. */
@Component
class OrderWork {

    private final JdbcClient jdbc;

    OrderWork(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    /** Writes the ledger row and completes the job in one transaction: a completed job has one row, even if nodes fail. */
    @ClusterJob(name = "process-order")
    @Transactional
    public void process(ProcessOrder order, JobContext job) throws InterruptedException {
        TimeUnit.MILLISECONDS.sleep(order.workMillis());
        if (job.attempt() <= order.failTimes()) {
            throw new IllegalStateException("attempt %d fails as requested".formatted(job.attempt()));
        }
        jdbc.sql("INSERT INTO ledger (order_id, job_id, attempt, node) VALUES (?, ?, ?, ?)")
                .params(order.orderId(), job.id(), job.attempt(), job.nodeName())
                .update();
        jdbc.sql("UPDATE orders SET status = 'processed' WHERE id = ?")
                .param(order.orderId())
                .update();
    }
}
