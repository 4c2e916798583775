// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import dev.forge.cluster.internal.log.GuardedLogger;
import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.time.Duration;
import org.slf4j.Logger;

/**
 * Uses a JMS topic on a connection of its own. A selector keeps the broker from delivering a node's own messages to it, except those
 * that the node sends to itself.
 */
record JmsBroker(ConnectionFactory factory, String destination) implements Broker {

    private static final Logger log = GuardedLogger.of(JmsBroker.class);

    private static final String FROM = "forgeFrom";
    private static final String TO = "forgeTo";

    /** How long a message is useful; long enough for clocks that differ. */
    private static final Duration TIME_TO_LIVE = Duration.ofMinutes(1);

    @Override
    public String type() {
        return "jms";
    }

    @Override
    public Link open(Receiver receiver) throws JMSException {
        Connection connection = factory.createConnection();
        try {
            listenForExceptions(connection, receiver);
            // A session for each direction: one that delivers messages may be used by the delivering thread only.
            Session in = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            in.createConsumer(
                            in.createTopic(destination),
                            "(%2$s IS NULL AND %1$s <> '%3$s') OR %2$s = '%3$s'".formatted(FROM, TO, receiver.owner()))
                    .setMessageListener(message -> receive(message, receiver));
            Session out = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = out.createTopic(destination);
            MessageProducer producer = out.createProducer(topic);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            producer.setTimeToLive(TIME_TO_LIVE.toMillis());
            connection.start();
            return new JmsLink(connection, out, producer, receiver.owner());
        } catch (JMSException | RuntimeException e) {
            closeAfter(e, connection);
            throw e;
        }
    }

    // A container may manage the connection and forbid listeners; probes notice a broken link then.
    private static void listenForExceptions(Connection connection, Receiver receiver) {
        try {
            connection.setExceptionListener(receiver::lost);
        } catch (JMSException e) {
            log.debug("Wake-ups: this JMS connection does not accept an exception listener", e);
        }
    }

    private static void receive(Message message, Receiver receiver) {
        try {
            if (message instanceof TextMessage text && text.getText() != null) {
                receiver.receive(text.getText());
            }
        } catch (JMSException e) {
            log.debug("Wake-ups: could not read a message", e);
        }
    }

    private static void closeAfter(Exception failure, Connection connection) {
        try {
            connection.close();
        } catch (JMSException e) {
            failure.addSuppressed(e);
        }
    }

    private record JmsLink(Connection connection, Session session, MessageProducer producer, String owner)
            implements Link {

        @Override
        public void publish(String text) throws JMSException {
            producer.send(message(text));
        }

        @Override
        public void sendToSelf(String text) throws JMSException {
            Message message = message(text);
            message.setStringProperty(TO, owner);
            producer.send(message);
        }

        private Message message(String text) throws JMSException {
            Message message = session.createTextMessage(text);
            message.setStringProperty(FROM, owner);
            return message;
        }

        @Override
        public void close() {
            try {
                connection.close();
            } catch (JMSException e) {
                log.debug("Wake-ups: could not close a connection", e);
            }
        }
    }
}
