package dev.forge.cluster.autoconfigure.wakeup;

import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.data.redis.connection.Message;
import org.springframework.data.redis.connection.MessageListener;
import org.springframework.data.redis.connection.RedisConnection;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.Subscription;
import org.springframework.data.redis.connection.SubscriptionListener;

/**
 * Redis by way of Jedis, where listening takes a thread that does nothing else. If the server hangs, that thread stays
 * until it answers or the connection breaks; nobody minds what it hears by then.
 */
record JedisBroker(RedisConnectionFactory factory, String place) implements Broker {

    @Override
    public String type() {
        return "redis";
    }

    @Override
    public Link open(Ear ear) {
        RedisConnection speaking = factory.getConnection();
        try {
            var link = new JedisLink(speaking, factory.getConnection(), place, ear);
            var executor = new SimpleAsyncTaskExecutor("forge-cluster-wakeup-listen-");
            executor.setDaemon(true);
            executor.execute(link::listen);
            return link;
        } catch (RuntimeException e) {
            speaking.close();
            throw e;
        }
    }

    private static final class JedisLink implements Link, MessageListener, SubscriptionListener {

        private final RedisConnection speaking;
        private final RedisConnection listening;
        private final String channel;
        private final Ear ear;
        private volatile boolean closed;

        JedisLink(RedisConnection speaking, RedisConnection listening, String channel, Ear ear) {
            this.speaking = speaking;
            this.listening = listening;
            this.channel = channel;
            this.ear = ear;
        }

        void listen() {
            try (listening) {
                listening.subscribe(this, bytes(channel), bytes(own()));
                ear.lost(new IllegalStateException("the subscription has ended"));
            } catch (RuntimeException e) {
                ear.lost(e);
            }
        }

        @Override
        public void onMessage(Message message, byte @Nullable [] pattern) {
            ear.hear(new String(message.getBody(), StandardCharsets.UTF_8));
        }

        @Override
        public void onChannelSubscribed(byte[] channel, long count) {
            if (closed) {
                unsubscribe();
            }
        }

        @Override
        public void tellAll(String text) {
            speaking.publish(bytes(channel), bytes(text));
        }

        @Override
        public void tellSelf(String text) {
            speaking.publish(bytes(own()), bytes(text));
        }

        private String own() {
            return channel + ":" + ear.owner();
        }

        private static byte[] bytes(String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            closed = true;
            try (speaking) {
                unsubscribe();
            }
        }

        // Then the thread that listens returns, and closes its connection.
        private void unsubscribe() {
            Subscription subscription = listening.getSubscription();
            if (subscription != null) {
                subscription.unsubscribe();
            }
        }
    }
}
