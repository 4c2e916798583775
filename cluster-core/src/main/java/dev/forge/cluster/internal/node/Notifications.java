// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Sends notifications about committed changes. Other nodes find such a change without the notification, only later. So a failure
 * to send is not thrown to the caller; it is logged once until sending succeeds again.
 */
public final class Notifications {

    private static final Logger log = GuardedLogger.of(Notifications.class);

    private final Consumer<String> sender;
    private final AtomicBoolean failing = new AtomicBoolean();

    /** @param sender sends one notification, and throws if it cannot */
    public Notifications(Consumer<String> sender) {
        this.sender = sender;
    }

    public void send(String text) {
        try {
            sender.accept(text);
            failing.set(false);
        } catch (DataAccessException e) {
            // A lost connection is reported by the thread that owns the connection.
            if (DatabaseFailure.kind(e) == Kind.CONNECTION_LOST || failing.getAndSet(true)) {
                log.debug("Could not notify the other nodes: {}", text, e);
            } else {
                log.warn(
                        "Could not notify the other nodes ({}). The change is committed; other nodes find it with their next look."
                                + " Further failures are logged at DEBUG.",
                        text,
                        ErrorText.loggable(e));
            }
        }
    }
}
