package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.ConnectionLoss;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.slf4j.Logger;

/**
 * Sends notifications about changes that are committed already. Other nodes also find such a change by themselves, only
 * later. So a failure to send never reaches the caller, whose change stands; it is logged once until sending succeeds again.
 */
final class Notifications {

    private static final Logger log = GuardedLogger.of(Notifications.class);

    private final Consumer<String> sender;
    private final AtomicBoolean failing = new AtomicBoolean();

    /** @param sender sends one notification, and throws if it cannot */
    Notifications(Consumer<String> sender) {
        this.sender = sender;
    }

    void send(String text) {
        try {
            sender.accept(text);
            failing.set(false);
        } catch (RuntimeException e) {
            // A lost connection is reported by the thread that owns the connection.
            if (ConnectionLoss.caused(e) || failing.getAndSet(true)) {
                log.debug("Could not notify the other nodes: {}", text, e);
            } else {
                log.warn(
                        "Could not notify the other nodes ({}). The change is stored; other nodes see it with their next look."
                                + " Further failures are logged at DEBUG.",
                        text,
                        ErrorText.loggable(e));
            }
        }
    }
}
