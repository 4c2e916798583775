// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.concurrent.CompletionStage;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * Uses Redis through Lettuce: two connections of the application's client, one that listens and one that publishes. Connections of
 * Spring Data are not used: closing them sends an UNSUBSCRIBE and waits for a server that may be gone, and their messages wait in the
 * shared connection until it has reconnected. Here nothing waits, and a broken connection is closed before Lettuce repairs it.
 */
record LettuceBroker(LettuceConnectionFactory factory, String destination) implements Broker {

    @Override
    public String type() {
        return "redis";
    }

    @Override
    public Link open(Receiver receiver) {
        AbstractRedisClient client = factory.getRequiredNativeClient();
        var listening = connect(client);
        try {
            var link = new LettuceLink(listening, connect(client), destination, receiver);
            link.begin();
            return link;
        } catch (RuntimeException e) {
            drop(listening);
            throw e;
        }
    }

    private static StatefulRedisPubSubConnection<String, String> connect(AbstractRedisClient client) {
        return client instanceof RedisClusterClient cluster
                ? cluster.connectPubSub(StringCodec.UTF8)
                : ((RedisClient) client).connectPubSub(StringCodec.UTF8);
    }

    // Does not wait: the connection may be broken.
    private static void drop(StatefulRedisPubSubConnection<String, String> connection) {
        var unused = connection.closeAsync();
    }

    private record LettuceLink(
            StatefulRedisPubSubConnection<String, String> listening,
            StatefulRedisPubSubConnection<String, String> publishing,
            String channel,
            Receiver receiver)
            implements Link {

        void begin() {
            listening.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String text) {
                    receiver.receive(text);
                }
            });
            var breaks = new RedisConnectionStateListener() {
                @Override
                public void onRedisDisconnected(RedisChannelHandler<?, ?> connection) {
                    receiver.lost(new IllegalStateException("disconnected"));
                }
            };
            listening.addListener(breaks);
            publishing.addListener(breaks);
            watch(listening.async().subscribe(channel, own()));
        }

        @Override
        public void publish(String text) {
            watch(publishing.async().publish(channel, text));
        }

        @Override
        public void sendToSelf(String text) {
            watch(publishing.async().publish(own(), text));
        }

        private String own() {
            return channel + ":" + receiver.owner();
        }

        // Notices a rejected command; probes notice a command without a response.
        private void watch(CompletionStage<?> command) {
            command.exceptionally(failure -> {
                receiver.lost(failure);
                return null;
            });
        }

        @Override
        public void close() {
            drop(listening);
            drop(publishing);
        }
    }
}
