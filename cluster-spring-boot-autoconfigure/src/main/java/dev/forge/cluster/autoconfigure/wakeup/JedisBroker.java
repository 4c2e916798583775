// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
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
 * Uses Redis through Jedis, where a subscription blocks a thread. If the server hangs, that thread remains until the server responds
 * or the connection breaks; messages it receives then are ignored.
 */
record JedisBroker(RedisConnectionFactory factory, String destination) implements Broker {

    @Override
    public String type() {
        return "redis";
    }

    @Override
    public Link open(Receiver receiver) {
        RedisConnection publishing = factory.getConnection();
        try {
            var link = new JedisLink(publishing, factory.getConnection(), destination, receiver);
            var executor = new SimpleAsyncTaskExecutor("forge-cluster-wakeup-listen-");
            executor.setDaemon(true);
            executor.execute(link::listen);
            return link;
        } catch (RuntimeException e) {
            publishing.close();
            throw e;
        }
    }

    private static final class JedisLink implements Link, MessageListener, SubscriptionListener {

        private final RedisConnection publishing;
        private final RedisConnection listening;
        private final String channel;
        private final Receiver receiver;
        private volatile boolean closed;

        JedisLink(RedisConnection publishing, RedisConnection listening, String channel, Receiver receiver) {
            this.publishing = publishing;
            this.listening = listening;
            this.channel = channel;
            this.receiver = receiver;
        }

        void listen() {
            try (listening) {
                listening.subscribe(this, bytes(channel), bytes(own()));
                receiver.lost(new IllegalStateException("the subscription has ended"));
            } catch (RuntimeException e) {
                receiver.lost(e);
            }
        }

        @Override
        public void onMessage(Message message, byte @Nullable [] pattern) {
            receiver.receive(new String(message.getBody(), StandardCharsets.UTF_8));
        }

        @Override
        public void onChannelSubscribed(byte[] channel, long count) {
            if (closed) {
                unsubscribe();
            }
        }

        @Override
        public void publish(String text) {
            publishing.publish(bytes(channel), bytes(text));
        }

        @Override
        public void sendToSelf(String text) {
            publishing.publish(bytes(own()), bytes(text));
        }

        private String own() {
            return channel + ":" + receiver.owner();
        }

        private static byte[] bytes(String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            closed = true;
            try (publishing) {
                unsubscribe();
            }
        }

        // Makes the listening thread return and close its connection.
        private void unsubscribe() {
            Subscription subscription = listening.getSubscription();
            if (subscription != null) {
                subscription.unsubscribe();
            }
        }
    }
}
