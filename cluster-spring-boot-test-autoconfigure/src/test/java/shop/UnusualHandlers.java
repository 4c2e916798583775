// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.springframework.stereotype.Component;
import shop.Mailing.Ship;

/** Handlers that the kit must cope with. */
@Component
class UnusualHandlers {

    private final Jobs jobs;

    UnusualHandlers(Jobs jobs) {
        this.jobs = jobs;
    }

    record Slow(long millis) {}

    record Forgotten(String text) {}

    record Delegated(String customer) {}

    @ClusterJob
    String slow(Slow slow) throws InterruptedException {
        TimeUnit.MILLISECONDS.sleep(slow.millis);
        return "done";
    }

    record Endless(String text) {}

    @ClusterJob(timeout = "200ms", maxAttempts = 1)
    void endless(Endless endless) throws InterruptedException {
        TimeUnit.MINUTES.sleep(1);
    }

    @ClusterJob(retention = "0s")
    String forget(Forgotten forgotten) {
        return forgotten.text;
    }

    @ClusterJob
    void delegate(Delegated delegated) {
        CompletableFuture.runAsync(() -> jobs.enqueue(new Ship(delegated.customer)))
                .join();
    }
}
