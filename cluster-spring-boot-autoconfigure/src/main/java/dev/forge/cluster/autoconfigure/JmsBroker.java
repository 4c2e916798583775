package dev.forge.cluster.autoconfigure;

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
 * A JMS topic, on a connection of its own. The broker itself keeps a node's own words from it, by a selector, all but
 * those that it says to itself.
 */
record JmsBroker(ConnectionFactory factory, String place) implements Broker {

    private static final Logger log = GuardedLogger.of(JmsBroker.class);

    private static final String FROM = "forgeFrom";
    private static final String TO = "forgeTo";

    /** Old news is none; long enough for clocks that differ. */
    private static final Duration TIME_TO_LIVE = Duration.ofMinutes(1);

    @Override
    public String type() {
        return "jms";
    }

    @Override
    public Link open(Ear ear) throws JMSException {
        Connection connection = factory.createConnection();
        try {
            listenForBreaks(connection, ear);
            // One for each direction: a session that delivers messages belongs to the thread that delivers them.
            Session in = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            in.createConsumer(
                            in.createTopic(place),
                            "(%2$s IS NULL AND %1$s <> '%3$s') OR %2$s = '%3$s'".formatted(FROM, TO, ear.owner()))
                    .setMessageListener(message -> hear(message, ear));
            Session out = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = out.createTopic(place);
            MessageProducer producer = out.createProducer(topic);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            producer.setTimeToLive(TIME_TO_LIVE.toMillis());
            connection.start();
            return new JmsLink(connection, out, producer, ear.owner());
        } catch (JMSException | RuntimeException e) {
            closeAfter(e, connection);
            throw e;
        }
    }

    // Where a container keeps the connection to itself, the probes notice in its stead.
    private static void listenForBreaks(Connection connection, Ear ear) {
        try {
            connection.setExceptionListener(ear::lost);
        } catch (JMSException e) {
            log.debug("wake-ups: this connection tells nobody when it breaks", e);
        }
    }

    private static void hear(Message message, Ear ear) {
        try {
            if (message instanceof TextMessage text && text.getText() != null) {
                ear.hear(text.getText());
            }
        } catch (JMSException e) {
            log.debug("wake-ups: cannot read a message", e);
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
        public void tellAll(String text) throws JMSException {
            producer.send(message(text));
        }

        @Override
        public void tellSelf(String text) throws JMSException {
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
                log.debug("wake-ups: closing a connection", e);
            }
        }
    }
}
