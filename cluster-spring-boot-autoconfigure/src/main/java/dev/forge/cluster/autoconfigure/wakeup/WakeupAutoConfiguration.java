package dev.forge.cluster.autoconfigure.wakeup;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.WakeupChannel;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.JobPriority;
import jakarta.jms.ConnectionFactory;
import org.springframework.beans.factory.NoUniqueBeanDefinitionException;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.jms.connection.SingleConnectionFactory;
import org.springframework.util.ClassUtils;

/**
 * What wakes workers instead of PostgreSQL, if the application has chosen so and has no {@link ClusterCoordinator} of its
 * own. A choice that cannot be met fails the start: polling in its stead would look like a slow cluster.
 */
@AutoConfiguration(before = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
@ConditionalOnMissingBean(ClusterCoordinator.class)
public final class WakeupAutoConfiguration {

    private static final String KEY = "forge.cluster.wakeup.type";

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = KEY, havingValue = "none")
    static class NoneConfiguration {

        @Bean
        ClusterCoordinator clusterCoordinator() {
            return new Silence();
        }
    }

    /** Nobody tells anybody; workers poll. */
    public static final class Silence implements ClusterCoordinator, WakeupChannel {

        @Override
        public String type() {
            return "none";
        }

        @Override
        public void notifyNewWork(JobPriority priority) {
            // They will find it.
        }

        @Override
        public void registerWakeupListener(Runnable listener) {
            // It has nothing to hear.
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = KEY, havingValue = "redis")
    @ConditionalOnClass(RedisConnectionFactory.class)
    static class RedisConfiguration {

        private static final boolean LETTUCE =
                ClassUtils.isPresent("io.lettuce.core.AbstractRedisClient", RedisConfiguration.class.getClassLoader());

        @Bean
        BrokerCoordinator clusterCoordinator(
                ObjectProvider<RedisConnectionFactory> factories, Schema schema, ClusterProperties properties) {
            RedisConnectionFactory factory = theOne(
                    factories,
                    "redis",
                    "RedisConnectionFactory",
                    "Add spring-boot-starter-data-redis and set spring.data.redis.*, or define one.");
            return coordinator(broker(factory, place(schema)), properties);
        }

        private static Broker broker(RedisConnectionFactory factory, String place) {
            return LETTUCE && factory instanceof LettuceConnectionFactory lettuce
                    ? new LettuceBroker(lettuce, place)
                    : new JedisBroker(factory, place);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = KEY, havingValue = "redis")
    @ConditionalOnMissingClass("org.springframework.data.redis.connection.RedisConnectionFactory")
    static class WithoutRedisConfiguration {

        @Bean
        ClusterCoordinator clusterCoordinator() {
            throw new ClusterStartupException(
                    KEY + " (redis) needs Spring Data Redis, which is not on the class path",
                    "Add spring-boot-starter-data-redis, or set %s=postgres.".formatted(KEY));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = KEY, havingValue = "jms")
    @ConditionalOnClass(ConnectionFactory.class)
    static class JmsConfiguration {

        private static final boolean SPRING_JMS = ClassUtils.isPresent(
                "org.springframework.jms.connection.SingleConnectionFactory", JmsConfiguration.class.getClassLoader());

        @Bean
        BrokerCoordinator clusterCoordinator(
                ObjectProvider<ConnectionFactory> factories, Schema schema, ClusterProperties properties) {
            ConnectionFactory factory = theOne(
                    factories,
                    "jms",
                    "jakarta.jms.ConnectionFactory",
                    "Add spring-boot-starter-activemq or spring-boot-starter-artemis and configure it, or define one.");
            return coordinator(new JmsBroker(SPRING_JMS ? Shared.behind(factory) : factory, place(schema)), properties);
        }

        /** Apart, so that Spring JMS may be absent. */
        private static final class Shared {

            // It never closes anything, and would keep the consumers of links that are over.
            static ConnectionFactory behind(ConnectionFactory factory) {
                return factory instanceof SingleConnectionFactory single && single.getTargetConnectionFactory() != null
                        ? single.getTargetConnectionFactory()
                        : factory;
            }
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = KEY, havingValue = "jms")
    @ConditionalOnMissingClass("jakarta.jms.ConnectionFactory")
    static class WithoutJmsConfiguration {

        @Bean
        ClusterCoordinator clusterCoordinator() {
            throw new ClusterStartupException(
                    KEY + " (jms) needs a JMS client, which is not on the class path",
                    "Add spring-boot-starter-activemq or spring-boot-starter-artemis, or set %s=postgres."
                            .formatted(KEY));
        }
    }

    private static BrokerCoordinator coordinator(Broker broker, ClusterProperties properties) {
        return new BrokerCoordinator(broker, properties.worker().pollInterval(), BrokerCoordinator.Timing.USUAL);
    }

    /**
     * Where the nodes of one cluster meet: clusters may share a broker. Whatever could mean something to a broker (dots,
     * stars, commas) is replaced; should two clusters meet because of that, they wake each other in vain, no more.
     */
    static String place(Schema schema) {
        return "forge-cluster.%s.%s".formatted(plain(schema.database()), plain(schema.name()));
    }

    private static String plain(String name) {
        return name.replaceAll("[^A-Za-z0-9_-]", "_");
    }

    private static <T> T theOne(ObjectProvider<T> beans, String value, String type, String action) {
        T bean;
        try {
            bean = beans.getIfAvailable();
        } catch (NoUniqueBeanDefinitionException e) {
            throw new ClusterStartupException(
                    "%s (%s): there are several %s beans, none of them primary: %s"
                            .formatted(KEY, value, type, e.getBeanNamesFound()),
                    "Put @Primary on the one to use, or define a ClusterCoordinator bean.",
                    e);
        }
        if (bean == null) {
            throw new ClusterStartupException(
                    "%s (%s) needs a %s bean, and there is none".formatted(KEY, value, type), action);
        }
        return bean;
    }
}
