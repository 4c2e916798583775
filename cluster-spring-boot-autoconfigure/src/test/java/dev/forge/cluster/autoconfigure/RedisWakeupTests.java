package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
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
    void say(ApplicationContext context, String place, String text) {
        try (RedisConnection connection =
                context.getBean(RedisConnectionFactory.class).getConnection()) {
            connection.publish(place.getBytes(StandardCharsets.UTF_8), text.getBytes(StandardCharsets.UTF_8));
        }
    }
}
