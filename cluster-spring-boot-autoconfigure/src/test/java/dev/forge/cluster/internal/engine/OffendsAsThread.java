package dev.forge.cluster.internal.engine;

import dev.forge.cluster.autoconfigure.ClusterProperties;
import java.sql.Connection;
import java.time.Instant;
import org.flywaydb.core.Flyway;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.SpringApplication;

/**
 * A thread that knows the wiring, Spring Boot, Flyway and JDBC, takes the time itself, sleeps, starts threads and has a logger
 * that may throw.
 */
public class OffendsAsThread {
    ClusterProperties properties;
    SpringApplication boot;
    Flyway flyway;
    Connection connection;
    Logger log = LoggerFactory.getLogger(OffendsAsThread.class);

    Instant now() throws InterruptedException {
        Thread.sleep(1);
        new Thread(() -> {}).start();
        return Instant.now();
    }

    /** A name that says nothing. */
    static class OffendsAsManager {}
}
