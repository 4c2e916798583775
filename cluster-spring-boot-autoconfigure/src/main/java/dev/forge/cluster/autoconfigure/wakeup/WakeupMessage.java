// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Names;
import java.util.UUID;
import org.slf4j.Logger;

/** The texts that nodes send through a broker: the id of the sending link and what it announces. */
final class WakeupMessage {

    private static final Logger log = GuardedLogger.of(WakeupMessage.class);

    private static final String WORK = " work";
    private static final String PROBE = " probe";

    private WakeupMessage() {}

    /** Announces new work to the other nodes. */
    static String work(String owner) {
        return owner + WORK;
    }

    /** Checks the link: only its own sender expects it back. */
    static String probe(String owner) {
        return owner + PROBE;
    }

    /** Returns whether a text announces the work of another link. Anyone may publish there, so other texts are ignored. */
    static boolean isWorkOfAnother(String text, String owner) {
        if (!text.endsWith(WORK)) {
            return false;
        }
        String sender = text.substring(0, text.length() - WORK.length());
        try {
            return !sender.equals(owner) && UUID.fromString(sender).toString().equals(sender);
        } catch (IllegalArgumentException e) {
            log.debug("Wake-ups: ignoring a message of unknown sender '{}'", Names.printable(sender));
            return false;
        }
    }
}
