// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.job.OffendsAsApi;
import java.sql.Connection;
import java.time.Instant;
import org.flywaydb.core.Flyway;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.SpringApplication;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** A class of a slice that breaks every rule for internal classes. */
public class OffendsAsSlice {
    JobHandlers higherSlice;
    OffendsAsApi cycle;
    ClusterProperties properties;
    SpringApplication boot;
    Flyway flyway;
    Connection connection;
    Logger log = LoggerFactory.getLogger(OffendsAsSlice.class);

    Instant now() throws InterruptedException {
        Thread.sleep(1);
        new Thread(() -> {}).start();
        return Instant.now();
    }

    boolean joins() {
        return TransactionSynchronizationManager.isActualTransactionActive();
    }

    /** A class with a meaningless name. */
    static class OffendsAsManager {}
}
