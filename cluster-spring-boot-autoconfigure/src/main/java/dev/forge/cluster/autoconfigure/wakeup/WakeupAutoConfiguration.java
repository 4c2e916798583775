// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
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
 * Sends wake-ups through a broker instead of PostgreSQL if {@code forge.cluster.wakeup.type} says so and the application has no
 * {@link ClusterCoordinator} of its own. A type whose client is missing fails the start: polling instead would look like a slow cluster.
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
            return new NoWakeups();
        }
    }

    /** Sends no wake-ups: workers poll. */
    public static final class NoWakeups implements ClusterCoordinator, WakeupChannel {

        @Override
        public String type() {
            return "none";
        }

        @Override
        public void notifyNewWork(JobPriority priority) {
            // Workers find it when they poll.
        }

        @Override
        public void registerWakeupListener(Runnable listener) {
            // There are no wake-ups.
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
            RedisConnectionFactory factory = onlyBean(
                    factories,
                    "redis",
                    "RedisConnectionFactory",
                    "Add spring-boot-starter-data-redis and set spring.data.redis.*, or define one.");
            return coordinator(broker(factory, destination(schema)), properties);
        }

        private static Broker broker(RedisConnectionFactory factory, String destination) {
            return LETTUCE && factory instanceof LettuceConnectionFactory lettuce
                    ? new LettuceBroker(lettuce, destination)
                    : new JedisBroker(factory, destination);
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
            ConnectionFactory factory = onlyBean(
                    factories,
                    "jms",
                    "jakarta.jms.ConnectionFactory",
                    "Add spring-boot-starter-activemq or spring-boot-starter-artemis and configure it, or define one.");
            return coordinator(
                    new JmsBroker(SPRING_JMS ? Shared.behind(factory) : factory, destination(schema)), properties);
        }

        /** A class of its own, because Spring JMS may be absent. */
        private static final class Shared {

            // A shared connection is never closed, and would keep the consumers of closed links.
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
        return new BrokerCoordinator(broker, properties.worker().pollInterval(), BrokerTiming.DEFAULT);
    }

    /**
     * Returns the name of the channel or topic of this cluster: clusters may share a broker. Characters that may have a meaning to a
     * broker (dots, stars, commas) are replaced. Two clusters that get the same name that way only wake each other in vain.
     */
    static String destination(Schema schema) {
        return "forge-cluster.%s.%s"
                .formatted(withoutSpecialCharacters(schema.database()), withoutSpecialCharacters(schema.name()));
    }

    private static String withoutSpecialCharacters(String name) {
        return name.replaceAll("[^A-Za-z0-9_-]", "_");
    }

    private static <T> T onlyBean(ObjectProvider<T> beans, String value, String type, String action) {
        T bean;
        try {
            bean = beans.getIfAvailable();
        } catch (NoUniqueBeanDefinitionException e) {
            throw new ClusterStartupException(
                    "%s (%s): there are several %s beans, and none of them is primary: %s"
                            .formatted(KEY, value, type, e.getBeanNamesFound()),
                    "Put @Primary on the bean to use, or define a ClusterCoordinator bean.",
                    e);
        }
        if (bean == null) {
            throw new ClusterStartupException(
                    "%s (%s) needs a %s bean, but there is none".formatted(KEY, value, type), action);
        }
        return bean;
    }
}
