// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import org.slf4j.Logger;

/**
 * Logs a failure that repeats once when it begins and once when it is over, so that an outage does not fill the log. Failures
 * in between are logged at DEBUG. A {@link FailureRow} decides when it is over. Used by one thread at a time.
 */
public final class FailureLog {

    private final Logger log;
    private final String subject;
    private final FailureRow row;

    /**
     * Creates a log in which every success ends a row of failures.
     *
     * @param subject what fails, with which each line begins
     */
    public FailureLog(Logger log, String subject) {
        this(log, subject, new FailureRow(() -> 0, since -> true));
    }

    /** @param subject what fails, with which each line begins */
    FailureLog(Logger log, String subject, FailureRow row) {
        this.log = log;
        this.subject = subject;
        this.row = row;
    }

    /** Called before each try, on its thread. */
    void begin() {
        row.begin();
    }

    /**
     * Records a failure.
     *
     * @param consequence what follows from it
     */
    public void failed(String consequence, Throwable failure) {
        int failures = row.failed();
        if (failures > 1) {
            log.debug("{}: failed {} times in a row", subject, failures, failure);
        } else if (DatabaseFailure.kind(failure).isOfServer()) {
            log.warn("{}: {}: {}", subject, consequence, DatabaseFailure.brief(failure));
        } else {
            log.warn("{}: {}", subject, consequence, ErrorText.loggable(failure));
        }
    }

    /** Records the end of a try without a failure, which may end a row of failures. */
    public void succeeded() {
        int failures = row.succeeded();
        if (failures > 0) {
            log.info("{}: works again after {}", subject, FailureRow.text(failures));
        }
    }
}
