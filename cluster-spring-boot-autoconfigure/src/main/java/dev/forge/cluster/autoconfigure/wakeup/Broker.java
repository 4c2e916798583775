// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

/** A message broker that can send a text to all nodes. An exception of any method ends the link, and a new one is opened. */
interface Broker {

    /** Returns the value of {@code forge.cluster.wakeup.type}. */
    String type();

    /** Returns the name of the channel or topic of this cluster, for operators. */
    String destination();

    /** Opens a link. May block for as long as the client library does. */
    Link open(Receiver receiver) throws Exception;

    /** Receives the messages of one link. Called on threads of the client library, which it does not block. */
    interface Receiver {

        /** Returns the id of the link, under which it sends; each link has a new one. */
        String owner();

        /** Receives a text that another node published, or that this link sent to itself. */
        void receive(String text);

        /** Is told that the link is broken. */
        void lost(Throwable cause);
    }

    /** A connection to the broker, used by one thread. */
    interface Link extends AutoCloseable {

        void publish(String text) throws Exception;

        /** Sends a text through the broker to this link's own receiver, and to no other. */
        void sendToSelf(String text) throws Exception;

        @Override
        void close();
    }
}
