// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.cron.CronTarget;
import java.sql.Timestamp;
import org.springframework.context.annotation.Profile;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** Writes one report per slot, even if the leader changes: the report and the run's completion share one transaction. */
@Component
class Reports {

    private final JdbcClient jdbc;

    Reports(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    @ClusterCron(name = "minute-report", value = "* * * * *")
    @Transactional
    public void everyMinute(CronContext cron) {
        write(cron);
    }

    void write(CronContext cron) {
        cron.fenced(() -> jdbc.sql("INSERT INTO reports (cron, slot, node, term) VALUES (?, ?, ?, ?)")
                .params(cron.name(), Timestamp.from(cron.slot()), cron.job().nodeName(), cron.term())
                .update());
    }

    /** Crons that fire every second, for demonstrations. */
    @Component
    @Profile("heartbeat")
    static class Heartbeats {

        private final Reports reports;

        Heartbeats(Reports reports) {
            this.reports = reports;
        }

        @ClusterCron(name = "heartbeat-report", every = "1s")
        @Transactional
        public void onTheLeader(CronContext cron) {
            reports.write(cron);
        }

        @ClusterCron(name = "heartbeat-report-anywhere", every = "1s", target = CronTarget.ANY_WORKER)
        @Transactional
        public void onAnyWorker(CronContext cron) {
            reports.write(cron);
        }
    }
}
