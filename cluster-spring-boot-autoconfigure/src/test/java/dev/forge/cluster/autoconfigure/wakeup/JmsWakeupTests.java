// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import jakarta.jms.ConnectionFactory;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.core.JmsTemplate;

@ClusterPostgres
class JmsWakeupTests extends WakeupContract {

    private @Nullable BrokerService broker;

    JmsWakeupTests(TestDatabase database) {
        super(database);
    }

    @Override
    void startBroker() throws Exception {
        var starting = new BrokerService();
        starting.setPersistent(false);
        starting.setUseJmx(false);
        starting.setUseShutdownHook(false);
        starting.addConnector("tcp://127.0.0.1:" + port);
        broker = starting;
        starting.start();
        starting.waitUntilStarted();
    }

    @Override
    void killBroker() throws Exception {
        if (broker != null) {
            broker.stop();
            broker.waitUntilStopped();
            broker = null;
        }
    }

    // Creates the connection factory as Spring Boot does.
    @Override
    ApplicationContextRunner reaching(ApplicationContextRunner runner) {
        return runner.withPropertyValues("forge.cluster.wakeup.type=jms")
                .withBean(
                        ConnectionFactory.class,
                        () -> new CachingConnectionFactory(new ActiveMQConnectionFactory("tcp://127.0.0.1:" + port)));
    }

    @Override
    void say(ApplicationContext context, String destination, String text) {
        var template = new JmsTemplate(context.getBean(ConnectionFactory.class));
        template.setPubSubDomain(true);
        template.send(destination, session -> session.createTextMessage(text));
        // These messages match the selector of the consumers.
        template.send(destination, session -> {
            var message = session.createTextMessage(text);
            message.setStringProperty("forgeFrom", "nobody");
            return message;
        });
        template.send(destination, session -> {
            var message = session.createBytesMessage();
            message.setStringProperty("forgeFrom", "nobody");
            return message;
        });
    }
}
