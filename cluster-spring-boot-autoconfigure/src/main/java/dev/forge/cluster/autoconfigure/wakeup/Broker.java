package dev.forge.cluster.autoconfigure.wakeup;

/** What can carry a word to all nodes. Whatever it throws ends the link, and another one is opened. */
interface Broker {

    /** As {@code forge.cluster.wakeup.type} calls it. */
    String type();

    /** Where nodes of this cluster meet, for operators. */
    String place();

    /** Opens a link. May take as long as the client library wants to. */
    Link open(Ear ear) throws Exception;

    /** What one link of a node hears. Called on threads of the client library, which it does not hold up. */
    interface Ear {

        /** Whose ear this is; another one for each link. */
        String owner();

        /** What somebody said to all, or the owner to itself. */
        void hear(String text);

        /** The link is known to be broken. */
        void lost(Throwable cause);
    }

    /** A connection, used by one thread. */
    interface Link extends AutoCloseable {

        void tellAll(String text) throws Exception;

        /** Goes to the broker and comes back to this link's own ear, and to no other. */
        void tellSelf(String text) throws Exception;

        @Override
        void close();
    }
}
