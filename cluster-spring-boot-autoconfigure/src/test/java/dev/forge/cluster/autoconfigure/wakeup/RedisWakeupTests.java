// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import dev.forge.cluster.autoconfigure.LogLines;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.data.redis.connection.RedisConnection;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import redis.embedded.RedisServer;

@ClusterPostgres
class RedisWakeupTests extends WakeupContract {

    private @Nullable RedisServer server;

    RedisWakeupTests(TestDatabase database) {
        super(database);
    }

    @Override
    void startBroker() throws IOException {
        server = RedisServer.newRedisServer()
                .port(port)
                .bind("127.0.0.1")
                .setting("save \"\"")
                .build();
        server.start();
    }

    @Override
    void killBroker() throws IOException {
        if (server != null) {
            server.stop();
            server = null;
        }
    }

    @Override
    ApplicationContextRunner reaching(ApplicationContextRunner runner) {
        return runner.withPropertyValues("forge.cluster.wakeup.type=redis")
                .withBean(RedisConnectionFactory.class, this::factory);
    }

    RedisConnectionFactory factory() {
        return new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", port));
    }

    @Override
    void say(ApplicationContext context, String destination, String text) {
        try (RedisConnection connection =
                context.getBean(RedisConnectionFactory.class).getConnection()) {
            connection.publish(destination.getBytes(StandardCharsets.UTF_8), text.getBytes(StandardCharsets.UTF_8));
        }
    }

    @Test
    void hanging_server_is_reported_and_reconnected() throws Exception {
        startBroker();
        try (var log = new LogLines(BrokerCoordinator.class)) {
            node(Duration.ofSeconds(3)).run(context -> {
                var coordinator = context.getBean(BrokerCoordinator.class);
                // Log lines are written after the connection has changed.
                await().until(() ->
                        coordinator.isConnected() && !log.own(Level.INFO).isEmpty());
                log.clear();
                signal("STOP");
                try {
                    await().until(() -> !coordinator.isConnected());
                    await().untilAsserted(() -> assertThat(log.own(Level.WARN)).hasSize(1));
                } finally {
                    signal("CONT");
                }
                await().until(coordinator::isConnected);
                await().untilAsserted(() -> assertThat(log.own(Level.INFO)).containsExactly("Wake-ups: redis is back"));
            });
        }
    }

    private static void signal(String name) throws Exception {
        ProcessHandle redis = ProcessHandle.current()
                .descendants()
                .filter(process -> process.info().command().orElse("").contains("redis"))
                .findFirst()
                .orElseThrow();
        assertThat(new ProcessBuilder("kill", "-" + name, Long.toString(redis.pid()))
                        .start()
                        .waitFor())
                .isZero();
    }
}
