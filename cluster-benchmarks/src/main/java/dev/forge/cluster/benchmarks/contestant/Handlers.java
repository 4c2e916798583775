// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.contestant.Ours.Trivial;
import dev.forge.cluster.job.ClusterJob;
import java.util.List;
import org.springframework.transaction.annotation.Transactional;

/** Handlers of the same job, as users write them. */
public final class Handlers {

    private Handlers() {}

    /** A handler without a transaction. */
    public static class Plain {

        private final Runnable work;

        public Plain(Runnable work) {
            this.work = work;
        }

        @ClusterJob(name = Ours.JOB)
        public void run(Trivial job) {
            work.run();
        }
    }

    /** A handler with a transaction for each job. */
    static class InTransaction {

        private final Runnable work;

        InTransaction(Runnable work) {
            this.work = work;
        }

        @Transactional
        @ClusterJob(name = Ours.JOB)
        void run(Trivial job) {
            work.run();
        }
    }

    /** A handler with a transaction for up to a hundred jobs. */
    static class Bulk {

        static final int SIZE = 100;

        private final Runnable work;

        Bulk(Runnable work) {
            this.work = work;
        }

        @Transactional
        @ClusterJob(name = Ours.JOB, batchSize = SIZE)
        void run(List<Trivial> jobs) {
            jobs.forEach(job -> work.run());
        }
    }
}
