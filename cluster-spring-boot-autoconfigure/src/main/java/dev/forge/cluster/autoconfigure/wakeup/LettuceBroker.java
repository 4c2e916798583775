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
 * Redis by way of Lettuce: two connections of its own from the application's client, one that listens and one that
 * speaks. Not those of Spring Data: they are closed with an UNSUBSCRIBE, which waits for a server that is gone, and what
 * they send waits in the shared connection until that has reconnected. Here nothing waits, and a broken connection is
 * closed before Lettuce has repaired it.
 */
record LettuceBroker(LettuceConnectionFactory factory, String place) implements Broker {

    @Override
    public String type() {
        return "redis";
    }

    @Override
    public Link open(Ear ear) {
        AbstractRedisClient client = factory.getRequiredNativeClient();
        var listening = connect(client);
        try {
            var link = new LettuceLink(listening, connect(client), place, ear);
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

    // Nobody waits for the end of what may be broken.
    private static void drop(StatefulRedisPubSubConnection<String, String> connection) {
        var unused = connection.closeAsync();
    }

    private record LettuceLink(
            StatefulRedisPubSubConnection<String, String> listening,
            StatefulRedisPubSubConnection<String, String> speaking,
            String channel,
            Ear ear)
            implements Link {

        void begin() {
            listening.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String text) {
                    ear.hear(text);
                }
            });
            var breaks = new RedisConnectionStateListener() {
                @Override
                public void onRedisDisconnected(RedisChannelHandler<?, ?> connection) {
                    ear.lost(new IllegalStateException("disconnected"));
                }
            };
            listening.addListener(breaks);
            speaking.addListener(breaks);
            watch(listening.async().subscribe(channel, own()));
        }

        @Override
        public void tellAll(String text) {
            watch(speaking.async().publish(channel, text));
        }

        @Override
        public void tellSelf(String text) {
            watch(speaking.async().publish(own(), text));
        }

        private String own() {
            return channel + ":" + ear.owner();
        }

        // A refusal; silence is noticed by the probes.
        private void watch(CompletionStage<?> command) {
            command.exceptionally(failure -> {
                ear.lost(failure);
                return null;
            });
        }

        @Override
        public void close() {
            drop(listening);
            drop(speaking);
        }
    }
}
